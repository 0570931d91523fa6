"""A token of the gateway for one resource is valid for paths at and below that resource, and for no others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from fairlead_app.authentication import build_trust
from fairlead_app.settings import Settings
from fairlead_rest.application import assemble
from fairlead_web.guard import PublicPages
from gatewayworld import Ask, Wire, calling, catalog, legacy, modern, running
from llmworld import llm_world
from owntokens import OwnIssuer
from restworld import get, post
from servedroutes import PUBLIC, every_route
from speechworld import speech_world
from toolservers import modern_server

DEMO = "/servers/default/demo/mcp"
ELSEWHERE = (
    "/mcp",
    "/mcp/fast",
    "/router/mcp",
    "/servers/default/demox/mcp",
    "/servers/default/dem/mcp",
    "/servers/demo/mcp",
    "/servers/default/Demo/mcp",
    "/servers/default/demo/mcp/../../demox/mcp",
    "/servers/default/demo/../demox/mcp",
    "/servers/default/demo/%2e%2e/demox/mcp",
    "/servers/default/demo%78/mcp",
    "/servers/default/demo%2Fmcp",
    "//servers/default/demo/mcp",
    "/servers//default/demo/mcp",
    "http://tools.example.com/servers/default/demox/mcp",
    "/mcp?x=/servers/default/demo/mcp",
    "/mcp#/servers/default/demo/mcp",
)
"""Request targets other than DEMO. A careless parser would take some of them for DEMO."""
MODELS = (
    "/v1/chat/completions",
    "/v1/responses",
    "/v1/messages",
    "/v1/models",
    "/v1beta/models/scripted:generateContent",
    "/model/scripted/converse",
)


def by(token: str, ask: Ask) -> Ask:
    return ask.with_headers(authorization=f"Bearer {token}")


async def test_a_token_for_a_server_opens_the_endpoint_of_that_server_alone(tmp_path: Path) -> None:
    issuer = OwnIssuer()
    async with (
        modern_server() as server,
        running(
            tmp_path, catalog("demo", server.url, ["add"]), catalog("demox", server.url, ["add"]), trust=issuer.trust
        ) as gateway,
        await Wire.connect(gateway) as wire,
    ):
        token = await issuer.token(DEMO)
        for target in (DEMO, f"{DEMO}/", f"{DEMO}?x=1", "/servers/default/d%65mo/mcp", f"{DEMO}/none"):
            answer = await wire.ask(by(token, calling("add")).to(target))
            assert answer.status == (404 if target.endswith("none") else 200), target
        for target in ELSEWHERE:
            for ask in (calling("demox__add"), modern("tools/list"), legacy("initialize")):
                async with await Wire.connect(gateway) as fresh:
                    answer = await fresh.ask(by(token, ask).to(target))
                assert answer.status in (400, 401, 404, 421), (target, answer.status)
                assert answer.status == 401 or b"result" not in answer.body, target
        refused = await wire.ask(by(token, calling("demox__add")).to("/servers/default/demox/mcp"))
        assert refused.status == 401
        assert 'error="invalid_token"' in refused.headers["www-authenticate"]
        assert "/.well-known/oauth-protected-resource" not in refused.headers["www-authenticate"]


async def test_a_token_for_a_server_is_refused_behind_a_request_that_was_let_in(tmp_path: Path) -> None:
    """Requests with the same head as the previous one take a shorter path in the code."""
    issuer = OwnIssuer()
    async with (
        modern_server() as server,
        running(tmp_path, catalog("demo", server.url, ["add"]), trust=issuer.trust) as gateway,
        await Wire.connect(gateway) as wire,
    ):
        token, whole = await issuer.token(DEMO), await issuer.token("")
        for _ in range(3):
            assert (await wire.ask(by(token, calling("add")).to(DEMO))).status == 200
            assert (await wire.ask(by(token, calling("demo__add")))).status == 401
            assert (await wire.ask(by(whole, calling("demo__add")))).status == 200


async def test_a_token_for_everything_and_one_for_all_tools_open_what_is_below(tmp_path: Path) -> None:
    issuer = OwnIssuer()
    async with (
        modern_server() as server,
        running(tmp_path, catalog("demo", server.url, ["add"]), trust=issuer.trust) as gateway,
    ):
        whole, tools, rest = [await issuer.token(path) for path in ("", "/mcp", "/v1")]
        async with await Wire.connect(gateway) as wire:
            assert [(await wire.ask(by(each, modern("tools/list")))).status for each in (whole, tools, rest)] == [
                200,
                200,
                401,
            ]
        statuses = [
            (await get(gateway, "/v1/tools", authorization=f"Bearer {each}")).status for each in (whole, tools, rest)
        ]
        assert statuses == [200, 401, 200]


async def test_a_stream_of_all_tools_is_not_opened_by_a_token_for_one_server(tmp_path: Path) -> None:
    issuer = OwnIssuer()
    async with (
        modern_server() as server,
        running(tmp_path, catalog("demo", server.url, ["add"]), trust=issuer.trust) as gateway,
        await Wire.connect(gateway) as wire,
    ):
        whole, token = await issuer.token(""), await issuer.token(DEMO)
        session = (await wire.ask(by(whole, legacy("initialize")))).headers.get("mcp-session-id", "s")
        for verb in ("GET", "DELETE"):
            ask = Ask(verb=verb, headers={"accept": "text/event-stream", "mcp-session-id": session}, body=b"")
            assert (await wire.ask(by(token, ask))).status == 401


async def test_no_route_is_opened_by_a_token_for_a_server(tmp_path: Path) -> None:
    issuer = OwnIssuer()
    token = await issuer.token(DEMO)
    async with running(tmp_path, trust=issuer.trust) as gateway, await Wire.connect(gateway) as wire:
        pages = PublicPages(gateway.readiness, gateway.rest.guard.resource)
        for route in every_route(assemble(pages, gateway.rest).routes):
            path = route.path.split("{")[0]
            for verb in sorted((route.methods or set()) - {"HEAD"}) if path not in PUBLIC else ():
                answer = await wire.ask(by(token, Ask(verb=verb, target=path, body=b"")))
                assert answer.status == 401, (verb, path)
        for path in ("/v1/tools", f"{DEMO}/../../../../v1/tools", f"{DEMO}/%2e%2e/v1/tools", "//v1/tools"):
            assert (await get(gateway, path, authorization=f"Bearer {token}")).status in (400, 401, 404), path


async def test_no_model_is_asked_by_a_token_for_a_server(tmp_path: Path) -> None:
    issuer = OwnIssuer()
    token, whole = await issuer.token(DEMO), await issuer.token("")
    async with llm_world(tmp_path, trust=issuer.trust) as world:
        for path in MODELS:
            for headers in ({"authorization": f"Bearer {token}"}, {"x-api-key": token}, {"x-goog-api-key": token}):
                assert (await post(world.gateway, path, {}, **headers)).status == 401, path
        assert (await post(world.gateway, MODELS[0], {}, authorization=f"Bearer {whole}")).status == 400


async def test_no_speech_session_is_opened_by_a_token_for_a_server(tmp_path: Path) -> None:
    issuer = OwnIssuer()
    token, whole = await issuer.token(DEMO), await issuer.token("")
    async with speech_world(tmp_path, trust=issuer.trust) as world:
        for credential, status in ((token, 401), (whole, 101)):
            for fields in (
                {"authorization": f"Bearer {credential}"},
                {"sec-websocket-protocol": f"realtime, openai-insecure-api-key.{credential}"},
            ):
                async with await Wire.connect(world.gateway) as wire:
                    answer = await wire.ask(
                        Ask(
                            verb="GET",
                            target="/v1/realtime?model=gpt-realtime",
                            body=b"",
                            headers={
                                "connection": "Upgrade",
                                "upgrade": "websocket",
                                "sec-websocket-version": "13",
                                "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
                                **fields,
                            },
                        )
                    )
                assert answer.status == status, fields


@pytest.mark.parametrize("path", ["", "/v1"])
async def test_a_token_of_the_gateway_makes_no_key_which_would_outlive_the_sign_in(tmp_path: Path, path: str) -> None:
    issuer = OwnIssuer()
    settings: dict[str, Any] = {"key_makers": ("*",), "made_keys": tmp_path / "made.json"}
    built = build_trust(Settings.of(**settings))
    trust = msgspec.structs.replace(built, authenticators=(*built.authenticators, *issuer.trust.authenticators))
    async with running(tmp_path, trust=trust, **settings) as gateway:
        headers = {"authorization": f"Bearer {await issuer.token(path)}"}
        answer = await post(gateway, "/v1/keys", {"name": "k", "days": 1}, **headers)
        assert answer.status == 403, answer.body
