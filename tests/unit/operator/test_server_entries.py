"""Entries about servers that are not ready: each state, and the document with the entries."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from fairlead_api.documents.catalog import Catalog
from fairlead_api.documents.codec import SERVERS_NAME, catalog_name, decode
from fairlead_api.documents.servers import MESSAGE_CHARS, OVERDUE, ServerEntry, Servers, worth_waiting
from fairlead_api.meta import ServerKey
from fairlead_api.v1alpha1.causes import REASON_OF, Cause, cause_of, sentence
from fairlead_api.v1alpha1.condition_types import Reason
from fairlead_api.v1alpha1.mcpserver import McpServerStatus
from fairlead_mcp.child import START_SECONDS
from fairlead_mcp.errors import ConnectFailed, Timeout
from fairlead_operator.clocks import Clocks
from fairlead_operator.compose import InstallationOptions, compose
from fairlead_operator.controller import Controller, PlatformAdapters
from fairlead_operator.ports import ConditionVerdict, ResolvedCredential, Workload
from fairlead_operator.publish.servers import ServerEntries
from fairlead_operator.server.document_entries import entry_for, state_of
from fairlead_operator.server.prefixes import Prefixes
from operatorfakes import (
    NOW,
    RUNS,
    MemoryDeclarations,
    MemoryDocuments,
    MemoryPlatform,
    Script,
    ScriptedConnector,
    mcp_server,
    tool_named,
)
from virtualtime import in_virtual_time

pytestmark = in_virtual_time
KEY = ServerKey("team", "demo")
REFUSED = ConnectFailed("nothing listens there", reason="ConnectionRefused")
STARTS = Workload(ConditionVerdict(None, Cause.DEPLOYING, "the server's process is starting"), None)


@dataclass
class Bench:
    """One server `demo` with a tool, in memory, and its controller."""

    spec: dict[str, Any] = field(default_factory=dict)
    script: Script = field(default_factory=lambda: Script(tools=[tool_named("a")]))
    platform: MemoryPlatform = field(default_factory=MemoryPlatform)
    documents: MemoryDocuments = field(default_factory=MemoryDocuments)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Controller]:
        self.platform.declare(mcp_server("demo", **self.spec))
        connector = ScriptedConnector({KEY: self.script})
        adapters = PlatformAdapters(self.platform, self.documents, connector, MemoryDeclarations())
        controller = compose(
            adapters, InstallationOptions(clocks=Clocks(now=lambda: NOW, monotonic=asyncio.get_running_loop().time))
        )
        task = asyncio.create_task(controller.run())
        await asyncio.sleep(0.5)
        try:
            yield controller
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def ready(self) -> tuple[str, str]:
        condition = self.platform.servers[KEY].status.condition("Ready")
        assert condition is not None
        return condition.status, str(cause_of(condition)[0])

    async def entry(self) -> ServerEntry | None:
        """The server's entry, as gateways read it."""
        data = await self.documents.read(SERVERS_NAME)
        document = decode(data) if data is not None else Servers()
        assert isinstance(document, Servers)
        return next(iter(document.servers), None)

    async def expect_entry(self) -> ServerEntry:
        entry = await self.entry()
        assert entry is not None
        return entry


def status(ready: str, cause: str, message: str = "why", **more: Any) -> McpServerStatus:
    condition = {
        "type": "Ready",
        "status": ready,
        "reason": REASON_OF[Cause(cause)],
        "message": sentence(Cause(cause), message),
        "lastTransitionTime": "2026-11-20T12:00:00Z",
    }
    return McpServerStatus.model_validate({"conditions": [condition], **more})


@pytest.mark.parametrize(
    ("shown", "state"),
    [
        (McpServerStatus(), "waiting"),
        (status("Unknown", "Installing"), "installing"),
        (status("Unknown", "Deploying"), "starting"),
        (status("Unknown", "Silent"), "starting"),
        (status("False", "StartFailed"), "failed"),
        (status("False", "ConnectionLost", toolsOffline=2), "offline"),
        (status("False", "Stopped"), "stopped"),
        (status("False", "Stopped", toolsOffline=2), "stopped"),
        (status("True", "Verified"), "ready"),
    ],
)
def test_each_status_is_one_state(shown: McpServerStatus, state: str) -> None:
    assert state_of(shown) == state


