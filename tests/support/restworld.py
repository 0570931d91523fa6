"""A client of the gateway's REST plane, and a model's message that makes calls in every format.

async with running(tmp_path, catalog(...)) as gateway:
    answer = await get(gateway, "/v1/tools?format=anthropic")
    answer = await post(gateway, "/v1/tool-calls", {"format": ..., "message": ...})
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

from gatewayworld import Answer, Ask, Reachable, ask

Calls = Sequence[tuple[str, str, dict[str, Any]]]
"""(id, name, arguments)."""


async def get(gateway: Reachable, target: str, **headers: str) -> Answer:
    return await ask(gateway, Ask(verb="GET", target=target, body=b"", headers=headers))


async def post(gateway: Reachable, target: str, body: Any, **headers: str) -> Answer:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    kind = {"content-type": "application/json", **{name.replace("_", "-"): value for name, value in headers.items()}}
    return await ask(gateway, Ask(target=target, body=raw, headers=kind))


def problem(answer: Answer) -> tuple[int, str]:
    """Status and code of an answer, which must be a problem document."""
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.message["status"] == answer.status
    assert answer.message["type"].endswith(answer.message["code"])
    assert answer.message["title"]
    assert answer.message["detail"]
    return answer.status, answer.message["code"]


def _chat(calls: Calls) -> Any:
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": ident, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            for ident, name, arguments in calls
        ],
    }


def _function_call(calls: Calls) -> Any:
    (_, name, arguments), *_ = calls
    return {
        "role": "assistant",
        "content": None,
        "function_call": {"name": name, "arguments": json.dumps(arguments)},
    }


def _responses(calls: Calls) -> Any:
    return {
        "object": "response",
        "output": [
            {"type": "function_call", "call_id": ident, "name": name, "arguments": json.dumps(arguments)}
            for ident, name, arguments in calls
        ],
    }


def _realtime(calls: Calls) -> Any:
    return {"type": "response.done", "response": _responses(calls)}


def _anthropic(calls: Calls) -> Any:
    return {
        "role": "assistant",
        "stop_reason": "tool_use",
        "content": [
            {"type": "text", "text": "Let me look."},
            *({"type": "tool_use", "id": ident, "name": name, "input": given} for ident, name, given in calls),
        ],
    }


def _gemini(calls: Calls) -> Any:
    parts = [{"functionCall": {"id": ident, "name": name, "args": given}} for ident, name, given in calls]
    return {"candidates": [{"content": {"role": "model", "parts": parts}}]}


def _gemini_live(calls: Calls) -> Any:
    function_calls = [{"id": ident, "name": name, "args": arguments} for ident, name, arguments in calls]
    return {"toolCall": {"functionCalls": function_calls}}


def _bedrock(calls: Calls) -> Any:
    uses = [{"toolUse": {"toolUseId": ident, "name": name, "input": given}} for ident, name, given in calls]
    return {"output": {"message": {"role": "assistant", "content": uses}}, "stopReason": "tool_use"}


def _mcp(calls: Calls) -> Any:
    return [
        {"jsonrpc": "2.0", "id": ident, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
        for ident, name, arguments in calls
    ]


MESSAGES: Final[dict[str, Callable[[Calls], Any]]] = {
    "mcp": _mcp,
    "openai-chat": _chat,
    "openai-functions": _function_call,
    "openai-responses": _responses,
    "openai-realtime": _realtime,
    "azure-openai": lambda calls: {"choices": [{"message": _chat(calls)}]},
    "anthropic": _anthropic,
    "gemini": _gemini,
    "gemini-live": _gemini_live,
    "bedrock-converse": _bedrock,
}
"""A model's message with calls, by format."""
