"""Tools that a server lists only for clients with a capability: the registry's error names the missing capability."""

from __future__ import annotations

import sys
from pathlib import Path

from containerengine import ContainerEngine
from fairlead_client import AsyncToolRegistry, Server

GATED = str(Path(__file__).parents[2] / "support/stdio_servers/gated_stdio.py")


async def test_a_call_of_a_gated_tool_names_the_capability(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    server = Server(name="gated", command=[sys.executable, GATED, str(seen)])
    async with AsyncToolRegistry([server]) as registry:
        assert [tool.name for tool in await registry.get_all_tools()] == ["gated__plain"]
        assert len(seen.read_text().splitlines()) == 1, "the list takes one process"
        outcome = await registry.execute("gated__ask_person")
        assert outcome.error is not None
        assert outcome.error.code == "MISSING_CLIENT_CAPABILITY"
        assert "gated__ask_person needs the client capability elicitation" in str(outcome.error)
        assert "declared: {}" in str((await registry.execute("gated__plain")).result)
        names = [tool.name for tool in await registry.get_all_tools()]
        assert sorted(names) == ["gated__ask_model", "gated__ask_person", "gated__ask_roots", "gated__plain"]
        started = len(seen.read_text().splitlines())
        await registry.refresh_cache()
        assert len(seen.read_text().splitlines()) == started, "nothing has changed: no process is started for it"


async def test_a_server_that_runs_only_once_keeps_its_other_tools(tmp_path: Path) -> None:
    lock = str(tmp_path / "lock")
    seen = str(tmp_path / "seen")
    once = f"import os, runpy, sys; os.mkdir({lock!r}); sys.argv = ['', {seen!r}]; "
    command = [sys.executable, "-c", once + f"runpy.run_path({GATED!r}, run_name='__main__')"]
    async with AsyncToolRegistry([Server(name="once", command=command)]) as registry:
        assert await registry.get_tool("once__ask_person") is None
        assert [tool.name for tool in await registry.get_all_tools()] == ["once__plain"]


async def test_a_registry_starts_no_second_container_to_compare(tmp_path: Path) -> None:
    engine = ContainerEngine(tmp_path)
    server = Server(name="contained", command=[str(engine.bin / "docker"), "run", "-i", "--rm", *engine.image])
    async with AsyncToolRegistry([server]) as registry:
        assert [tool.name for tool in await registry.get_all_tools()] == ["contained__go"]
        assert await registry.get_tool("contained__ask_person") is None
        assert len(engine.containers()) == 1
