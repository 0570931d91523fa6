"""Calls of tools that their server offers only in sessions with a declared client capability."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from askers import PICKED, LegacyAsker, conversation, session_of
from fairlead_api.documents.catalog import ToolEntry
from gatewayworld import LEGACY, ask, catalog, entry, legacy, modern, running
from rawserver import raw_server
from restworld import post

X = {"name": "demo__x", "arguments": {}}
ELICITATION: dict[str, Any] = {"elicitation": {}}


def tool_requiring(*capabilities: str) -> ToolEntry:
    return msgspec.structs.replace(entry("x"), requires=capabilities)


def text(message: Any) -> str:
    return str(message["result"]["content"][0]["text"])


async def test_a_client_with_the_capability_calls_it_in_a_session_that_declares_it(tmp_path: Path) -> None:
    asker = LegacyAsker()
    async with (
        raw_server(asker.handle) as server,
        running(tmp_path, catalog("demo", server.url, [tool_requiring("elicitation")], version=LEGACY)) as gateway,
    ):
        session = await session_of(gateway, ELICITATION)
        questions, answer = await conversation(gateway, session, {"result": PICKED})
    assert (len(questions), asker.declared) == (1, [ELICITATION])
    assert "isError" not in answer["result"] or not answer["result"]["isError"]


async def test_a_server_is_not_bothered_by_a_client_without_the_capability(tmp_path: Path) -> None:
    asker = LegacyAsker()
    async with (
        raw_server(asker.handle) as server,
        running(
            tmp_path, catalog("demo", server.url, [tool_requiring("roots", "sampling")], version=LEGACY)
        ) as gateway,
    ):
        for session in (None, await session_of(gateway, ELICITATION), await session_of(gateway, {"roots": {}})):
            answer = await ask(gateway, legacy("tools/call", X, session=session))
            assert answer.refusal == "MISSING_CLIENT_CAPABILITY"
            assert "needs the client capabilities roots and sampling" in text(answer.message)
        refused = await ask(gateway, modern("tools/call", X))
        assert server.methods() == []
    assert (refused.status, refused.message["error"]["code"]) == (400, -32021)
    assert refused.message["error"]["data"] == {"requiredCapabilities": {"roots": {}, "sampling": {}}}


async def test_rest_has_no_client_capabilities_and_says_so(tmp_path: Path) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "demo__x", "arguments": "{}"}}
    body = {"format": "openai", "message": {"role": "assistant", "tool_calls": [call]}}
    async with (
        raw_server(LegacyAsker().handle) as server,
        running(tmp_path, catalog("demo", server.url, [tool_requiring("roots")], version=LEGACY)) as gateway,
    ):
        answer = await post(gateway, "/v1/tool-calls", body)
    assert answer.message["calls"][0]["code"] == "MISSING_CLIENT_CAPABILITY"
    assert "client capability roots" in answer.message["messages"][0]["content"]
