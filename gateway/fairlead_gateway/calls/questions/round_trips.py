"""Questions of a modern server, its `input_required` results, as requests to a legacy client on the stream of its call.

The client's answers go back with the server's state in a call of their own (MCP 2026-07-28, "Multi Round-Trip
Requests", SEP-2322).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import UNSET, Raw, UnsetType

from fairlead_gateway.calls.questions.message_relay import MessageRelay
from fairlead_gateway.calls.translation.translate import INPUT_REQUIRED
from fairlead_mcp import capabilities, jsonrpc
from fairlead_mcp.content import AnyObject
from fairlead_mcp.errors import NotMcp, RpcError, Timeout
from fairlead_mcp.jsonrpc import RawObject
from fairlead_mcp.messages import Message

GoOn: TypeAlias = Callable[[], None]
MAX_ROUNDS: Final = 16
MAX_QUESTIONS: Final = 16


class Question(msgspec.Struct):
    """A request of a server to its client, within a result."""

    method: str
    params: Raw | UnsetType = UNSET


class InputRequired(msgspec.Struct):
    """A modern result that asks the client something before the call goes on (SEP-2322)."""

    result_type: str = msgspec.field(name="resultType", default="")
    questions: dict[str, Question] = msgspec.field(name="inputRequests", default_factory=dict)
    state: Raw | UnsetType = msgspec.field(name="requestState", default=UNSET)


class _ResultKind(msgspec.Struct):
    result_type: Any = msgspec.field(name="resultType", default=None)


class _StrictQuestion(msgspec.Struct):
    method: str
    params: AnyObject | UnsetType = UNSET


class _StrictResult(msgspec.Struct):
    questions: dict[str, _StrictQuestion] | UnsetType = msgspec.field(name="inputRequests", default=UNSET)
    state: str | UnsetType = msgspec.field(name="requestState", default=UNSET)


_decode = msgspec.json.Decoder(InputRequired).decode
_decode_type = msgspec.json.Decoder(_ResultKind).decode
_decode_strictly = msgspec.json.Decoder(_StrictResult).decode
_UNKNOWN_FORM: Final = "the tool asks for input in an unknown form"


async def answers(relay: MessageRelay, asking: InputRequired, seconds: float) -> RawObject:
    """Members to send the call with once more: the client's answers and the server's state. `seconds` is how much time
    is left. Raises McpError: RpcError where the client refuses, or was asked for what it does not offer.
    """
    try:
        async with asyncio.timeout(max(seconds, 0)):
            given = await asyncio.gather(*(_ask(relay, question) for question in asking.questions.values()))
    except TimeoutError as error:
        raise Timeout("the client did not answer the tool's question in time", sent=True) from error
    more: RawObject = {"inputResponses": Raw(jsonrpc.encode(dict(zip(asking.questions, given, strict=True))))}
    if asking.state is not UNSET:
        more["requestState"] = asking.state
    return more


def asking_in(raw: Raw) -> InputRequired | None:
    """The questions in a result; None where it asks nothing. Raises NotMcp for a form that is not known."""
    if INPUT_REQUIRED.encode() not in bytes(raw):
        return None
    try:
        if _decode_type(raw).result_type != INPUT_REQUIRED:
            return None
        asking = _decode(well_formed(raw))
    except jsonrpc.UNREADABLE as error:
        raise NotMcp(_UNKNOWN_FORM) from error
    if len(asking.questions) > MAX_QUESTIONS:
        raise NotMcp(f"the tool asks more than {MAX_QUESTIONS} questions at once")
    return asking


def well_formed(raw: bytes | Raw) -> bytes | Raw:
    """A result that asks something, as the schema of 2026-07-28 has it (`InputRequiredResult`), without members that
    are null or empty lists. Raises NotMcp for a form that is not known.
    """
    try:
        _decode_strictly(raw)
    except msgspec.ValidationError:
        pass
    else:
        return raw
    given = jsonrpc.decode_object(raw)
    made = jsonrpc.encode({name: value for name, value in given.items() if bytes(value) not in (b"null", b"[]")})
    try:
        _decode_strictly(made)
    except msgspec.ValidationError as error:
        raise NotMcp(_UNKNOWN_FORM) from error
    return made


async def _ask(relay: MessageRelay, question: Question) -> Raw:
    answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def answer(body: bytes) -> None:
        if not answered.done():
            answered.set_result(body)

    relay.on_request(Message(question.method, Raw(b"0"), question.params), answer)
    response = jsonrpc.read_response(await answered)
    if response.error is not None:
        if response.error.code == jsonrpc.METHOD_NOT_FOUND:
            raise capabilities.missing_capability_error(question.method, response.error.message)
        raise RpcError(response.error.code, f"{question.method}: {response.error.message}", None)
    assert isinstance(response.result, Raw)
    return response.result
