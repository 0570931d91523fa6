"""Processes and states of servers without a cluster, tested with child processes of a fake launcher."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fairlead_api.documents.catalog import ChildEndpoint, HttpEndpoint
from fairlead_api.meta import ServerKey
from fairlead_api.v1alpha1.common import Resource
from fairlead_api.v1alpha1.mcpserver import McpServer, McpServerStatus
from fairlead_mcp.errors import ConnectFailed
from fairlead_mcp.host import ChildHost
from fairlead_mcp.stdio import ChildSpec
from fairlead_operator.local.documents import DirectoryCredentialStore
from fairlead_operator.local.installers import Tools
from fairlead_operator.local.inventory import Contents, DeclaredServer, Inventory
from fairlead_operator.local.packages import PackageStore, StepRunner
from fairlead_operator.local.platform import ChildObserver, LocalConnector, LocalPlatform
from fairlead_operator.ports import Announcement, Workload
from fakeprocesses import Answer, FakeLauncher, FakeProcess, legacy, mute
from waiting import eventually

KEY = ServerKey("default", "a")
MODERN = {
    "supportedVersions": ["2026-07-28"],
    "capabilities": {},
    "resultType": "complete",
    "ttlMs": 0,
    "cacheScope": "public",
}


def answer_initialize(process: FakeProcess, message: dict[str, Any]) -> None:
    process.say({"jsonrpc": "2.0", "id": message["id"], "result": MODERN})


@dataclass
class Heard:
    """Records what the platform reports."""

    statuses: list[McpServerStatus] = field(default_factory=list)
    gone: list[ServerKey] = field(default_factory=list)

    def on_status(self, server: McpServer, status: McpServerStatus) -> None:
        self.statuses.append(status)

    def on_announcement(self, resource: Resource, announcement: Announcement) -> None:
        """Ignore announcements."""

    def on_removal(self, key: ServerKey) -> None:
        self.gone.append(key)


@dataclass
class World:
    """One platform with its parts."""

    inventory: Inventory
    launcher: FakeLauncher
    children: ChildHost
    heard: Heard
    platform: LocalPlatform
    woken: asyncio.Event

    def declare(self, spec: dict[str, Any], **more: Any) -> None:
        server = McpServer.model_validate({"metadata": {"name": "a", "namespace": "default"}, "spec": spec})
        self.inventory.replace(Contents(servers={KEY: DeclaredServer(server, **more)}))

    async def ensure(self) -> Workload:
        server = await self.platform.get(KEY)
        assert server is not None
        return await self.platform.ensure(server, await self.platform.credential(server))

    async def ensure_running(self) -> Workload:
        """The workload, after the process has answered."""
        while (workload := await self.ensure()).verdict.ok is None:
            self.woken.clear()
            async with asyncio.timeout(5):
                await self.woken.wait()
        return workload


@asynccontextmanager
async def world(folder: Path) -> AsyncIterator[World]:
    launcher = FakeLauncher(answer_initialize)
    heard = Heard()
    inventory = Inventory()
    children = ChildHost(launcher=launcher)
    packages = PackageStore(folder, Tools(), StepRunner(), on_change=lambda package: woken.set())
    credentials = DirectoryCredentialStore(folder / "credentials")
    platform = LocalPlatform(inventory, children, packages, credentials, heard, environ={"PATH": "/bin"})
    woken = asyncio.Event()
    children.listen(ChildObserver(lambda key: woken.set(), lambda key: None))
    try:
        yield World(inventory, launcher, children, heard, platform, woken)
    finally:
        await packages.close()
        await children.aclose()


async def test_a_command_becomes_one_process_with_its_environment(tmp_path: Path) -> None:
    async with world(tmp_path) as bench:
        bench.declare({"command": [sys.executable, "-m", "x", "y"], "env": [{"name": "A", "value": "1"}]}, cwd="/")
        assert (await bench.ensure()).verdict.cause == "Deploying"
        workload = await bench.ensure_running()
        assert workload.endpoint == ChildEndpoint(command=sys.executable, args=("-m", "x", "y"), cwd="/")
        assert workload.verdict.cause == "Programmed"
        assert workload.outage is None
        (spec,) = bench.launcher.specs
        assert (spec.command, spec.args, spec.env, spec.cwd) == (sys.executable, ("-m", "x", "y"), (("A", "1"),), "/")


async def test_a_package_that_npx_fetches_is_told_until_its_program_starts(tmp_path: Path) -> None:
    async with world(tmp_path) as bench:
        bench.launcher.answer = mute
        bench.declare({"command": [sys.executable]})
        await bench.ensure()
        await eventually(lambda: bool(bench.launcher.launched))
        bench.launcher.launched[0].events.on_step("fetching x with npx")
        verdict = (await bench.ensure()).verdict
        assert (verdict.ok, verdict.cause, verdict.message) == (None, "Installing", "fetching x with npx")
        bench.launcher.launched[0].events.on_step("")
        assert (await bench.ensure()).verdict.cause == "Deploying"


async def test_an_equal_spec_keeps_its_process_and_another_one_replaces_it(tmp_path: Path) -> None:
    async with world(tmp_path) as bench:
        bench.declare({"command": [sys.executable]})
        first = await bench.ensure_running()
        assert await bench.ensure_running() == first
        bench.declare({"command": [sys.executable, "other"]})
        await bench.ensure_running()
        assert [spec.args for spec in bench.launcher.specs] == [(), ("other",)]
        assert [process.stopped for process in bench.launcher.launched] == [True, False]


async def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    async with world(tmp_path) as bench:
        bench.declare({"command": ["no-such-program"]})
        workload = await bench.ensure()
        assert (workload.verdict.ok, workload.verdict.cause) == (False, "CommandNotFound")
        assert workload.verdict.message == "there is no program no-such-program on this machine"
        assert workload.endpoint is None


async def test_a_relative_path_of_a_program_that_is_not_there_is_named_with_its_folder(tmp_path: Path) -> None:
    async with world(tmp_path) as bench:
        bench.declare({"command": ["./nothere.sh"]}, cwd=str(tmp_path))
        assert (await bench.ensure()).verdict.message == f"there is no program ./nothere.sh in {tmp_path}"
        bench.declare({"command": ["./nothere.sh"]})
        assert (await bench.ensure()).verdict.message == f"there is no program ./nothere.sh in {Path.cwd()}"
        bench.declare({"command": ["/nothere.sh"]})
        assert (await bench.ensure()).verdict.message == "there is no program /nothere.sh on this machine"


async def test_a_file_that_is_not_executable_and_a_folder_are_not_taken_for_programs_that_are_missing(
    tmp_path: Path,
) -> None:
    script = tmp_path / "server.py"
    script.write_text("#!/usr/bin/env python3\n")
    script.chmod(0o644)
    async with world(tmp_path) as bench:
        bench.declare({"command": ["./server.py"]}, cwd=str(tmp_path))
        verdict = (await bench.ensure()).verdict
        assert verdict.cause == "StartFailed"
        assert verdict.message == (
            f"./server.py cannot be started: it is not executable; make it so: chmod +x {script}"
        )
        bench.declare({"command": [str(tmp_path)]})
        message = (await bench.ensure()).verdict.message
        assert message == f"{tmp_path} cannot be started: it is a folder, not a program"


async def test_a_folder_that_is_not_there_is_named_and_not_the_program(tmp_path: Path) -> None:
    async with world(tmp_path) as bench:
        bench.declare({"command": ["./run"]}, cwd="/no/such/folder")
        workload = await bench.ensure()
        assert (workload.verdict.ok, workload.verdict.cause) == (False, "StartFailed")
        sentence = "./run cannot be started: its working directory (cwd) /no/such/folder does not exist"
        assert workload.verdict.message == sentence


async def test_a_process_that_never_comes_up_is_not_programmed(tmp_path: Path) -> None:
    async with world(tmp_path) as bench:
        bench.launcher.refusal = ConnectFailed("x cannot be started (no)", reason="StartFailed")
        bench.declare({"command": [sys.executable]})
        workload = await bench.ensure_running()
        assert (workload.verdict.ok, workload.verdict.cause, workload.outage) == (False, "StartFailed", None)
        assert workload.endpoint is not None


async def test_a_process_that_ran_and_is_gone_is_down(tmp_path: Path) -> None:
    async with world(tmp_path) as bench:
        bench.declare({"command": [sys.executable]})
        before = await bench.ensure_running()
        bench.launcher.refusal = ConnectFailed("x is gone", reason="Unreachable")
        bench.woken.clear()
        bench.launcher.launched[0].die()
        await bench.woken.wait()
        workload = await bench.ensure()
        assert workload.verdict.ok is True
        assert workload.outage is not None
        assert workload.outage.ok is False
        assert "exited with code 1" in workload.outage.message
        assert workload.endpoint == before.endpoint


async def test_a_url_needs_no_process(tmp_path: Path) -> None:
    async with world(tmp_path) as bench:
        bench.declare({"command": [sys.executable]})
        await bench.ensure_running()
        bench.declare({"url": "http://127.0.0.1:9/mcp", "remote": {"hostHeader": "a"}})
        workload = await bench.ensure()
        assert workload.endpoint == HttpEndpoint(url="http://127.0.0.1:9/mcp", host_header="a")
        assert bench.children.find(KEY) is None


async def test_a_package_waits_for_its_installation_and_says_why_it_failed(tmp_path: Path) -> None:
    async with world(tmp_path) as bench:
        bench.declare({"package": {"registry": "npm", "name": "x", "version": "1.0.0"}})
        assert (await bench.ensure()).verdict.cause == "Installing"
        workload = await bench.ensure_running()
        assert (workload.verdict.ok, workload.verdict.cause) == (False, "InstallFailed")
        assert "npm is not installed on this machine" in workload.verdict.message
        (package,) = bench.platform.needed_packages()
        assert bench.platform.users_of(package) == [KEY]


async def test_a_server_whose_references_lead_nowhere_is_not_started(tmp_path: Path) -> None:
    async with world(tmp_path) as bench:
        source = {"secretKeyRef": {"name": "none", "key": "k"}}
        bench.declare({"command": [sys.executable], "env": [{"name": "A", "valueFrom": source}]})
        assert (await bench.ensure()).endpoint is None
        assert bench.launcher.specs == []


async def test_a_status_is_kept_and_told_once(tmp_path: Path) -> None:
    async with world(tmp_path) as bench:
        bench.declare({"command": [sys.executable]})
        server = await bench.platform.get(KEY)
        assert server is not None
        status = McpServerStatus(tools=3)
        await bench.platform.report(server, status)
        await bench.platform.report(server, status)
        assert bench.heard.statuses == [status]
        again = await bench.platform.get(KEY)
        assert again is not None
        assert again.status == status


@pytest.mark.parametrize("by", ["forget", "sweep"])
async def test_a_server_that_is_gone_leaves_nothing_behind(by: str, tmp_path: Path) -> None:
    async with world(tmp_path) as bench:
        bench.declare({"command": [sys.executable], "env": [{"name": "A", "value": "1"}]})
        await bench.ensure_running()
        server = await bench.platform.get(KEY)
        assert server is not None
        await bench.platform.report(server, McpServerStatus())
        bench.inventory.replace(Contents())
        await (bench.platform.forget(KEY) if by == "forget" else bench.platform.sweep([]))
        assert bench.children.find(KEY) is None
        assert list((tmp_path / "credentials").iterdir()) == []
        assert bench.heard.gone == [KEY]
        assert await bench.platform.get(KEY) is None


async def test_a_list_that_changed_and_a_process_that_changed_are_told_apart() -> None:
    woken: list[ServerKey] = []
    relisted: list[ServerKey] = []
    wakening = ChildObserver(woken.append, relisted.append)
    children = ChildHost(launcher=FakeLauncher(answer_initialize))
    child = children.get(KEY, ChildSpec.of("x"))
    wakening.child_notified(KEY, child, "notifications/tools/list_changed", b"{}")
    wakening.child_notified(KEY, child, "notifications/message", b"{}")
    wakening.child_changed("not a server", child)
    assert (woken, relisted) == ([], [KEY])
    wakening.child_changed(KEY, child)
    assert woken == [KEY]
    await children.aclose()


async def test_a_server_that_ends_others_of_itself_is_started_again_and_has_no_second_process(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with world(tmp_path) as bench:
        bench.launcher.answer = answer_after_ending_others(bench.launcher)
        bench.declare({"command": [sys.executable]})
        endpoint = (await bench.ensure_running()).endpoint
        assert endpoint is not None
        connector = LocalConnector(bench.children)
        for _ in range(3):
            with pytest.raises(ConnectFailed, match="Fairlead started a second process of it"):
                async with connector.session(KEY, endpoint, None, capabilities=b"{}"):
                    pass
        child = bench.children.find(KEY)
        assert child is not None
        await child.wait_until_ready(child.clock() + 5)
        assert len(bench.launcher.launched) == 3  # the server, the second process, the server
        assert child.starts == 2
        assert sum("it is restarted" in record.message for record in caplog.records) == 1
        assert any("Fairlead started a second process" in line.text for line in child.program.printed.after())


def answer_after_ending_others(launcher: FakeLauncher) -> Answer:
    """A legacy server that ends its own earlier processes before its handshake."""

    def answer(process: FakeProcess, message: dict[str, Any]) -> None:
        if message["method"] == "initialize":
            for other in launcher.launched[: process.pid - 1]:
                if not other.stopped:
                    other.stopped = True
                    other.die("was ended by SIGKILL")
        legacy(process, message)

    return answer
