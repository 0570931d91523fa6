"""Reads requests to the scripted assistant, and refuses those that are too large or not valid for OpenAI's chat API.

The assistant runs in the process of `fairlead up`. A large request would block the event loop, which also serves calls.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec
from starlette.requests import Request

from fairlead_formats.wire.errors import LlmError
from fairlead_mcp.misread_values import explain_misreading
from fairlead_mcp.read_bounds import explain_excess
from fairlead_models.errors import llm_error
from fairlead_offers.problems import Problem
from fairlead_web.bodies import read_pieces

MAX_BYTES: Final = 10 << 20
"""Maximum number of bytes of a request; the default of `FAIRLEAD_LLM_REQUEST_BYTES` is the same."""
MAX_VALUES: Final = 50_000
"""Maximum number of JSON values in a request. Decoding and checking that many blocks the event loop for some 50 ms."""
_MAX_REASON: Final = 300


class _OfferedFunction(msgspec.Struct):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class _OfferedCustomTool(msgspec.Struct):
    name: str
    description: str | None = None


class _OfferedTool(msgspec.Struct):
    type: str
    function: _OfferedFunction | None = None
    custom: _OfferedCustomTool | None = None


class _CalledFunction(msgspec.Struct):
    name: str
    arguments: str


class _AnsweredCall(msgspec.Struct):
    id: str


class _ChatMessage(msgspec.Struct):
    role: str
    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[_AnsweredCall] | None = None
    tool_call_id: str | None = None
    function_call: _CalledFunction | None = None


class _ChatRequest(msgspec.Struct):
    messages: list[_ChatMessage]
    model: str | None = None
    tools: list[_OfferedTool] | None = None
    functions: list[_OfferedFunction] | None = None
    tool_choice: str | dict[str, Any] | None = None
    function_call: str | dict[str, Any] | None = None
    stream: bool | None = None
    stream_options: dict[str, Any] | None = None


async def read_chat_request(request: Request) -> dict[str, Any]:
    """Read a request of OpenAI's chat API. Raises LlmError."""
    try:
        body = b"".join(await read_pieces(request, MAX_BYTES))
    except Problem as problem:
        raise llm_error(problem) from problem
    return await asyncio.to_thread(_decode, body)


def _decode(body: bytes) -> dict[str, Any]:
    excess = explain_excess(body, MAX_VALUES)
    if excess is not None:
        raise LlmError(400, f"the scripted model does not read a request of {excess}: send fewer", "invalid_request")
    try:
        request_body: dict[str, Any] = msgspec.json.decode(body, type=dict[str, Any])
        msgspec.convert(request_body, _ChatRequest)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        reason = explain_misreading(error, "it")[:_MAX_REASON]
        raise LlmError(400, f"the body is not a request of Chat Completions: {reason}", "invalid_request") from error
    return request_body
