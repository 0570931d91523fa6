"""HTTP requests of commands to a gateway: proxies and certificates of the environment, and answers of other
programs."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from certificates import Authority
from commands import fairlead
from ports import free_port
from rawserver import Handler, Reply, Request, raw_server
from toolservers import serve_asgi

pytestmark = pytest.mark.timeout(240)  # each command starts an interpreter
TIERS = json.dumps({"tiers": []}).encode()
ELSEWHERE = "http://tools.example.com:8080/mcp"
NO_PROXIES = dict.fromkeys(("http_proxy", "https_proxy", "all_proxy", "no_proxy"), "")
"""An empty variable in lower case takes precedence over the one in upper case."""


async def tiers(request: Request, reply: Reply) -> None:
    reply.send(200, TIERS)


async def test_a_gateway_elsewhere_is_asked_through_the_proxy_of_the_environment() -> None:
    async with raw_server(tiers) as proxy:
        set_ = {**NO_PROXIES, "http_proxy": f"http://127.0.0.1:{proxy.port}"}
        code, _, err = await fairlead("tiers", "--url", ELSEWHERE, **set_)
        assert (code, err) == (0, "")
        assert [request.path for request in proxy.seen] == ["http://tools.example.com:8080/v1/tiers"]
        code, _, _ = await fairlead("tiers", "--url", ELSEWHERE, **{**set_, "no_proxy": "example.com"})
        assert (code, len(proxy.seen)) == (1, 1), "asked directly, and there is no such host"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_loopback_addresses_are_never_asked_through_a_proxy(host: str) -> None:
    async with raw_server(tiers) as server:
        nowhere = f"http://127.0.0.1:{free_port()}"
        for words in (["tiers"], ["telemetry", "show"]):
            _, _, err = await fairlead(
                *words, "--url", f"http://{host}:{server.port}/mcp", http_proxy=nowhere, all_proxy=nowhere, no_proxy=""
            )
            assert "proxy" not in err
        assert [request.path for request in server.seen] == ["/v1/tiers", "/v1/aggregates"]


async def test_a_proxy_that_refuses_is_told_as_one() -> None:
    async def refuse(request: Request, reply: Reply) -> None:
        reply.send(403, b"no")

    async with raw_server(refuse) as proxy:
        through = {**NO_PROXIES, "https_proxy": f"http://127.0.0.1:{proxy.port}"}
        code, _, err = await fairlead("tiers", "--url", "https://tools.example.com/mcp", **through)
        assert [(request.verb, request.path) for request in proxy.seen] == [("CONNECT", "tools.example.com:443")]
    assert (code, err.count("\n")) == (1, 1)
    assert "the proxy for https://tools.example.com rejected the request" in err


async def test_certificates_of_a_private_authority_are_trusted(tmp_path: Path) -> None:
    async def app(scope: object, receive: object, send: Callable[[dict[str, object]], Awaitable[None]]) -> None:
        head = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": TIERS})

    authority = Authority()
    bundle = tmp_path / "ca.pem"
    bundle.write_text(authority.bundle)
    async with serve_asgi(app, tls=authority.server_context(tmp_path)) as port:
        url = ("--url", f"https://127.0.0.1:{port}/mcp")
        assert (await fairlead("tiers", *url, SSL_CERT_FILE=str(bundle)))[::2] == (0, "")
        code, _, err = await fairlead("tiers", *url)
        assert (code, err.count("\n"), "SSL_CERT_FILE" in err) == (1, 1, True)
        code, _, err = await fairlead("tiers", *url, SSL_CERT_FILE=str(tmp_path / "missing"))
        assert (code, err.count("\n")) == (1, 1)


async def _html(request: Request, reply: Reply) -> None:
    reply.send(200, b"<html>", kind="text/html")


async def _list(request: Request, reply: Reply) -> None:
    reply.send(200, b"[]")


async def _empty(request: Request, reply: Reply) -> None:
    reply.send(200, b"{}")


async def _cut_off(request: Request, reply: Reply) -> None:
    reply.raw(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{")
    reply.close()


async def _garbage(request: Request, reply: Reply) -> None:
    reply.raw(b"garbage\r\n\r\n")
    reply.close()


async def _elsewhere(request: Request, reply: Reply) -> None:
    reply.send(302, location="http://127.0.0.1:9/")


async def _refuse(request: Request, reply: Reply) -> None:
    reply.send(401)


async def _fail(request: Request, reply: Reply) -> None:
    reply.send(500, b"oops")


@pytest.mark.parametrize(
    ("handler", "sentence"),
    [
        (_html, "--url"),
        (_list, "--url"),
        (_empty, "--url"),
        (_cut_off, "--url"),
        (_garbage, "--url"),
        (_elsewhere, "302"),
        (_refuse, "--token"),
        (_fail, "500"),
    ],
)
async def test_a_url_of_another_server_ends_each_verb_with_a_sentence(handler: Handler, sentence: str) -> None:
    async with raw_server(handler) as server:
        for words in (["tiers"], ["events"], ["refresh", "x"]):
            code, out, err = await fairlead(*words, "--url", server.url, "--timeout", "20")
            assert (code, out, err.count("\n")) == (1, "", 1), words
            assert err.startswith(f"fairlead {words[0]}: "), words
            assert sentence in err, words
            assert "internal error" not in err, words


async def test_a_token_is_shown_by_every_verb_that_asks(tmp_path: Path) -> None:
    async with raw_server(_refuse) as server:
        for words in (["scores"], ["leaderboard"], ["predict", "x"], ["telemetry", "show"]):
            await fairlead(*words, "--url", server.url, "--token", "abc")
        assert {request.headers.get("authorization") for request in server.seen} == {"Bearer abc"}
        assert len(server.seen) == 4


async def test_a_credential_that_is_rejected_is_told_from_one_that_is_missing() -> None:
    async with raw_server(_refuse) as server:
        for verb in ("tiers", "tools"):
            _, _, missing = await fairlead(verb, "--url", f"{server.url}/mcp")
            _, _, rejected = await fairlead(verb, "--url", f"{server.url}/mcp", "--token", "abc")
            assert "Give a credential with --token" in missing
            assert "Give another credential with --token" in rejected
            if verb == "tools":
                assert f"{server.url}/mcp rejects the credential that was given (401)." in rejected


async def test_a_line_of_events_without_an_end_is_not_kept() -> None:
    async def endless(request: Request, reply: Reply) -> None:
        reply.open_stream()
        for _ in range(40):
            reply.chunk(b"x" * 65536)
            await reply.flush()
        reply.end_stream()

    async with raw_server(endless) as server:
        code, out, err = await fairlead("events", "--url", server.url)
    assert (code, out, "a line of more than" in err) == (1, "", True)


async def test_a_gateway_that_hangs_up_is_told_apart_from_what_is_not_one() -> None:
    async def hangs_up(request: Request, reply: Reply) -> None:
        reply.close()

    async with raw_server(hangs_up) as server:
        code, _, err = await fairlead("servers", "--url", server.url)
        assert (code, "closed the connection before responding, as a gateway does when it stops" in err) == (1, True)
        assert ".;" not in err


async def test_a_credential_file_that_is_not_there_is_named_without_a_number_of_the_system() -> None:
    code, _, err = await fairlead("servers", "--token", "@no-such.key")
    assert (code, "no-such.key cannot be read: No such file" in err) == (2, True)


async def test_a_dashed_argument_of_a_tool_is_answered_with_how_it_is_written() -> None:
    code, _, err = await fairlead("call", "todo__add", "--item", "milk")
    assert (code, "An argument of the tool is written without dashes: item=VALUE" in err) == (2, True)


async def test_arguments_of_a_call_are_read_from_standard_input() -> None:
    for words in (["--arguments", "-"], ["-a", "-"]):
        code, _, err = await fairlead("call", "x__y", *words, "--url", "http://127.0.0.1:9/mcp", stdin='{"a": 1}')
        assert (code, "refused the connection" in err) == (1, True)
        code, _, err = await fairlead("call", "x__y", *words, "--url", "http://127.0.0.1:9/mcp", stdin="{a")
        assert (code, "is not JSON" in err) == (2, True)
