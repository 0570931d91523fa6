"""A modern server asks by its result, a legacy client is asked in mid-call: the one put in place of the other.

Used by `calls.forward`. The client gets the server's questions as requests on the stream of its call; its answers go
back with the server's state in a call of their own, as MCP 2026-07-28 wants it ("Multi Round-Trip Requests", SEP-2322).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from fairlead_gateway.calls.live import LiveRequest
from fairlead_gateway.calls.translate import INPUT_REQUIRED
from fairlead_mcp import jsonrpc
from fairlead_mcp.errors import NotMcp, RpcError, Timeout
from fairlead_mcp.jsonrpc import RawObject
from fairlead_mcp.messages import Message

MAX_ROUNDS: Final = 16
MAX_QUESTIONS: Final = 16


class _Question(msgspec.Struct):
    method: str
    params: Raw | UnsetType = UNSET


class _Asking(msgspec.Struct):
    result_type: str = msgspec.field(name="resultType", default="")
    questions: dict[str, _Question] = msgspec.field(name="inputRequests", default_factory=dict)
    state: Raw | UnsetType = msgspec.field(name="requestState", default=UNSET)


_decode = msgspec.json.Decoder(_Asking).decode


async def in_rounds(
    live: LiveRequest, raw: Raw, again: Callable[[RawObject], Awaitable[Raw]], seconds: Callable[[], float]
) -> Raw:
    """The result behind all questions. `again` makes the call with more members in its params; `seconds` is how much
    time is left. Raises McpError: RpcError where the client refuses, or was asked for what it does not offer.
    """
    for _ in range(MAX_ROUNDS):
        asking = _asking(raw)
        if asking is None:
            return raw
        try:
            async with asyncio.timeout(max(seconds(), 0)):
                answers = await asyncio.gather(*(_ask(live, question) for question in asking.questions.values()))
        except TimeoutError as error:
            raise Timeout("the client did not answer the tool's question in time", sent=True) from error
        more: RawObject = {"inputResponses": Raw(jsonrpc.encode(dict(zip(asking.questions, answers, strict=True))))}
        if asking.state is not UNSET:
            more["requestState"] = asking.state
        raw = await again(more)
    raise NotMcp(f"the tool asked more than {MAX_ROUNDS} times")


def _asking(raw: Raw) -> _Asking | None:
    if INPUT_REQUIRED.encode() not in bytes(raw):
        return None
    try:
        found = _decode(raw)
    except jsonrpc.UNREADABLE as error:
        raise NotMcp("the tool asks for input in an unknown form") from error
    if found.result_type != INPUT_REQUIRED:
        return None
    if len(found.questions) > MAX_QUESTIONS:
        raise NotMcp(f"the tool asks more than {MAX_QUESTIONS} questions at once")
    return found


async def _ask(live: LiveRequest, question: _Question) -> Raw:
    answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def answer(body: bytes) -> None:
        if not answered.done():
            answered.set_result(body)

    live.on_request(Message(question.method, Raw(b"0"), question.params), answer)
    response = jsonrpc.read_response(await answered)
    if response.error is not None:
        code = response.error.code
        if code == jsonrpc.METHOD_NOT_FOUND:
            code = jsonrpc.MISSING_CLIENT_CAPABILITY
        raise RpcError(code, f"{question.method}: {response.error.message}", None)
    assert isinstance(response.result, Raw)
    return response.result
