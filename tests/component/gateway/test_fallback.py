"""Requests for other paths than MCP endpoints: uvicorn's protocol handles them, alternating with MCP requests."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from fairlead_gateway.endpoint.framing import FramingError, serialize_head
from gatewayworld import Ask, Wire, calling, catalog, legacy, running, wait_for_requests
from rawserver import Reply, Request, raw_server

pytestmark = pytest.mark.both_loops

NOWHERE = "http://127.0.0.1:9/mcp"
HEALTH = Ask(verb="GET", body=b"", target="/healthz")
BODY = json.dumps({"from": "mcp", "to": "openai", "tools": []}).encode()
CONVERT = Ask(body=BODY, headers={"content-type": "application/json"}, target="/v1/convert")


@pytest.mark.parametrize("chunked", [False, True])
async def test_an_offer_to_upgrade_is_ignored_for_the_application_too(tmp_path: Path, chunked: bool) -> None:
    offer = CONVERT.with_headers(connection="Upgrade, HTTP2-Settings", upgrade="h2c", http2_settings="AAEAAEAAAAIAAAAA")
    async with running(tmp_path, catalog("demo", NOWHERE, ["add"])) as gateway, await Wire.connect(gateway) as wire:
        if chunked:
            wire.write(offer.chunked_head(wire.host) + b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY))
        else:
            wire.send(offer)
        wire.send(legacy("ping"), HEALTH)
        answers = [await wire.answer() for _ in range(3)]
    assert [answer.status for answer in answers] == [200, 200, 200]
    assert "tools" in answers[0].message
    assert answers[1].message["result"] == {}


async def test_a_body_is_asked_for_once_the_call_before_it_is_answered(tmp_path: Path) -> None:
    may_end = asyncio.Event()

    async def handle(request: Request, reply: Reply) -> None:
        await may_end.wait()
        reply.result(request, {"content": [], "resultType": "complete"})

    async with (
        raw_server(handle) as server,
        running(tmp_path, catalog("demo", server.url, ["add"])) as gateway,
        await Wire.connect(gateway) as wire,
    ):
        head, end, _ = CONVERT.with_headers(expect="100-continue").data(wire.host).partition(b"\r\n\r\n")
        wire.write(calling("demo__add").data(wire.host) + head + end)
        await wait_for_requests(server, 1)
        may_end.set()
        assert (await wire.answer()).status == 200
        assert await wire.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        wire.write(BODY)
        assert (await wire.answer()).status == 200
        wire.send(calling("demo__add"))
        assert (await wire.answer()).status == 200


@pytest.mark.parametrize(("version", "connection"), [("1.0", None), ("1.1", "close")])
async def test_a_client_that_wants_no_more_than_one_answer_is_closed(
    tmp_path: Path, version: str, connection: str | None
) -> None:
    async with running(tmp_path) as gateway, await Wire.connect(gateway) as wire:
        wire.send(Ask(verb="GET", body=b"", target="/healthz", version=version).with_headers(connection=connection))
        answer = await wire.answer()
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        assert await wire.read_to_end() == b""


def test_a_head_is_handed_on_with_one_framing_header() -> None:
    fields = [(b"host", b"a"), (b"connection", b"x, close"), (b"transfer-encoding", b"chunked"), (b"accept", b"*/*")]
    assert serialize_head(b"POST", b"/v1/plan", "1.1", [*fields, (b"content-length", b"9")]) == (
        b"POST /v1/plan HTTP/1.1\r\nhost: a\r\naccept: */*\r\ntransfer-encoding: chunked\r\n\r\n",
        True,
    )
    assert serialize_head(b"GET", b"/", "1.0", [(b"content-length", b"9")]) == (
        b"GET / HTTP/1.0\r\ncontent-length: 9\r\n\r\n",
        False,
    )


@pytest.mark.parametrize("value", [b"a\r\nx: y", b"a\ny", b"a\ry"])
def test_a_field_that_would_end_its_line_is_not_handed_on(value: bytes) -> None:
    with pytest.raises(FramingError, match="line break"):
        serialize_head(b"GET", b"/", "1.1", [(b"x", value)])
