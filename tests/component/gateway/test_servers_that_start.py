"""Calls, lists and endpoints of servers that are starting or have failed: they wait for the server, or report its
progress.

The tests publish the servers document of an operator. Policies decide who may know of such a server.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from commands import fairlead
from fairlead_api.documents.catalog import SIGN_IN_TOOL, Refreshed
from fairlead_api.documents.rules import Policy, Rule, Rules, Subject, Tier
from fairlead_api.documents.servers import OVERDUE, ServerEntry, Servers
from fairlead_app.authentication import Trust
from fairlead_app.gateway import Gateway
from gatewayworld import LEGACY, MODERN, Answer, Ask, Wire, ask, calling, catalog, legacy, modern, publish, running
from policyworld import Vouching, anybody, by
from rawserver import RawServer
from restworld import get, post, problem
from toolservers import modern_server, tool
from waiting import eventually

NOWHERE = "http://127.0.0.1:9/mcp"
STARTS = ServerEntry(
    namespace="default", name="demo", prefix="demo", state="starting", reason="Pending", cause="Deploying"
)
FAILED = ServerEntry(
    namespace="default",
    name="demo",
    prefix="demo",
    state="failed",
    reason="StartFailed",
    message="default/demo exited with code 1: password is hunter2",
    refreshed=Refreshed(at="2026-11-22T10:00:00.000+00:00", failure="it wrote hunter2"),
)
NOW: dict[str, Any] = {"start_wait": 0.05}
"""Settings of a gateway that hardly waits for a start."""


@asynccontextmanager
async def starting_gateway(folder: Path, **settings: Any) -> AsyncIterator[tuple[Gateway, RawServer]]:
    """A gateway with a server `demo` that is starting. `come` makes the server ready."""
    async with (
        modern_server([tool("add")]) as server,
        running(folder, Servers(servers=(STARTS,)), **{"start_wait": 30.0, **settings}) as gateway,
    ):
        yield gateway, server


def come(folder: Path, server: RawServer) -> None:
    publish(folder / "documents", catalog("demo", server.url, ["add"]), Servers())


async def wait_for_held_calls(gateway: Gateway, count: int = 1) -> None:
    await eventually(lambda: gateway.endpoint.held_requests.startup_wait.waiting == count)


@pytest.mark.parametrize("era", [MODERN, LEGACY])
@pytest.mark.parametrize("name", ["demo__add"])
async def test_a_call_of_a_server_that_starts_waits_and_is_made(era: str, name: str, tmp_path: Path) -> None:
    async with starting_gateway(tmp_path) as (gateway, server), await Wire.connect(gateway) as wire:
        wire.send(calling(name, era=era))
        await wait_for_held_calls(gateway)
        come(tmp_path, server)
        answer = await wire.answer()
        assert answer.status == 200
        assert "isError" not in answer.message["result"] or not answer.message["result"]["isError"]
        assert server.methods().count("tools/call") == 1


@pytest.mark.parametrize("era", [MODERN, LEGACY])
async def test_after_the_wait_a_call_is_told_that_its_server_starts(era: str, tmp_path: Path) -> None:
    async with starting_gateway(tmp_path, **NOW) as (gateway, _):
        answer = await ask(gateway, calling("demo__add", era=era))
    assert (answer.status, answer.refusal) == (200, "STARTING")
    error = answer.message["result"]["_meta"]["fairlead.dev/error"]
    assert error["retryAfterMs"] == 2000
    assert "default/demo is starting" in error["message"]


@pytest.mark.parametrize("cause", sorted(OVERDUE))
async def test_a_server_that_something_keeps_from_being_ready_costs_nobody_a_wait(cause: str, tmp_path: Path) -> None:
    """The wait is longer than the test may take, so each of these requests has to be answered at once."""
    held_up = msgspec.structs.replace(STARTS, cause=cause)
    async with running(tmp_path, Servers(servers=(held_up,)), start_wait=3600.0) as gateway:
        called = await ask(gateway, calling("demo__add"))
        assert called.refusal == "STARTING"
        assert f"is starting ({cause})" in called.message["result"]["_meta"]["fairlead.dev/error"]["message"]
        assert (await ask(gateway, modern("server/discover").to("/servers/default/demo/mcp"))).status == 503
        assert problem(await get(gateway, "/v1/tools/demo__add")) == (503, "STARTING")
        assert problem(await post(gateway, "/v1/tool-calls", message("demo__add"))) == (503, "STARTING")


async def test_a_call_that_waits_ends_once_it_is_known_what_keeps_its_server(tmp_path: Path) -> None:
    async with starting_gateway(tmp_path, start_wait=3600.0) as (gateway, _), await Wire.connect(gateway) as wire:
        wire.send(calling("demo__add"))
        await wait_for_held_calls(gateway)
        publish(tmp_path / "documents", Servers(servers=(msgspec.structs.replace(STARTS, cause="ProbeFailed"),)))
        assert (await wire.answer()).refusal == "STARTING"


async def test_a_tier_bounds_the_wait_by_its_limit(tmp_path: Path) -> None:
    rules = Rules(tiers=(Tier(name="fast", max_latency_ms=50),))
    async with starting_gateway(tmp_path) as (gateway, _):
        publish(tmp_path / "documents", rules)
        await eventually(lambda: "fast" in gateway.snapshot.tiers)
        assert (await ask(gateway, calling("demo__add").to("/mcp/fast"))).refusal == "STARTING"


async def test_a_tool_of_a_server_that_nobody_signed_in_to_is_told_what_to_do(tmp_path: Path) -> None:
    wanted = msgspec.structs.replace(STARTS, state="sign-in", reason="SignInRequired", cause="SignInRequired")
    server = catalog("demo", NOWHERE, [SIGN_IN_TOOL], sign_in=True)
    async with running(tmp_path, server, Servers(servers=(wanted,))) as gateway:
        answer = await ask(gateway, calling("demo__add"))
        assert answer.refusal == "SIGN_IN_REQUIRED"
        message = answer.message["result"]["_meta"]["fairlead.dev/error"]["message"]
        assert message.endswith("call demo__sign_in, or run `fairlead login default/demo`")
        assert problem(await get(gateway, "/v1/tools/demo__add/explain")) == (403, "SIGN_IN_REQUIRED")
        assert json.loads((await get(gateway, "/v1/servers/default/demo")).body)["state"] == "sign-in"
        assert (await ask(gateway, calling("other__add"))).message["error"]["code"] == -32602


async def test_a_call_of_a_server_that_failed_is_told_so_at_once_without_the_words_of_the_server(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, Servers(servers=(FAILED,)), start_wait=30.0) as gateway:
        answer = await ask(gateway, calling("demo__add"))
        assert answer.refusal == "CONNECTION_LOST"
        assert b"StartFailed" in answer.body
        assert b"hunter2" not in answer.body
        over_rest = await get(gateway, "/v1/tools/demo__add")
        assert problem(over_rest) == (503, "CONNECTION_LOST")
        assert b"hunter2" not in over_rest.body


async def test_a_server_whose_replicas_are_0_is_stopped_and_has_not_failed(tmp_path: Path) -> None:
    stopped = msgspec.structs.replace(FAILED, state="stopped", reason="Stopped", cause="Stopped", message="replicas: 0")
    async with running(tmp_path, Servers(servers=(stopped,)), start_wait=30.0) as gateway:
        answer = await ask(gateway, calling("demo__add"))
        url = f"http://127.0.0.1:{gateway.port}/mcp"
        _, _, called = await fairlead("call", "demo__add", "--url", url)
        _, listed, _ = await fairlead("tools", "--url", url)
    assert answer.refusal == "CONNECTION_LOST"
    assert b"is stopped: `fairlead servers" in answer.body
    assert b"failed" not in answer.body
    assert called.startswith("fairlead call: CONNECTION_LOST: stopped: default/demo: ")
    assert "stopped: default/demo: " in listed


async def test_a_call_that_waits_ends_with_a_server_that_fails(tmp_path: Path) -> None:
    async with starting_gateway(tmp_path) as (gateway, _), await Wire.connect(gateway) as wire:
        wire.send(calling("demo__add"))
        await wait_for_held_calls(gateway)
        publish(tmp_path / "documents", Servers(servers=(FAILED,)))
        assert (await wire.answer()).refusal == "CONNECTION_LOST"


async def test_a_tool_that_the_server_turns_out_not_to_have_is_unknown(tmp_path: Path) -> None:
    async with starting_gateway(tmp_path) as (gateway, server), await Wire.connect(gateway) as wire:
        wire.send(calling("demo__other"))
        await wait_for_held_calls(gateway)
        come(tmp_path, server)
        answer = await wire.answer()
        assert answer.code == -32602
        assert "Unknown tool" in answer.message["error"]["message"]


async def test_a_name_that_no_starting_server_can_have_is_unknown_at_once(tmp_path: Path) -> None:
    async with starting_gateway(tmp_path) as (gateway, _):
        assert (await ask(gateway, calling("other__add"))).code == -32602
        assert (await ask(gateway, calling("add"))).code == -32602


async def test_a_server_without_prefix_may_have_any_name(tmp_path: Path) -> None:
    bare = ServerEntry(namespace="default", name="demo", prefix="", state="installing")
    async with running(tmp_path, Servers(servers=(bare,)), **NOW) as gateway:
        assert (await ask(gateway, calling("add"))).refusal == "STARTING"


async def test_a_modern_client_that_goes_and_a_legacy_one_that_cancels_leave_no_call_behind(tmp_path: Path) -> None:
    async with starting_gateway(tmp_path) as (gateway, server):
        async with await Wire.connect(gateway) as wire:
            wire.send(calling("demo__add"))
            await wait_for_held_calls(gateway)
        await wait_for_held_calls(gateway, 0)
        session = (await ask(gateway, initialize_request())).headers["mcp-session-id"]
        async with await Wire.connect(gateway) as wire:
            wire.send(calling("demo__add", era=LEGACY, number=7, session=session))
            await wait_for_held_calls(gateway)
            cancelled = legacy("notifications/cancelled", {"requestId": 7}, number=None, session=session)
            assert (await ask(gateway, cancelled)).status == 202
            assert (await wire.answer()).refusal == "CANCELLED"
        come(tmp_path, server)
        await eventually(lambda: "demo__add" in gateway.snapshot.merged)
        assert "tools/call" not in server.methods()


async def test_a_gateway_that_stops_does_not_wait_for_servers_that_start(tmp_path: Path) -> None:
    async with starting_gateway(tmp_path) as (gateway, _), await Wire.connect(gateway) as wire:
        wire.send(calling("demo__add"))
        await wait_for_held_calls(gateway)
        async with asyncio.timeout(10):
            await gateway.stop(0.1)


async def test_the_endpoint_of_a_server_that_starts_waits_and_then_says_when_to_come_again(tmp_path: Path) -> None:
    hello = modern("server/discover").to("/servers/default/demo/mcp")
    async with starting_gateway(tmp_path) as (gateway, server), await Wire.connect(gateway) as wire:
        wire.send(hello)
        await wait_for_held_calls(gateway)
        come(tmp_path, server)
        assert (await wire.answer()).status == 200
    (again := tmp_path / "again").mkdir()
    async with starting_gateway(again, **NOW) as (gateway, _):
        refused = await ask(gateway, hello)
        assert (refused.status, refused.headers["retry-after"]) == (503, "2")
        assert refused.message["error"]["data"]["fairlead.dev/error"]["code"] == "STARTING"
        assert (await ask(gateway, modern("server/discover").to("/servers/default/none/mcp"))).status == 404


REST = [
    ("GET", "/v1/tools/demo__add"),
    ("GET", "/v1/tools/mcp.demo.add"),
    ("GET", "/v1/tools/demo__add/explain"),
    ("GET", "/v1/tools?servers=demo"),
    ("GET", "/v1/tools?servers=default/demo&format=openai"),
]


@pytest.mark.parametrize(("verb", "target"), REST)
async def test_a_rest_request_about_a_server_that_starts_waits_and_then_says_when_to_come_again(
    verb: str, target: str, tmp_path: Path
) -> None:
    async with starting_gateway(tmp_path) as (gateway, server):
        waiting = asyncio.create_task(get(gateway, target))
        await wait_for_held_calls(gateway)
        come(tmp_path, server)
        assert (await waiting).status == 200
    (again := tmp_path / "again").mkdir()
    async with starting_gateway(again, **NOW) as (gateway, _):
        late = await get(gateway, target)
        assert problem(late) == (503, "STARTING")
        assert (late.headers["retry-after"], late.message["retryAfterMs"]) == ("2", 2000)


def message(*names: str) -> dict[str, Any]:
    calls = [{"type": "tool_use", "id": str(at), "name": name, "input": {}} for at, name in enumerate(names)]
    return {"format": "anthropic", "message": {"role": "assistant", "content": calls}}


async def test_a_models_calls_wait_for_the_server_that_starts_and_for_no_other(tmp_path: Path) -> None:
    async with starting_gateway(tmp_path) as (gateway, server):
        waiting = asyncio.create_task(post(gateway, "/v1/tool-calls", message("demo__add", "mine")))
        await wait_for_held_calls(gateway)
        come(tmp_path, server)
        assert [call["state"] for call in (await waiting).message["calls"]] == ["done", "pending"]
    (again := tmp_path / "again").mkdir()
    async with starting_gateway(again, **NOW) as (gateway, _):
        some = await post(gateway, "/v1/tool-calls", message("demo__add", "mine"))
        assert [call.get("code") for call in some.message["calls"]] == ["STARTING", None]
        assert some.headers["retry-after"] == "2"
        late = await post(gateway, "/v1/tool-calls", message("demo__add"))
        assert problem(late) == (503, "STARTING")


async def test_servers_that_start_and_that_failed_are_listed_with_what_is_known_of_them(tmp_path: Path) -> None:
    other = ServerEntry(
        namespace="default", name="slow", prefix="slow", state="installing", reason="Pending", cause="Installing"
    )
    served = catalog("there", NOWHERE, ["add"])
    async with running(tmp_path, served, Servers(servers=(FAILED, other))) as gateway:
        listed = (await get(gateway, "/v1/servers")).message["servers"]
        server = (await get(gateway, "/v1/servers/demo")).message
        refreshed = await post(gateway, "/v1/servers/demo/refresh", {})
    assert [(each["server"], each["state"], each["offline"]) for each in listed] == [
        ("default/demo", "failed", True),
        ("default/slow", "installing", True),
        ("default/there", "ready", False),
    ]
    assert server == listed[0]
    assert (server["reason"], server["message"]) == ("StartFailed", FAILED.message), "nobody is asked who they are"
    assert not {"tools", "hash", "protocolVersion", "updatedAt", "breaker", "restarts", "rssBytes"} & server.keys()
    assert (refreshed.status, refreshed.message["before"]) == (202, "2026-11-22T10:00:00.000+00:00")


TRUST = Trust((Vouching(anybody("npc"), anybody("qa"), anybody("root", "admins")),))
QA = (Subject(kind="Agent", name="qa"),)


def allowing_rules(*globs: str) -> Rules:
    """Rules that allow only the agent `qa` these tools."""
    rule = Rule(action="Allow", tools=globs)
    return Rules(policies=(Policy(namespace="default", name="qa", every=True, subjects=QA, rules=(rule,)),))


async def servers_for(gateway: Gateway, who: str) -> list[dict[str, Any]]:
    answer = await get(gateway, "/v1/servers", authorization=f"Bearer {who}")
    servers: list[dict[str, Any]] = answer.message["servers"]
    return servers


async def test_a_decision_about_a_tool_says_how_its_server_fares(tmp_path: Path) -> None:
    away = ServerEntry(namespace="default", name="inn", prefix="inn", state="offline", cause="ConnectionRefused")
    inn = msgspec.structs.replace(catalog("inn", NOWHERE, ["rest"]), online=False)
    async with running(tmp_path, Servers(servers=(FAILED, away)), inn, catalog("bar", NOWHERE, ["ale"])) as gateway:
        for tool_name in ("demo__add", "default/demo/add", "mcp.demo.add"):
            refused = await get(gateway, f"/v1/access?tool={tool_name}")
            assert problem(refused) == (503, "CONNECTION_LOST")
            assert b"hunter2" not in refused.body
        offline, ready = [(await get(gateway, f"/v1/access?tool={name}")).message for name in ("inn__rest", "bar__ale")]
    assert [offline[member] for member in ("allowed", "serverState", "serverCause")] == [
        True,
        "offline",
        "ConnectionRefused",
    ]
    assert (ready["serverState"], ready["serverCause"]) == ("ready", None)


async def test_messages_of_failed_servers_are_told_to_administrators_alone(tmp_path: Path) -> None:
    async with running(tmp_path, Servers(servers=(FAILED,)), trust=TRUST, admin_groups=("admins",)) as gateway:
        (shown,) = await servers_for(gateway, "qa")
        (whole,) = await servers_for(gateway, "root")
    assert (shown["state"], shown["reason"]) == ("failed", "StartFailed")
    assert "hunter2" not in json.dumps(shown)
    assert "message" not in shown
    assert shown["refreshed"]["failure"]
    assert (whole["message"], whole["refreshed"]["failure"]) == (FAILED.message, "it wrote hunter2")


async def test_where_nobody_is_asked_who_they_are_another_machine_is_not_told_what_a_server_wrote(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, Servers(servers=(FAILED,))) as gateway:
        away = await get(gateway, "/v1/servers", **{"x-forwarded-for": "192.0.2.7"})
        here = await get(gateway, "/v1/servers")
    assert b"hunter2" in here.body
    assert b"hunter2" not in away.body
    assert away.message["servers"][0]["reason"] == "StartFailed"


async def test_callers_without_a_tool_of_a_server_do_not_learn_that_it_starts(tmp_path: Path) -> None:
    async with running(tmp_path, Servers(servers=(STARTS,)), allowing_rules("*"), trust=TRUST, **NOW) as gateway:
        assert [server["server"] for server in await servers_for(gateway, "qa")] == ["default/demo"]
        assert await servers_for(gateway, "npc") == []
        assert (await ask(gateway, by("qa", calling("demo__add")))).refusal == "STARTING"
        for real, none in (("demo__add", "nope__add"), ("mcp.demo.add", "mcp.nope.add")):
            hidden, unknown = [await ask(gateway, by("npc", calling(name))) for name in (real, none)]
            assert same_but(hidden, real, unknown, none)
            hidden, unknown = [
                await get(gateway, f"/v1/tools/{name}", authorization="Bearer npc") for name in (real, none)
            ]
            assert same_but(hidden, real, unknown, none)
        for path in ("/servers/default/{}/mcp", "/servers/{}/mcp"):
            hidden, unknown = [
                await ask(gateway, by("npc", modern("ping").to(path.format(name)))) for name in ("demo", "nope")
            ]
            assert (hidden.status, hidden.body) == (unknown.status, unknown.body) == (404, unknown.body)
        seen = await ask(gateway, by("qa", modern("ping").to("/servers/demo/mcp")))
        assert "/servers/default/demo/mcp" in seen.message["error"]["message"]
        hidden, unknown = [
            await get(gateway, f"/v1/servers/{name}", authorization="Bearer npc") for name in ("demo", "nope")
        ]
        assert same_but(hidden, "demo", unknown, "nope")


async def test_callers_wait_at_startup_for_the_tools_that_they_may_use(tmp_path: Path) -> None:
    async with running(tmp_path, Servers(servers=(STARTS,)), allowing_rules("get_*"), trust=TRUST, **NOW) as gateway:
        assert (await ask(gateway, by("qa", calling("demo__get_stock")))).refusal == "STARTING"
        assert (await ask(gateway, by("qa", calling("demo__drop_all")))).code == -32602


async def test_a_server_that_selectors_were_not_asked_about_is_nobodys_to_know(tmp_path: Path) -> None:
    rules = Rules(policies=allowing_rules("*").policies, judged={"default": ("other",)})
    async with running(tmp_path, Servers(servers=(STARTS,)), rules, trust=TRUST, **NOW) as gateway:
        assert await servers_for(gateway, "qa") == []
        assert (await ask(gateway, by("qa", calling("demo__add")))).code == -32602


async def test_where_everything_is_denied_by_default_a_server_that_starts_is_unknown(tmp_path: Path) -> None:
    async with running(
        tmp_path, Servers(servers=(STARTS,)), Rules(default_action="Deny"), trust=TRUST, **NOW
    ) as gateway:
        assert await servers_for(gateway, "qa") == []


async def test_requests_beyond_the_number_that_may_wait_are_told_at_once(tmp_path: Path) -> None:
    async with starting_gateway(tmp_path) as (gateway, server), await Wire.connect(gateway) as wire:
        shares = gateway.endpoint.held_requests.startup_wait.shares
        shares.add("others", shares.limit - 1)
        wire.send(calling("demo__add"))
        await wait_for_held_calls(gateway, shares.limit)
        assert (await ask(gateway, calling("demo__add"))).refusal == "STARTING"
        come(tmp_path, server)
        assert (await wire.answer()).status == 200


def initialize_request() -> Ask:
    hello = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    return legacy("initialize", hello)


def same_but(answer: Answer, name: str, other: Answer, other_name: str) -> bool:
    """Whether two answers are equal except for the requested names."""
    bodies = answer.body.replace(name.encode(), b""), other.body.replace(other_name.encode(), b"")
    return answer.status == other.status and bodies[0] == bodies[1]


async def test_tools_that_are_to_be_removed_while_their_server_is_away_are_unknown(tmp_path: Path) -> None:
    removed = msgspec.structs.replace(FAILED, removed=True)
    async with running(tmp_path, Servers(servers=(removed,)), **NOW) as gateway:
        assert (await ask(gateway, calling("demo__add"))).code == -32602
        assert (await ask(gateway, modern("server/discover").to("/servers/default/demo/mcp"))).status == 404
        (shown,) = (await get(gateway, "/v1/servers")).message["servers"]
        assert shown["state"] == "failed", "people see it all the same"


async def test_waiting_requests_of_one_agent_take_its_share_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead_gateway.calls.path.startup.MAX_WAITING", 8)
    async with (
        starting_gateway(tmp_path, trust=TRUST) as (gateway, server),
        await Wire.connect(gateway) as first,
        await Wire.connect(gateway) as second,
        await Wire.connect(gateway) as others,
    ):
        for count, wire in enumerate((first, second), 1):
            wire.send(by("npc", calling("demo__add")))
            await wait_for_held_calls(gateway, count)
        async with asyncio.timeout(10):
            assert (await ask(gateway, by("npc", calling("demo__add")))).refusal == "STARTING"
        others.send(by("qa", calling("demo__add")))
        await wait_for_held_calls(gateway, 3)
        assert gateway.call_metrics.shares.outcomes["start_waits", "agent"] == 1
        come(tmp_path, server)
        assert [(await wire.answer()).status for wire in (first, second, others)] == [200] * 3
