"""Reconciles of servers in memory, in virtual time. The tests check the resulting state, not the calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from fairlead_api.documents.catalog import Catalog
from fairlead_api.documents.codec import RULES_NAME, SERVERS_NAME, catalog_name, decode
from fairlead_api.documents.servers import Servers
from fairlead_api.meta import ServerKey
from fairlead_api.v1alpha1.causes import Cause, cause_of
from fairlead_api.v1alpha1.condition_types import ConditionType
from fairlead_api.v1alpha1.latencytier import LatencyTier
from fairlead_kube.errors import ApiError, Forbidden
from fairlead_mcp.child import START_SECONDS
from fairlead_mcp.errors import ConnectFailed, Timeout
from fairlead_operator.clocks import Clocks
from fairlead_operator.compose import InstallationOptions, compose
from fairlead_operator.controller import Controller, ControllerOptions, PlatformAdapters
from fairlead_operator.discovery.state import DiscoveryOptions
from fairlead_operator.outcome import Stalled, Waiting
from fairlead_operator.ports import ConditionVerdict, PlatformTrouble, ResolvedCredential, Workload
from fairlead_operator.reconciler import ReconcilerOptions
from fairlead_operator.telemetry import Telemetry
from fairlead_operator.workqueue import ItemBackoff
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


@dataclass
class Bench:
    """Adapters in memory, and controllers that tests run with them."""

    platform: MemoryPlatform = field(default_factory=MemoryPlatform)
    documents: MemoryDocuments = field(default_factory=MemoryDocuments)
    connector: ScriptedConnector = field(default_factory=ScriptedConnector)
    declarations: MemoryDeclarations = field(default_factory=MemoryDeclarations)
    telemetry: Telemetry = field(default_factory=Telemetry)
    controller: Controller | None = None

    def declare(self, name: str = "demo", *tools: str, **spec: Any) -> Script:
        server = mcp_server(name, **spec)
        self.platform.declare(server)
        script = self.connector.scripts[server.key] = Script(tools=[tool_named(tool) for tool in tools])
        return script

    @asynccontextmanager
    async def running(self, **options: Any) -> AsyncIterator[Controller]:
        adapters = PlatformAdapters(self.platform, self.documents, self.connector, self.declarations)
        pace = DiscoveryOptions(timeout=60, floor=30, jitter=0, retry=ItemBackoff(first=1, limit=60, jitter=0))
        installation = InstallationOptions(
            reconciler=ReconcilerOptions(**{"discovery": pace, **options}),
            controller=ControllerOptions(backoff=ItemBackoff(first=1, limit=60, jitter=0)),
            clocks=Clocks(now=lambda: NOW, monotonic=asyncio.get_running_loop().time),
        )
        controller = compose(adapters, installation, telemetry=self.telemetry)
        task = asyncio.create_task(controller.run())
        await asyncio.sleep(0.5)
        try:
            yield controller
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def ready(self, name: str = "demo") -> tuple[str, str]:
        condition = self.platform.servers[ServerKey("team", name)].status.condition("Ready")
        assert condition is not None
        return condition.status, str(cause_of(condition)[0])

    async def catalog(self, name: str = "demo") -> Catalog | None:
        data = await self.documents.read(catalog_name(ServerKey("team", name)))
        document = decode(data) if data else None
        assert document is None or isinstance(document, Catalog)
        return document


async def test_a_server_that_answers_is_published_and_ready() -> None:
    bench = Bench()
    bench.declare("demo", "a", "b")
    async with bench.running():
        catalog = await bench.catalog()
    assert bench.ready() == ("True", "Verified")
    assert catalog is not None
    assert [tool.name for tool in catalog.tools] == ["a", "b"]
    assert [(n.kind, n.reason) for n in bench.platform.announced] == [
        ("Normal", "CatalogPublished"),
        ("Normal", "Ready"),
    ]


async def test_the_reconciler_writes_nothing_while_nothing_changes() -> None:
    bench = Bench()
    bench.declare("demo", "a")
    async with bench.running():
        writes = bench.documents.writes
        reports = len(bench.platform.reported)
        await asyncio.sleep(6 * 3600)
    assert (bench.documents.writes, len(bench.platform.reported)) == (writes, reports)
    assert bench.connector.scripts[KEY].connections > 30


async def test_a_server_is_asked_at_its_interval_and_not_below_the_floor() -> None:
    bench = Bench()
    slow = bench.declare("slow", discovery={"interval": "10m"})
    fast = bench.declare("fast", discovery={"interval": "30s"})
    async with bench.running(discovery=DiscoveryOptions(floor=60, jitter=0)):
        await asyncio.sleep(3600 - 1)
    assert (slow.connections, fast.connections) == (6, 60)


async def test_a_server_that_hangs_delays_no_other_and_ends_in_a_timeout() -> None:
    bench = Bench()
    for number in range(40):
        bench.declare(f"hangs{number}").hang = True
    bench.declare("demo", "a")
    async with bench.running():
        assert bench.ready() == ("True", "Verified")
        await asyncio.sleep(1)
        assert bench.ready("hangs0") == ("Unknown", "NotDiscovered")
        await asyncio.sleep(61)
        assert bench.ready("hangs0") == ("False", "Timeout")


async def test_a_server_that_answers_soon_has_its_status_written_once_and_a_slow_one_is_shown_as_asked() -> None:
    bench = Bench()
    bench.declare("demo", "a")
    bench.declare("slow", "a").hang = True
    async with bench.running():
        assert len(bench.platform.reported) == 1
        assert bench.ready() == ("True", "Verified")
        await asyncio.sleep(1)
        assert bench.ready("slow") == ("Unknown", "NotDiscovered")


async def test_a_failing_server_is_tried_again_with_growing_pauses() -> None:
    bench = Bench()
    script = bench.declare("demo", "a")
    script.error = REFUSED
    async with bench.running():
        assert bench.ready() == ("False", "ConnectionRefused")
        assert await bench.catalog() is None
        await asyncio.sleep(31)
        assert script.connections == 6
        script.error = None
        await asyncio.sleep(60)
    assert bench.ready() == ("True", "Verified")


@pytest.mark.parametrize("policy", ["MarkOffline", "Remove"])
async def test_a_loss_keeps_the_catalog_offline_or_removes_it(policy: str) -> None:
    bench = Bench()
    script = bench.declare("demo", "a", discovery={"interval": "30s", "onDisconnect": policy})
    async with bench.running():
        script.error = REFUSED
        await asyncio.sleep(31)
        catalog = await bench.catalog()
        assert bench.ready() == ("False", "ConnectionRefused")
        assert (catalog is not None and not catalog.online) is (policy == "MarkOffline")
        script.error = None
        await asyncio.sleep(31)
        catalog = await bench.catalog()
        assert catalog is not None
        assert catalog.online


async def test_a_restart_writes_nothing_and_keeps_what_is_shown_until_the_server_has_answered() -> None:
    bench = Bench()
    script = bench.declare("demo", "a")
    async with bench.running():
        assert bench.ready() == ("True", "Verified")
    writes = bench.documents.writes
    reports = len(bench.platform.reported)
    script.hang = True
    async with bench.running():
        assert bench.ready() == ("True", "Verified")
        catalog = await bench.catalog()
        assert catalog is not None
        assert catalog.online
    assert (bench.documents.writes, len(bench.platform.reported)) == (writes, reports)


async def test_after_a_restart_a_process_of_the_operator_that_says_nothing_yet_takes_no_server_offline() -> None:
    bench = Bench()
    script = bench.declare("demo", "a")
    async with bench.running():
        assert bench.ready() == ("True", "Verified")
    script.error = Timeout("n/demo is still starting", sent=False, reason="Silent")
    async with bench.running():
        await asyncio.sleep(START_SECONDS / 2)
        catalog = await bench.catalog()
        assert bench.ready() == ("True", "Verified")
        assert catalog is not None
        assert catalog.online
        await asyncio.sleep(START_SECONDS)
        catalog = await bench.catalog()
        assert bench.ready() == ("False", "StartTimeout")
        assert catalog is not None
        assert not catalog.online


async def test_a_server_that_is_gone_loses_everything_that_was_kept_of_it() -> None:
    bench = Bench()
    bench.declare("demo", "a")
    async with bench.running() as controller:
        del bench.platform.servers[KEY]
        controller.queue.add(KEY)
        await asyncio.sleep(1)
        assert await bench.catalog() is None
    assert bench.platform.forgotten == [KEY]


async def test_remains_of_a_server_deleted_before_this_operator_led_are_swept() -> None:
    bench = Bench()
    bench.declare("demo", "a")
    async with bench.running():
        assert await bench.catalog() is not None
    del bench.platform.servers[KEY]
    async with bench.running():
        assert await bench.catalog() is None
    assert bench.platform.swept[-1] == set()


async def test_a_server_recreated_under_its_old_name_does_not_inherit_the_catalog() -> None:
    bench = Bench()
    bench.declare("demo", "a")
    async with bench.running():
        assert await bench.catalog() is not None
    bench.platform.declare(mcp_server("demo", uid="another"))
    bench.connector.scripts[KEY].error = REFUSED
    async with bench.running():
        assert await bench.catalog() is None


async def test_a_server_that_does_not_run_yet_is_not_asked() -> None:
    bench = Bench()
    script = bench.declare("demo", "a", image={"name": "demo:1"})
    bench.platform.workload = replace(RUNS, verdict=ConditionVerdict(None, Cause.DEPLOYING, "no pod yet"))
    async with bench.running() as controller:
        assert bench.ready() == ("Unknown", "Deploying")
        assert script.connections == 0
        bench.platform.workload = RUNS
        controller.queue.add(KEY)
        await asyncio.sleep(1)
        assert bench.ready() == ("True", "Verified")


async def test_a_server_that_comes_back_is_asked_at_once_and_so_is_one_that_was_replaced() -> None:
    bench = Bench()
    script = bench.declare("demo", "a", image={"name": "demo:1"})
    async with bench.running() as controller:
        for workload in (
            replace(RUNS, outage=ConditionVerdict(False, Cause.UNREACHABLE, "no pod")),
            RUNS,
            replace(RUNS, revision="2"),
        ):
            bench.platform.workload = workload
            controller.queue.add(KEY)
            await asyncio.sleep(1)
    assert script.connections == 3


async def test_a_reference_that_leads_nowhere_keeps_the_server_from_being_asked_and_offline() -> None:
    bench = Bench()
    script = bench.declare("demo", "a")
    async with bench.running() as controller:
        bench.platform.resolved = ResolvedCredential(ConditionVerdict(False, Cause.SECRET_NOT_FOUND, "no Secret key"))
        controller.queue.add(KEY)
        await asyncio.sleep(1)
        assert bench.ready() == ("False", "SecretNotFound")
        catalog = await bench.catalog()
        assert catalog is not None
        assert not catalog.online
    assert script.connections == 1


async def test_references_that_cannot_be_read_now_change_nothing() -> None:
    bench = Bench()
    bench.declare("demo", "a")
    async with bench.running() as controller:
        bench.platform.resolved = ResolvedCredential(ConditionVerdict(None, Cause.REFS_UNREADABLE, "not now"))
        controller.queue.add(KEY)
        await asyncio.sleep(1)
        catalog = await bench.catalog()
    assert catalog is not None
    assert catalog.online
    verified = bench.platform.servers[KEY].status.condition("Verified")
    assert verified is not None
    assert verified.status == "True"


async def test_a_refused_spec_is_neither_run_nor_asked_and_loses_its_catalog() -> None:
    bench = Bench()
    bench.declare("demo", "a")
    async with bench.running() as controller:
        bench.platform.declare(mcp_server("demo", command=["demo"], generation=2))
        controller.queue.add(KEY)
        await asyncio.sleep(1)
        assert bench.ready() == ("False", "NotSupportedHere")
        assert await bench.catalog() is None
        assert await controller.reconciler.reconcile(KEY) == Stalled("NotSupportedHere")


async def test_failures_of_the_platform_are_waited_out() -> None:
    bench = Bench()
    bench.declare("demo", "a")
    bench.platform.trouble = PlatformTrouble("the API server is away")
    async with bench.running() as controller:
        assert await controller.reconciler.reconcile(KEY) == Waiting("PlatformTrouble")
        bench.platform.trouble = None
        await asyncio.sleep(10)
        assert bench.ready() == ("True", "Verified")


async def test_an_apply_that_fails_is_tried_again_soon_and_one_that_is_refused_later() -> None:
    bench = Bench()
    bench.declare("demo", "a", image={"name": "demo:1"})
    async with bench.running() as controller:
        for ok, reason, expected in (
            (None, Cause.APPLY_FAILED, Waiting("ApplyFailed")),
            (False, Cause.APPLY_REFUSED, Stalled("ApplyRefused", 60.0)),
        ):
            bench.platform.workload = Workload(ConditionVerdict(ok, reason, "words"), RUNS.endpoint)
            assert await controller.reconciler.reconcile(KEY) == expected


FAILURES = ("fairlead_operator_publish_failures_total", {"what": "catalog"})
FULL_QUOTA = Forbidden("cannot create ConfigMap (403): exceeded quota: count/configmaps", status=403)


@pytest.mark.parametrize("published", [False, True], ids=["new", "changed"])
async def test_a_catalog_that_is_refused_is_counted_and_said_in_the_status_until_it_is_published(
    published: bool,
) -> None:
    """If refusals were not caught, the status of a new server would stay empty."""
    bench = Bench()
    script = bench.declare("demo", "a")
    bench.documents.trouble = None if published else FULL_QUOTA
    async with bench.running() as controller:
        await asyncio.sleep(5)
        assert bench.ready() == (("True", "Verified") if published else ("False", "ApplyRefused"))
        bench.documents.trouble = FULL_QUOTA
        script.tools.append(tool_named("b"))
        controller.reconciler.refresh(KEY)
        await asyncio.sleep(20)
        assert bench.ready() == ("False", "ApplyRefused")
        status = bench.platform.servers[KEY].status
        ready = status.condition(ConditionType.READY)
        assert ready is not None
        assert "the server's tools are not published: cannot create ConfigMap (403): exceeded quota" in ready.message
        assert status.tools == (1 if published else None)
        assert (bench.telemetry.registry.get_sample_value(*FAILURES) or 0) >= 1
        bench.documents.trouble = None
        await asyncio.sleep(90)
        assert bench.ready() == ("True", "Verified")
        assert bench.platform.servers[KEY].status.tools == 2


async def test_tools_that_are_held_back_or_no_longer_listed_are_not_counted_in_the_status() -> None:
    bench = Bench()
    script = bench.declare("demo", "a", "b", pin=True)

    async def counts() -> tuple[int | None, int | None, int]:
        status, catalog = bench.platform.servers[KEY].status, await bench.catalog()
        assert catalog is not None
        assert status.tools == len(catalog.tools)
        return status.tools, status.tools_offline, catalog.held

    async with bench.running() as controller:
        await asyncio.sleep(5)
        assert await counts() == (2, 0, 0)
        for tools, expected in (("abc", (2, 0, 1)), ("bc", (1, 0, 1)), ("c", (0, 0, 1)), ("ab", (2, 0, 0))):
            script.tools[:] = [tool_named(name) for name in tools]
            controller.reconciler.refresh(KEY)
            await asyncio.sleep(20)
            assert await counts() == expected, tools


async def test_a_resource_that_cannot_be_read_keeps_its_catalog_and_every_other_ones() -> None:
    bench = Bench()
    bench.declare("demo", "a")
    async with bench.running() as controller:
        bench.platform.unreadable.add(KEY)
        assert await controller.reconciler.reconcile(KEY) == Stalled("Invalid")
        await controller.sweep()
        assert await bench.catalog() is not None


async def test_after_a_restart_the_younger_of_two_does_not_take_the_prefix_for_a_moment() -> None:
    bench = Bench()
    bench.declare("younger", "a", age=1, prefix="same")
    bench.declare("older", "a", age=60, prefix="same")
    async with bench.running():
        assert bench.ready("younger") == ("True", "Verified"), "it is served at its own endpoint"
        conflicted = bench.platform.servers[ServerKey("team", "younger")].status.condition(ConditionType.CONFLICTED)
        assert conflicted is not None
        assert (conflicted.status, cause_of(conflicted)[0]) == ("True", Cause.PREFIX_TAKEN)
        assert [n.reason for n in bench.platform.announced if n.kind == "Warning"] == ["Conflicted"]
        assert bench.ready("older") == ("True", "Verified")
    writes = bench.documents.writes
    async with bench.running():
        catalog = await bench.catalog("younger")
        assert catalog is not None
        assert catalog.prefix is None
    assert bench.documents.writes == writes


async def test_the_rules_are_published_once_and_restored_when_disturbed() -> None:
    bench = Bench()
    async with bench.running() as controller:
        assert RULES_NAME in bench.documents.blobs
        writes = bench.documents.writes
        controller.rules_outdated.set()
        await asyncio.sleep(1)
        assert bench.documents.writes == writes
        bench.documents.blobs.clear()
        controller.restore_document(RULES_NAME, {})
        await asyncio.sleep(1)
        assert RULES_NAME in bench.documents.blobs


async def test_a_tool_whose_floor_is_an_unknown_tier_is_told_and_served_until_the_tier_exists() -> None:
    bench = Bench()
    bench.declare("demo", "a", tools=[{"name": "a", "minTier": "slow"}])
    async with bench.running() as controller:
        assert bench.ready("demo") == ("True", "Verified")
        partly = bench.platform.servers[KEY].status.condition(ConditionType.PARTIALLY_INVALID)
        assert partly is not None
        assert (partly.status, partly.reason, "(a: slow)" in partly.message) == ("True", "InvalidRef", True)
        assert await bench.catalog() is not None
        bench.declarations.tier_list.append(LatencyTier.model_validate({"metadata": {"name": "slow"}, "spec": {}}))
        controller.rules_outdated.set()
        await asyncio.sleep(5)
        assert bench.platform.servers[KEY].status.condition(ConditionType.PARTIALLY_INVALID) is None


async def test_an_override_of_a_tool_that_the_server_does_not_list_is_told_until_it_is_corrected() -> None:
    bench = Bench()
    bench.declare("demo", "a", tools=[{"name": "demo__a", "enabled": False, "minTier": "slow"}])
    async with bench.running() as controller:
        assert bench.ready("demo") == ("True", "Verified")
        partly = bench.platform.servers[KEY].status.condition(ConditionType.PARTIALLY_INVALID)
        assert partly is not None
        assert (partly.status, partly.reason, cause_of(partly)[0]) == ("True", "InvalidRef", Cause.UNKNOWN_TOOL)
        assert "does not list (demo__a), which has no effect; the server lists a. " in partly.message
        assert "UnknownTier: spec.tools[].minTier" in partly.message
        bench.declare("demo", "a", tools=[{"name": "a", "enabled": False}])
        controller.queue.add(KEY)
        await asyncio.sleep(5)
        assert bench.platform.servers[KEY].status.condition(ConditionType.PARTIALLY_INVALID) is None


RETAINED = {"prefix_retention": 86400.0}


def conflict(bench: Bench, name: str) -> Cause | None:
    condition = bench.platform.servers[ServerKey("team", name)].status.condition(ConditionType.CONFLICTED)
    return None if condition is None else cause_of(condition)[0]


async def remove(bench: Bench, controller: Controller, name: str) -> None:
    key = ServerKey("team", name)
    del bench.platform.servers[key]
    controller.queue.add(key)
    await asyncio.sleep(0.5)


@pytest.mark.parametrize("restarted", ["not", "after the deletion", "before the deletion"])
async def test_the_owner_of_a_prefix_has_it_back_from_another_operator(restarted: str) -> None:
    bench = Bench()
    bench.declare("owner", "a", age=60, prefix="same")
    bench.declare("heir", "a", age=30, prefix="same")
    async with bench.running(**RETAINED) as controller:
        await asyncio.sleep(5)
        if restarted != "before the deletion":
            await remove(bench, controller, "owner")
            await asyncio.sleep(2)
            assert conflict(bench, "heir") == Cause.PREFIX_RESERVED
            assert await bench.catalog("owner") is None
        if restarted == "not":
            bench.declare("owner", "a", prefix="same", uid="new")
            controller.queue.add(ServerKey("team", "owner"))
            await asyncio.sleep(5)
    if restarted == "before the deletion":
        del bench.platform.servers[ServerKey("team", "owner")]
    if restarted != "not":
        async with bench.running(**RETAINED):
            await asyncio.sleep(5)
            assert conflict(bench, "heir") == Cause.PREFIX_RESERVED
        bench.declare("owner", "a", prefix="same", uid="new")
    async with bench.running(**RETAINED):
        await asyncio.sleep(5)
        assert conflict(bench, "heir") == Cause.PREFIX_TAKEN
        owner = await bench.catalog("owner")
        heir = await bench.catalog("heir")
    assert owner is not None
    assert heir is not None
    assert (owner.prefix, heir.prefix) == ("same", None)


async def test_the_reservation_is_stored_before_the_catalog_is_withdrawn() -> None:
    bench = Bench()
    bench.declare("owner", "a", age=60, prefix="same")
    async with bench.running(**RETAINED) as controller:
        bench.documents.trouble = ApiError("away", status=503)
        await remove(bench, controller, "owner")
        assert await bench.catalog("owner") is not None
        bench.documents.trouble = None
        await asyncio.sleep(5)
        assert await bench.catalog("owner") is None
        servers = await bench.documents.read(SERVERS_NAME)
        assert servers is not None
        assert b'"prefix":"same"' in servers


async def test_a_document_that_is_refused_keeps_no_tool_of_a_deleted_server_listed() -> None:
    bench = Bench()
    bench.declare("owner", "a", age=60, prefix="same")
    bench.declare("heir", "a", age=30, prefix="same")
    async with bench.running(**RETAINED) as controller:
        bench.documents.trouble = FULL_QUOTA
        await remove(bench, controller, "owner")
        assert await bench.catalog("owner") is None
        bench.documents.trouble = None
        await asyncio.sleep(10)
        assert conflict(bench, "heir") == Cause.PREFIX_RESERVED


async def test_a_reservation_that_is_over_passes_the_prefix_on_by_itself() -> None:
    bench = Bench()
    bench.declare("owner", "a", age=60, prefix="same")
    bench.declare("heir", "a", age=30, prefix="same")
    async with bench.running(**RETAINED) as controller:
        await remove(bench, controller, "owner")
        await asyncio.sleep(86400 + 200)
        catalog = await bench.catalog("heir")
    assert conflict(bench, "heir") is None
    assert catalog is not None
    assert catalog.prefix == "same"


async def test_an_older_server_that_took_a_prefix_while_no_operator_led_gets_nothing() -> None:
    bench = Bench()
    bench.declare("owner", "a", age=30, prefix="same")
    bench.declare("older", "a", age=60, prefix="other")
    async with bench.running(**RETAINED):
        await asyncio.sleep(5)
    bench.declare("older", "a", age=60, prefix="same", generation=2)
    async with bench.running(**RETAINED):
        await asyncio.sleep(5)
        assert conflict(bench, "older") == Cause.PREFIX_TAKEN
        assert conflict(bench, "owner") is None
    bench.documents.blobs.clear()
    async with bench.running(**RETAINED):
        await asyncio.sleep(5)
        assert conflict(bench, "older") == Cause.PREFIX_TAKEN, "a new installation goes by the statuses"
        assert conflict(bench, "owner") is None


async def test_a_conflict_is_in_the_servers_document_beside_other_faults() -> None:
    bench = Bench()
    bench.declare("owner", "a", age=60, prefix="same")
    bench.declare("heir", "a", prefix="same")
    bench.declare("broken", "a", prefix="same").error = REFUSED
    async with bench.running():
        await asyncio.sleep(5)
        data = await bench.documents.read(SERVERS_NAME)
        assert data is not None
        document = decode(data)
        assert isinstance(document, Servers)
        entries = {entry.name: entry for entry in document.servers}
        assert (entries["heir"].state, entries["heir"].cause) == ("ready", "")
        assert (entries["broken"].state, entries["broken"].cause) == ("failed", "ConnectionRefused")
        for name in ("heir", "broken"):
            assert entries[name].conflict.startswith("PrefixTaken: prefix same belongs to team/owner")
            assert entries[name].conflict.endswith("Set spec.prefix to a free prefix.")
