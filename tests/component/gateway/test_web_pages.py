"""Clients in web pages: a browser sends preflight requests, and shows a page only answers whose headers allow it
(CORS)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from fairlead_app.authentication import Trust
from fairlead_app.gateway import Gateway
from fixed_authenticator import Names
from gatewayworld import Answer, Ask, Wire, ask, calling, catalog, legacy, modern, running
from rawserver import RawServer
from toolservers import modern_server

PAGE = "http://localhost:6274"
ALICE = {"authorization": "Bearer alice"}
ADD = calling("demo__add", {"a": 1})
KEYS: dict[str, Any] = {"trust": Trust((Names("alice"),))}
ALLOWED: dict[str, Any] = {**KEYS, "allowed_origins": ("https://app.example.com",)}


def preflight(origin: str, target: str = "/mcp") -> Ask:
    headers = {
        "origin": origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type,mcp-param-region",
    }
    return Ask(verb="OPTIONS", target=target, headers=headers, body=b"")


def readable(answer: Answer) -> str | None:
    """The origin whose pages may read an answer, according to its headers."""
    assert "access-control-allow-credentials" not in answer.headers
    return answer.headers.get("access-control-allow-origin")


@pytest.fixture
async def server() -> AsyncIterator[RawServer]:
    async with modern_server() as upstream:
        yield upstream


@pytest.fixture
async def with_keys(tmp_path: Path, server: RawServer) -> AsyncIterator[Gateway]:
    """A gateway that requires a credential for each request."""
    async with running(tmp_path, catalog("demo", server.url, ["add"]), **KEYS) as gateway:
        yield gateway


@pytest.mark.parametrize("target", ["/mcp", "/router/mcp", "/servers/default/demo/mcp", "/mcp/nope"])
async def test_preflight_of_a_local_page_needs_no_credential(with_keys: Gateway, target: str) -> None:
    answer = await ask(with_keys, preflight(PAGE, target))
    assert (answer.status, readable(answer), answer.body) == (200, PAGE, b"")
    assert answer.headers["access-control-allow-headers"] == "authorization,content-type,mcp-param-region"
    assert answer.headers["access-control-allow-methods"] == "GET, POST, DELETE"
    assert int(answer.headers["access-control-max-age"]) > 0


async def test_page_may_read_each_answer_of_a_connection(with_keys: Gateway) -> None:
    asks = [
        ADD.with_headers(origin=PAGE, **ALICE),
        ADD.with_headers(origin=PAGE, **ALICE),
        calling("demo__add", {"a": 1}, era="2025-11-25").with_headers(
            origin=PAGE, accept="text/event-stream, */*", **ALICE
        ),
        modern("tools/list").with_headers(origin=PAGE, **ALICE),
        legacy("notifications/initialized", number=None).with_headers(origin=PAGE, **ALICE),
        ADD.with_headers(origin=PAGE),
        ADD.to("/mcp/nope").with_headers(origin=PAGE, **ALICE),
        Ask(verb="GET", headers={"origin": PAGE, **ALICE}, body=b""),
    ]
    async with await Wire.connect(with_keys) as wire:
        answers = [await wire.ask(request) for request in asks]
        other = await wire.ask(ADD.with_headers(**ALICE))
    assert [answer.status for answer in answers] == [200, 200, 200, 200, 202, 401, 404, 405]
    assert {readable(answer) for answer in answers} == {PAGE}
    assert {answer.headers["vary"] for answer in answers} == {"Origin"}
    assert all("WWW-Authenticate" in answer.headers["access-control-expose-headers"] for answer in answers)
    assert readable(other) is None


async def test_connections_of_a_page_and_of_another_client_share_no_headers(with_keys: Gateway) -> None:
    plain, shown = ADD.with_headers(**ALICE), ADD.with_headers(origin=PAGE, **ALICE)
    async with await Wire.connect(with_keys) as wire:
        origins = [readable(await wire.ask(request)) for request in (plain, plain, shown, plain, shown, shown)]
    assert origins == [None, None, PAGE, None, PAGE, PAGE]


@pytest.mark.parametrize(
    ("settings", "origin", "status", "allowed"),
    [
        (KEYS, PAGE, 200, PAGE),
        (KEYS, "https://app.example.com", 403, None),
        (ALLOWED, "https://app.example.com", 200, "https://app.example.com"),
        (ALLOWED, PAGE, 403, None),
        (ALLOWED, "null", 403, None),
        ({**KEYS, "allowed_origins": ("*",)}, "https://any.example", 200, "https://any.example"),
        ({"allowed_origins": ("localhost:6274",)}, PAGE, 200, PAGE),
        ({**KEYS, "anonymous": "allow"}, PAGE, 405, None),
        ({}, PAGE, 405, None),
    ],
)
async def test_pages_of_allowed_origins_alone_may_call(
    tmp_path: Path, settings: dict[str, Any], origin: str, status: int, allowed: str | None
) -> None:
    async with running(tmp_path, catalog("demo", "http://127.0.0.1:9/mcp", ["add"]), **settings) as gateway:
        answer = await ask(gateway, preflight(origin))
    assert (answer.status, readable(answer)) == (status, allowed)


async def test_page_of_the_machine_cannot_call_where_no_credential_is_needed(tmp_path: Path, server: RawServer) -> None:
    async with running(tmp_path, catalog("demo", server.url, ["add"])) as gateway:
        permission = await ask(gateway, preflight(PAGE))
        simple = await ask(gateway, ADD.with_headers(origin=PAGE, content_type="text/plain"))
        read = await ask(gateway, ADD.with_headers(origin=PAGE))
    assert (permission.status, simple.status, read.status) == (405, 400, 200)
    assert [readable(answer) for answer in (permission, simple, read)] == [None, None, None]


async def test_mcp_endpoint_takes_no_cookie_as_a_credential(with_keys: Gateway) -> None:
    answer = await ask(with_keys, ADD.with_headers(origin=PAGE, cookie="__Host-fairlead=alice; fairlead=alice"))
    assert answer.status == 401


async def test_metadata_of_the_resource_can_be_read_by_pages_of_any_origin(tmp_path: Path, server: RawServer) -> None:
    trust = Trust((Names("alice"),), issuers=("https://issuer.example",))
    origin = "https://inspector.example"
    path = "/.well-known/oauth-protected-resource/mcp"
    async with running(tmp_path, catalog("demo", server.url, ["add"]), trust=trust) as gateway:
        permission = await ask(gateway, preflight(origin, path))
        read = await ask(gateway, Ask(verb="GET", target=path, headers={"origin": origin}, body=b""))
        probe = await ask(gateway, Ask(verb="OPTIONS", target="/healthz", headers={"origin": origin}, body=b""))
    assert (permission.status, readable(permission), read.status, readable(read)) == (204, "*", 200, "*")
    assert "mcp-protocol-version" in permission.headers["access-control-allow-headers"]
    assert readable(probe) is None
