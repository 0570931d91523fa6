"""Answers that a strict parser refuses, over each transport and in both eras: they are mended, or fail at once with the
cause."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fairlead_api.meta import ServerKey
from fairlead_api.reports import OK, UNREADABLE
from fairlead_app.gateway import Gateway
from fairlead_mcp.host import ChildHost
from gatewayworld import LEGACY, MODERN, Ask, ask, calling, catalog, running
from shapeserver import TRANSPORTS, serving, verbatim

ERAS = (LEGACY, MODERN)


def text(raw: bytes) -> bytes:
    """A response whose result has one text, which is given as raw JSON."""
    return b'{"jsonrpc":"2.0","id":@ID@,"result":{"content":[{"type":"text","text":%b}]}}' % raw


TAKEN = {
    "half of a surrogate pair": (text(rb'"cut \ud83d here"'), "cut \ufffd here"),
    "a byte order mark": (b"\xef\xbb\xbf" + text(b'"marked"'), "marked"),
    "raw control characters": (text(b'"\x1b[31mred\x1b[0m"'), "\x1b[31mred\x1b[0m"),
    "an id as a text": (text(b'"seven"').replace(b"@ID@", b'"@ID@"'), "seven"),
}
FAILED = {
    "an error that is a text": (b'{"jsonrpc":"2.0","id":@ID@,"error":"boom"}', "boom"),
    "a code that is a text": (b'{"jsonrpc":"2.0","id":@ID@,"error":{"code":"E_IO","message":"boom"}}', "E_IO: boom"),
    "NaN": (text(b"NaN"), "NaN"),
    "a trailing comma": (text(b'"x",'), "not JSON"),
    "text that is not UTF-8": (text(b'"\xff"'), "UTF-8"),
    "an id of no request": (text(b'"x"').replace(b"@ID@", b"987654321"), "id"),
}
UNDECODABLE = ("NaN", "a trailing comma", "text that is not UTF-8", "an id of no request")


@contextlib.asynccontextmanager
async def odd_gateway(folder: Path, transport: str, version: str) -> AsyncIterator[Gateway]:
    children = ChildHost()
    try:
        async with serving(transport, version) as reached:
            document = catalog("odd", reached, ["give"], version=version)
            async with running(folder, document, children=children, shared_children=False) as gateway:
                yield gateway
    finally:
        await children.aclose()


@pytest.mark.parametrize(("transport", "version"), TRANSPORTS)
async def test_an_answer_whose_meaning_is_clear_is_taken(tmp_path: Path, transport: str, version: str) -> None:
    async with odd_gateway(tmp_path, transport, version) as gateway:
        for era in ERAS:
            for name, (line, meant) in TAKEN.items():
                result = (await ask(gateway, calling("odd__give", verbatim(line), era=era))).message["result"]
                assert result["content"] == [{"type": "text", "text": meant}], (name, result)
            body = json.dumps(calling("odd__give", {"result": {"content": "HALF"}}, era=era).message)
            made = calling("odd__give", era=era)
            answer = await ask(gateway, Ask(headers=made.headers, body=body.replace("HALF", r"\ud83d!").encode()))
            assert answer.message["result"]["content"] == [{"type": "text", "text": "\ufffd!"}]


@pytest.mark.parametrize(("transport", "version"), TRANSPORTS)
async def test_an_answer_that_cannot_be_read_fails_its_call_at_once_and_counts_for_health_alone(
    tmp_path: Path, transport: str, version: str
) -> None:
    async with odd_gateway(tmp_path, transport, version) as gateway:
        for era in ERAS:
            for name, (line, words) in FAILED.items():
                answer = await ask(gateway, calling("odd__give", verbatim(line), era=era))
                assert answer.refusal == "UPSTREAM_ERROR", (name, answer.message)
                assert words in answer.message["result"]["content"][0]["text"], (name, answer.message)
                assert gateway.registry.guard(ServerKey("default", "odd")).state == "closed"
        for line in (b"[]", b'"x"', b"null"):
            answer = await ask(
                gateway, calling("odd__give", verbatim(b'{"jsonrpc":"2.0","id":@ID@,"result":%b}' % line))
            )
            assert answer.refusal == "UPSTREAM_ERROR"
        assert (
            "isError" not in (await ask(gateway, calling("odd__give", {"result": {"content": []}}))).message["result"]
        )
        ((_, attempts),) = gateway.outbox.samples.since(0, gateway.endpoint.clock(), 0.0)
        outcomes = [attempt.outcome for attempt in attempts]
        assert outcomes.count(UNREADABLE) == len(UNDECODABLE) * len(ERAS) + 3
        assert outcomes[-1] == OK
