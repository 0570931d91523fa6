"""The operator off a cluster, in folders that cannot be written for a while."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from fairlead_api.documents.codec import SERVERS_NAME, catalog_name, decode
from fairlead_api.documents.servers import Servers
from fairlead_api.load import ManifestProblem
from fairlead_api.meta import ServerKey
from fairlead_api.v1alpha1.common import Resource
from fairlead_api.v1alpha1.mcpserver import McpServer, McpServerStatus
from fairlead_mcp.host import ChildHost
from fairlead_operator.local.installers import Tools
from fairlead_operator.local.localoperator import Folders, LocalObserver, LocalOperator, LocalOptions
from fairlead_operator.local.sources import Sources
from fairlead_operator.ports import Announcement
from waiting import until_async

KEY = ServerKey("default", "growing")
SCRIPT = str(Path(__file__).parents[2] / "support" / "stdio_servers" / "growing_stdio.py")


class Statuses:
    """Whether each server was ready when it was last reported."""

    def __init__(self) -> None:
        self.ready: dict[ServerKey, bool] = {}

    def on_status(self, server: McpServer, status: McpServerStatus) -> None:
        ready = status.condition("Ready")
        self.ready[server.key] = ready is not None and ready.status == "True"

    def on_announcement(self, resource: Resource, announcement: Announcement) -> None:
        """Not of interest here."""

    def on_removal(self, key: ServerKey) -> None:
        self.ready.pop(key, None)


async def test_a_catalog_that_cannot_be_written_is_a_problem_until_it_can_be(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"growing": {"command": sys.executable, "args": [SCRIPT]}}}))
    folder = tmp_path / "state" / "documents"
    in_the_way = folder / f".{catalog_name(KEY)}.json.tmp"
    in_the_way.mkdir(parents=True)
    statuses, host = Statuses(), ChildHost()
    problems: list[tuple[ManifestProblem, ...]] = [()]
    operator = LocalOperator(
        Sources([file], {}),
        Folders(folder, tmp_path / "state" / "credentials", tmp_path / "state" / "packages"),
        host,
        Tools(),
        LocalObserver(statuses=statuses, problems=problems.append),
        LocalOptions(environ={}),
    )

    async def published_files() -> list[str]:
        data = await operator.documents.read(SERVERS_NAME)
        document = None if data is None else decode(data)
        return [each.message for each in document.files] if isinstance(document, Servers) else []

    async def is_told_everywhere() -> bool:
        return bool(problems[-1]) and await published_files() == [str(problems[-1][0])]

    async def is_solved_everywhere() -> bool:
        return not problems[-1] and statuses.ready.get(KEY, False) and not await published_files()

    operator.scan()
    task = asyncio.create_task(operator.run())
    try:
        await until_async("the problem", is_told_everywhere)
        (problem,) = problems[-1]
        assert str(problem).startswith(f"{folder}: cannot be written: Is a directory; ")
        assert "free space there, or choose another folder with --state-dir" in str(problem)
        assert not statuses.ready.get(KEY)
        in_the_way.rmdir()
        await until_async("Ready", is_solved_everywhere)
    finally:
        task.cancel()
        await asyncio.wait([task])
        await host.aclose()