def test_a_server_that_is_simply_ready_needs_no_entry_and_one_with_something_to_mend_does() -> None:
    assert entry_for(KEY, "demo", status("True", "Verified")) is None
    mended = entry_for(KEY, "demo", status("True", "InvalidSchemas", "tool a"))
    assert mended == ServerEntry(
        namespace="team",
        name="demo",
        prefix="demo",
        state="ready",
        reason="VerifiedInPart",
        cause="InvalidSchemas",
        message="tool a",
    )


@pytest.mark.parametrize(
    ("condition", "asking", "cause"),
    [
        ("PartiallyInvalid", "True", "PatternsMatchNothing"),
        ("Approved", "False", "ChangesHeldBack"),
        ("DefinitionsClean", "False", "SpeaksToTheModel"),
    ],
)
def test_a_ready_server_that_asks_for_something_has_an_entry_that_says_so(
    condition: str, asking: str, cause: str
) -> None:
    shown = status("True", "Verified")
    other = status(asking, cause, "look at it").conditions[0].model_copy(update={"type": condition})
    entry = entry_for(KEY, "demo", shown.model_copy(update={"conditions": [*shown.conditions, other]}))
    assert entry is not None
    assert (entry.state, entry.cause) == ("ready", cause)
    assert "look at it" in entry.message


def test_messages_of_a_server_are_bounded_in_the_document() -> None:
    server_entry = entry_for(KEY, None, status("False", "StartFailed", "x" * 2000))
    assert server_entry is not None
    assert len(server_entry.message) == MESSAGE_CHARS


async def test_a_server_is_entered_before_it_answered_and_not_any_more_afterwards() -> None:
    bench = Bench(script=Script(tools=[tool_named("a")], takes=5))
    async with bench.running():
        assert ((await bench.expect_entry()).state, (await bench.expect_entry()).prefix) == ("starting", "demo")
        await asyncio.sleep(10)
        assert await bench.entry() is None
    assert bench.ready() == ("True", "Verified")


async def test_a_server_that_does_not_answer_is_said_to_be_silent_after_ten_seconds() -> None:
    bench = Bench(script=Script(tools=[tool_named("a")], takes=20))
    async with bench.running():
        await asyncio.sleep(8)
        assert (await bench.expect_entry()).cause == "NotDiscovered"
        await asyncio.sleep(5)
        server_entry = await bench.expect_entry()
        assert (server_entry.state, server_entry.reason, server_entry.cause) == ("starting", "Pending", "Silent")
        assert "10 s ago" in server_entry.message
        assert bench.ready() == ("Unknown", "Silent")
        await asyncio.sleep(60)
    assert bench.ready() == ("True", "Verified")


async def test_a_server_whose_process_says_nothing_for_a_whole_discovery_is_still_silent() -> None:
    starting = Timeout("team/demo is still starting", sent=False, reason="Silent")
    bench = Bench(script=Script(error=starting))
    async with bench.running():
        assert bench.ready() == ("Unknown", "Silent")
        server_entry = await bench.expect_entry()
        assert (server_entry.state, server_entry.reason, server_entry.cause) == ("starting", "Pending", "Silent")
        assert "run its command by hand" in server_entry.message


async def test_a_server_whose_process_says_nothing_for_two_minutes_has_failed_to_start() -> None:
    starting = Timeout("team/demo is still starting", sent=False, reason="Silent")
    bench = Bench(script=Script(error=starting))
    async with bench.running():
        await asyncio.sleep(START_SECONDS - 10)
        assert bench.ready() == ("Unknown", "Silent")
        await asyncio.sleep(2 * 80)  # two pauses after failed discoveries, the first of which began before the limit
        assert bench.ready() == ("False", "StartTimeout")
        assert (await bench.expect_entry()).state == "failed"
        assert "fairlead.dev/server=demo " in (await bench.expect_entry()).message, "a command to paste"
        bench.script.error = None
        await asyncio.sleep(80)
        assert bench.ready() == ("True", "Verified")


async def test_a_server_that_failed_is_entered_with_its_reason_and_leaves_with_its_resource() -> None:
    bench = Bench(script=Script(error=REFUSED))
    async with bench.running() as controller:
        server_entry = await bench.expect_entry()
        assert (server_entry.state, server_entry.reason, server_entry.cause) == (
            "failed",
            "Unreachable",
            "ConnectionRefused",
        )
        assert "nothing listens there" in server_entry.message
        del bench.platform.servers[KEY]
        controller.queue.add(KEY)
        await asyncio.sleep(5)
        assert await bench.entry() is None


