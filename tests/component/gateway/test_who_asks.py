"""Every request has a caller: endpoints, REST routes, streams and sessions authenticate it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from askers import PICKED, LegacyAsker
from fairlead_api.documents.rules import Policy, Rule, Rules, Subject
from fairlead_app.authentication import Trust
from fairlead_rest.application import assemble
from fairlead_web.guard import PublicPages
from fixed_authenticator import Names
from gatewayworld import LEGACY, META, Ask, Wire, calling, catalog, legacy, modern, running
from rawserver import Reply, Request, raw_server
from servedroutes import PUBLIC, every_route
from toolservers import modern_server


def by(name: str, ask: Ask) -> Ask:
    return ask.with_headers(authorization=f"Bearer {name}")


async def test_every_route_asks_who_it_is_unless_it_is_public(tmp_path: Path) -> None:
    """Fails for a route that is added without the guard, and for a public route that is not listed here."""
    async with running(tmp_path, trust=Trust((Names("ann"),))) as gateway:
        routes = [
            *every_route(assemble(PublicPages(gateway.readiness, gateway.rest.guard.resource), gateway.rest).routes)
        ]
        assert len(routes) > 15
        async with await Wire.connect(gateway) as wire:
            for route in routes:
                path = route.path.split("{")[0]
                for verb in sorted((route.methods or set()) - {"HEAD"}):
                    answer = await wire.ask(Ask(verb=verb, target=path, body=b""))
                    assert (answer.status == 401) is (path not in PUBLIC), (verb, path, answer.status)


async def test_the_endpoints_answer_nobody_whom_they_do_not_know(tmp_path: Path) -> None:
    async with (
        modern_server() as server,
        running(tmp_path, catalog("demo", server.url, ["add"]), trust=Trust((Names("ann"),))) as gateway,
        await Wire.connect(gateway) as wire,
    ):
        for target in ("/mcp", "/servers/default/demo/mcp", "/mcp/nowhere", "/servers/default/none/mcp"):
            refused = await wire.ask(modern("tools/list").to(target))
            assert (refused.status, "www-authenticate" in refused.headers) == (401, True)
            assert b"demo" not in refused.body
        assert (await wire.ask(by("eve", modern("tools/list")))).status == 401
        listed = await wire.ask(by("ann", modern("tools/list")))
        assert [tool["name"] for tool in listed.message["result"]["tools"]] == ["demo__add"]


async def test_a_revoked_credential_is_refused_with_the_next_request_of_the_same_connection(tmp_path: Path) -> None:
    """Requests with the same head as the previous one take a shorter path in the code, but their credential is verified
    too."""
    names = Names("ann", "bob")
    async with (
        modern_server() as server,
        running(tmp_path, catalog("demo", server.url, ["add"]), trust=Trust((names,))) as gateway,
        await Wire.connect(gateway) as wire,
    ):
        for _ in range(3):
            assert (await wire.ask(by("ann", calling("demo__add")))).status == 200
        names.revoke("ann")
        assert (await wire.ask(by("ann", calling("demo__add")))).status == 401
        assert (await wire.ask(by("bob", calling("demo__add")))).status == 200


async def test_streams_of_a_revoked_credential_end(tmp_path: Path) -> None:
    names = Names("ann", "bob")
    listen = modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    async with (
        running(tmp_path, trust=Trust((names,))) as gateway,
        await Wire.connect(gateway) as anns,
        await Wire.connect(gateway) as bobs,
        await Wire.connect(gateway) as events,
    ):
        anns.send(by("ann", listen))
        await anns.reader.readuntil(b"acknowledged")
        bobs.send(by("bob", listen))
        await bobs.reader.readuntil(b"acknowledged")
        events.send(by("ann", Ask(verb="GET", target="/v1/events", body=b"")))
        await events.reader.readuntil(b"stream.opened")
        assert len(gateway.endpoint.streams) == 2
        names.revoke("ann")
        await anns.reader.readuntil(b"\r\n0\r\n\r\n")
        assert len(gateway.endpoint.streams) == 1
        await events.read_to_end()


@pytest.mark.parametrize("thief", ["bob", None])
async def test_a_session_is_of_use_to_nobody_but_who_opened_it(tmp_path: Path, thief: str | None) -> None:
    async with (
        modern_server() as server,
        running(
            tmp_path, catalog("demo", server.url, ["add"]), trust=Trust((Names("ann", "bob"),)), anonymous="allow"
        ) as gateway,
        await Wire.connect(gateway) as wire,
    ):
        opened = await wire.ask(by("ann", legacy("initialize", {"protocolVersion": LEGACY, "capabilities": {}})))
        session = opened.headers["mcp-session-id"]

        def steal(ask: Ask) -> Ask:
            return ask if thief is None else by(thief, ask)

        asks = [
            legacy("tools/list", session=session),
            calling("demo__add", era=LEGACY, session=session),
            legacy("notifications/cancelled", {"requestId": 1}, number=None, session=session),
            Ask(verb="DELETE", headers={"mcp-session-id": session}, body=b""),
            Ask(verb="GET", headers={"mcp-session-id": session, "accept": "text/event-stream"}, body=b""),
        ]
        for ask in asks:
            assert (await wire.ask(steal(ask))).status in (404, 405), ask
        assert (await wire.ask(by("ann", legacy("tools/list", session=session)))).status == 200


async def test_a_call_that_waits_for_its_client_goes_on_for_nobody_else(tmp_path: Path) -> None:
    offers: dict[str, Any] = {META + "clientCapabilities": {"elicitation": {"form": {}}}}
    params = {"name": "demo__x", "arguments": {}}
    async with (
        raw_server(LegacyAsker(1).handle) as server,
        running(
            tmp_path, catalog("demo", server.url, ["x"], version=LEGACY), trust=Trust((Names("ann", "bob"),))
        ) as gateway,
        await Wire.connect(gateway) as wire,
    ):
        result = (await wire.ask(by("ann", modern("tools/call", params, **offers)))).message["result"]
        responses = dict.fromkeys(result["inputRequests"], PICKED)
        again = modern(
            "tools/call",
            {**params, "inputResponses": responses, "requestState": result["requestState"]},
            number=2,
            **offers,
        )
        assert (await wire.ask(by("bob", again))).code == -32602
        assert (await wire.ask(by("ann", again))).message["result"]["resultType"] == "complete"


@pytest.mark.parametrize("how", ["a plain call", "a call with a question before"])
async def test_a_servers_state_is_of_use_to_nobody_but_who_got_it(tmp_path: Path, how: str) -> None:
    """The server seals its state for the gateway, and would continue for anybody who sends it."""
    states: list[str] = []

    async def handle(request: Request, reply: Reply) -> None:
        states.append(request.params.get("requestState", ""))
        questions = {"q": {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {}}}}
        if len(states) == 1 or (len(states) == 2 and how != "a plain call"):
            result = {
                "resultType": "input_required",
                "inputRequests": questions,
                "requestState": f"of ann {len(states)}",
            }
        else:
            result = {"resultType": "complete", "content": []}
        reply.result(request, result)

    async with (
        raw_server(handle) as server,
        running(
            tmp_path, catalog("demo", server.url, ["x"]), trust=Trust((Names("ann", "bob"),)), anonymous="allow"
        ) as gateway,
        await Wire.connect(gateway) as wire,
    ):
        params: dict[str, Any] = {"name": "demo__x", "arguments": {}}
        answer = await wire.ask(by("ann", modern("tools/call", params)))
        if how != "a plain call":
            more = {"inputResponses": {"q": PICKED}, "requestState": answer.message["result"]["requestState"]}
            answer = await wire.ask(by("ann", modern("tools/call", {**params, **more})))
        state = answer.message["result"]["requestState"]
        again = modern("tools/call", {**params, "inputResponses": {"q": PICKED}, "requestState": state})
        own = state.rsplit(".", 1)[1]
        bare = modern("tools/call", {**params, "inputResponses": {"q": PICKED}, "requestState": own})
        before = len(states)
        for ask in (by("bob", again), again, by("bob", bare)):
            assert (await wire.ask(ask)).code == -32602
        assert len(states) == before
        assert (await wire.ask(by("ann", again))).message["result"]["resultType"] == "complete"
        assert states[-1] == f"of ann {before}"


async def test_the_list_of_the_one_is_not_the_list_of_the_other(tmp_path: Path) -> None:
    """Each REST route and each endpoint shows only the views of its caller."""

    everything = Policy(namespace="default", name="all", every=True, rules=(Rule(action="Allow", tools=("*",)),))
    not_for_bob = Policy(
        namespace="default",
        name="no-vault",
        every=True,
        subjects=(Subject(kind="Agent", name="bob"),),
        rules=(Rule(action="Deny", tools=("add",)),),
    )
    async with (
        modern_server() as server,
        running(
            tmp_path,
            Rules(policies=(everything, not_for_bob)),
            catalog("open", server.url, ["greet"]),
            catalog("vault", server.url, ["add"]),
            trust=Trust((Names("ann", "bob"),)),
        ) as gateway,
        await Wire.connect(gateway) as wire,
    ):
        call = {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "vault__add", "input": {}}]}
        own = {"content-type": "application/json"}
        asks = {
            "list": modern("tools/list"),
            "call": calling("vault__add"),
            "endpoint": modern("tools/list").to("/servers/default/vault/mcp"),
            "tools": Ask(verb="GET", target="/v1/tools", body=b""),
            "tool": Ask(verb="GET", target="/v1/tools/vault__add", body=b""),
            "explain": Ask(verb="GET", target="/v1/tools/mcp.vault.add/explain", body=b""),
            "servers": Ask(verb="GET", target="/v1/servers", body=b""),
            "server": Ask(verb="GET", target="/v1/servers/default/vault", body=b""),
            "refresh": Ask({}, own, target="/v1/servers/default/vault/refresh"),
            "tool calls": Ask({"format": "anthropic", "message": call}, own, target="/v1/tool-calls"),
            "own tools": Ask({"format": "mcp", "tools": []}, own, target="/v1/tools"),
            "plan": Ask({"models": ["gpt-5"], "pinned": ["vault__add"]}, own, target="/v1/plan"),
        }
        seen = {name: (await wire.ask(by("bob", ask)), await wire.ask(by("ann", ask))) for name, ask in asks.items()}
    for name, (bobs, anns) in seen.items():
        assert bobs.body != anns.body, name
        refusal = json.loads(bobs.body)
        assert "vault" not in str(refusal.get("known", "")), name
    assert seen["call"][0].code == -32602
    assert seen["endpoint"][0].status == 404
    for name in ("tool", "explain", "server", "refresh", "plan"):
        assert (seen[name][0].status, seen[name][1].status < 300) == (404, True), name
    for name in ("list", "tools", "servers", "own tools"):
        assert b"vault" not in seen[name][0].body, name
        assert b"vault" in seen[name][1].body, name
    assert seen["tool calls"][0].message["calls"][0]["state"] == "pending"
    assert seen["tool calls"][1].message["calls"][0]["state"] == "done"
