"""Servers whose URL leads back to this gateway: requests name the gateways that they have passed, and a loop is
refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from fairlead_app.gateway import Gateway
from fairlead_mcp.via import MAX_HOPS, explain_refusal, make_via_line, pseudonym
from gatewayworld import (
    LEGACY,
    MODERN,
    Answer,
    ask,
    calling,
    catalog,
    legacy,
    modern,
    publish,
    running,
    wait_for_snapshots,
)
from toolservers import legacy_server, modern_server, tool

OTHERS = [f"1.1 fairlead-{number:016x}" for number in range(MAX_HOPS + 1)]


def endpoint(gateway: Gateway) -> str:
    return f"http://127.0.0.1:{gateway.port}/mcp"


def error_message(answer: Answer) -> str:
    return str(answer.message["result"]["_meta"]["fairlead.dev/error"]["message"])


@pytest.mark.parametrize("version", [MODERN, LEGACY])
async def test_a_call_that_comes_back_is_refused_at_its_first_return(tmp_path: Path, version: str) -> None:
    async with running(tmp_path) as gateway:
        publish(tmp_path / "documents", catalog("self", endpoint(gateway), ["self__x"], version=version))
        await wait_for_snapshots(gateway, 2)
        answer = await ask(gateway, calling("self__self__x"))
        assert answer.refusal == "UPSTREAM_ERROR"
        assert "leads back to this gateway" in error_message(answer)
        assert gateway.call_metrics.rejected[508] >= 1


async def test_a_loop_over_another_gateway_is_found_as_well(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    async with running(tmp_path / "one") as first, running(tmp_path / "two") as second:
        publish(tmp_path / "one" / "documents", catalog("b", endpoint(second), ["a__x"]))
        publish(tmp_path / "two" / "documents", catalog("a", endpoint(first), ["x"]))
        await wait_for_snapshots(first, 2)
        await wait_for_snapshots(second, 2)
        answer = await ask(first, calling("b__a__x"))
        assert "leads back to this gateway" in error_message(answer)
        assert (first.call_metrics.rejected.get(508), second.call_metrics.rejected.get(508)) == (1, None)


async def test_a_request_through_too_many_gateways_is_refused_and_others_are_not(tmp_path: Path) -> None:
    async with (
        modern_server([tool("add")]) as server,
        running(tmp_path, catalog("demo", server.url, ["add"])) as gateway,
    ):
        few = calling("demo__add").with_headers(Via=", ".join([*OTHERS[:MAX_HOPS], "1.1 nginx", "HTTP/1.1 proxy (x)"]))
        assert (await ask(gateway, few)).status == 200
        answer = await ask(gateway, modern("tools/list").with_headers(Via=", ".join(OTHERS)))
        assert (answer.status, "gateways" in answer.message["error"]["message"]) == (508, True)
        [call] = [request for request in server.seen if request.method == "tools/call"]
        assert set(call.headers["via"].split(", ")) == set(OTHERS[:MAX_HOPS])


async def test_requests_name_the_installation_and_nothing_that_a_client_made_up(tmp_path: Path) -> None:
    """The test server reads the last of two Via lines; the first one is the gateway's own."""
    async with legacy_server([tool("add")]) as server:
        document = catalog("demo", server.url, ["add"], version=LEGACY)
        async with running(tmp_path, document, pull_token="secret") as gateway:
            spoofed = calling("demo__add").with_headers(Via="1.1 evil, 1.1 fairlead-evil")
            assert (await ask(gateway, spoofed)).status == 200
            assert {request.headers["via"] for request in server.seen} == {f"1.1 {pseudonym('secret')}"}


def test_installations_with_one_token_have_one_name_and_others_have_others() -> None:
    assert pseudonym("secret") == pseudonym("secret") != pseudonym("other")
    assert pseudonym() != pseudonym()
    assert "secret" not in pseudonym("secret")


@pytest.mark.parametrize(
    "value", [b"", b"1.1 nginx", b"1.1 fairlead-0", b"1.1 xfairlead-" + b"0" * 16, b"fairlead-" + b"0" * 17]
)
def test_via_entries_of_others_are_neither_counted_nor_passed_on(value: bytes) -> None:
    assert explain_refusal(value * 20, pseudonym()) is None
    assert make_via_line(value) == b""


@pytest.mark.parametrize("era", [MODERN, LEGACY])
async def test_a_handshake_names_the_installations_behind_its_endpoint(tmp_path: Path, era: str) -> None:
    far = pseudonym()
    away = pseudonym()
    documents = [
        replace(catalog("near", "http://127.0.0.1:9/mcp", ["x"]), gateways=(far,)),
        replace(catalog("gone", "http://127.0.0.1:9/mcp", ["x"]), gateways=(away,), online=False),
        catalog("plain", "http://127.0.0.1:9/mcp", ["x"]),
    ]
    hello = modern("server/discover") if era == MODERN else legacy("initialize", {"protocolVersion": LEGACY})
    async with running(tmp_path, *documents) as gateway:
        own = gateway.endpoint.installation
        for target, names in {
            "/mcp": [own, far],
            "/servers/default/near/mcp": [own, far],
            "/servers/default/plain/mcp": [own],
        }.items():
            answer = await ask(gateway, hello.to(target))
            assert answer.message["result"]["_meta"]["fairlead.dev/gateways"] == names