async def test_a_refresh_of_a_server_that_cannot_be_asked_says_why() -> None:
    bench = Bench()
    bench.platform.workload = Workload(ConditionVerdict(False, Cause.START_FAILED, "demo exited with code 3"), None)
    async with bench.running() as controller:
        assert (await bench.expect_entry()).refreshed is None
        controller.reconciler.refresh(KEY)
        await asyncio.sleep(5)
        refreshed = (await bench.expect_entry()).refreshed
        assert refreshed is not None
        assert refreshed.failure == "demo exited with code 3"
    assert bench.platform.retried == [KEY], "the platform starts it again"


async def test_a_refresh_waits_for_a_server_that_is_on_its_way_and_is_answered_by_its_catalog() -> None:
    bench = Bench()
    bench.platform.workload = STARTS
    async with bench.running() as controller:
        controller.reconciler.refresh(KEY)
        await asyncio.sleep(5)
        assert (await bench.expect_entry()).refreshed is None, "there is no answer yet"
        bench.platform.workload = RUNS
        controller.queue.add(KEY)
        await asyncio.sleep(5)
        catalog = decode(await bench.documents.read(catalog_name(KEY)) or b"")
    assert isinstance(catalog, Catalog)
    assert catalog.refreshed is not None
    assert catalog.refreshed.failure == ""


async def test_a_refresh_that_waits_outlasts_a_process_that_comes_and_goes() -> None:
    bench = Bench(script=Script(tools=[tool_named("a")], takes=100))
    async with bench.running() as controller:
        await asyncio.sleep(2)
        controller.reconciler.refresh(KEY)
        bench.platform.workload = STARTS
        controller.queue.add(KEY)
        await asyncio.sleep(2)
        bench.script.takes = 0.0
        bench.platform.workload = RUNS
        controller.queue.add(KEY)
        await asyncio.sleep(5)
        catalog = decode(await bench.documents.read(catalog_name(KEY)) or b"")
    assert isinstance(catalog, Catalog)
    assert catalog.refreshed is not None


async def test_a_refresh_of_a_server_whose_secret_is_missing_says_so() -> None:
    bench = Bench()
    bench.platform.resolved = ResolvedCredential(
        ConditionVerdict(False, Cause.SECRET_NOT_FOUND, "there is no Secret key")
    )
    bench.platform.workload = Workload(
        ConditionVerdict(None, Cause.PENDING, "the server's references are not resolved"), None
    )
    async with bench.running() as controller:
        controller.reconciler.refresh(KEY)
        await asyncio.sleep(5)
        refreshed = (await bench.expect_entry()).refreshed
        assert refreshed is not None
        assert refreshed.failure == "there is no Secret key"


async def test_a_refresh_of_a_server_whose_spec_is_refused_says_so() -> None:
    bench = Bench(
        {
            "unrestrictedPodTemplate": {"spec": {"hostNetwork": True}},
            "url": None,
            "image": {"name": "registry.example/a:1"},
        }
    )
    async with bench.running() as controller:
        assert (await bench.expect_entry()).state == "failed"
        controller.reconciler.refresh(KEY)
        await asyncio.sleep(5)
        refreshed = (await bench.expect_entry()).refreshed
        assert refreshed is not None
        assert "unrestrictedPodTemplate" in refreshed.failure


async def test_an_operator_that_starts_keeps_what_is_known_of_servers_it_has_not_looked_at() -> None:
    documents = MemoryDocuments()
    before, after = (ServerEntries(documents, Prefixes("name")) for _ in range(2))
    before.put(KEY, ServerEntry(namespace="team", name="demo", state="failed", reason="StartFailed"))
    assert await before.publish()
    await after.restore()
    assert not await after.publish(), "nothing has changed"
    after.add(ServerEntry(namespace="team", name="demo", state="waiting"))
    assert not await after.publish(), "what is known comes before what is not"
    after.retain([])
    assert await after.publish()


async def test_many_changes_without_a_pause_are_few_writes() -> None:
    bench = Bench(script=Script(error=REFUSED))
    async with bench.running() as controller:
        await asyncio.sleep(30)
        writes = bench.documents.writes
        for number in range(200):
            controller.entries.put(KEY, ServerEntry(namespace="team", name="demo", state="failed", message=str(number)))
            await asyncio.sleep(0.05)
        await asyncio.sleep(5)
        assert bench.documents.writes - writes < 20, "ten seconds with twenty changes in each"


def test_causes_that_nobody_waits_for_are_causes_of_a_server_on_its_way() -> None:
    assert {REASON_OF[Cause(word)] for word in OVERDUE} == {Reason.PENDING}
    assert not worth_waiting("starting", Cause.PROBE_FAILED)
    assert worth_waiting("starting", Cause.DEPLOYING)
