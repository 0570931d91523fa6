"""JSON-RPC 2.0 as MCP uses it: envelopes whose members stay raw, and encoders that splice them back.

Pure module: no I/O. Members that are not read stay byte for byte (`msgspec.Raw`); member order is never relied upon
(the TypeScript SDK writes `result,jsonrpc,id`). A `Raw` is a view that keeps the whole message alive: `.copy()` it
before storing it for long.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec
from msgspec import Raw

from fairlead_mcp.errors import BadJson, NotMcp, RpcError
from fairlead_mcp.mending import mend, what_is_wrong
from fairlead_mcp.messages import (
    ErrorObject,
    LongResultMembers,
    Message,
    RawContent,
    Response,
    ResultHead,
    ResultMembers,
    has_texts,
)
from fairlead_mcp.value_count import too_many_values

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
RESOURCE_NOT_FOUND: Final = -32002
"""Legacy revisions only; must not be emitted from 2026-07-28 on."""
HEADER_MISMATCH: Final = -32020
MISSING_CLIENT_CAPABILITY: Final = -32021
UNSUPPORTED_PROTOCOL_VERSION: Final = -32022

UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Exceptions that decoding foreign bytes can raise, for any content."""

BEFORE_ID: Final = b'{"jsonrpc":"2.0","id":'
BEFORE_RESULT: Final = b',"result":'
"""Text around the id of a success, as everything here writes it."""
_RESULT_FIRST: Final = b'{"result":'
_ID_LAST: Final = b',"jsonrpc":"2.0","id":'

_LONG: Final = 64 * 1024
"""Bytes of a result from which a copy of its texts costs more than a look at each."""
_HUGE: Final = 1 << 20
"""Bytes of a result from which on its values are counted before they are read."""
MAX_RESULT_VALUES: Final = 1_000_000
"""Values of one result, of which each takes 20 to 50 ns."""
MAX_BLOCKS: Final = 50_000
"""Blocks of content of one result, 0.3 µs each."""
EXCERPT: Final = 120
"""Characters of a foreign body that an error message may quote."""

RawObject: TypeAlias = dict[str, Raw]
"""A JSON object with its members left raw."""

UNSET: Final = msgspec.UNSET
"""Marker of a member that is left out of a message. Defined here as well, since compiled modules find it at once in
compiled ones."""

decode_message: Final = msgspec.json.Decoder(Message).decode
decode_response: Final = msgspec.json.Decoder(Response).decode
decode_result_head: Final = msgspec.json.Decoder(ResultHead).decode
_decode_result: Final = msgspec.json.Decoder(ResultMembers).decode
_decode_long_result: Final = msgspec.json.Decoder(LongResultMembers).decode
_decode_content: Final = msgspec.json.Decoder(RawContent).decode
decode_object: Final = msgspec.json.Decoder(RawObject).decode
decode_text: Final = msgspec.json.Decoder(str).decode
encode: Final = msgspec.json.Encoder().encode


def read_response(data: bytes) -> Response:
    """The response in `data`, mended where a strict reader refuses it and its meaning is clear.

    Raises BadJson for anything but JSON, NotMcp for JSON other than a response (a list, a request, neither member).
    """
    try:
        response = decode_response(data)
    except UNREADABLE as error:
        response = _mended_response(data, error)
    if response.result is UNSET and response.error is None:
        raise NotMcp(f"the answer is JSON without result or error: {excerpt(data)}", excerpt=excerpt(data))
    return response


def _mended_response(data: bytes, error: Exception) -> Response:
    mended = mend(data)
    if mended is not None:
        try:
            return decode_response(mended)
        except UNREADABLE as still:
            error = still
    if isinstance(error, msgspec.ValidationError):
        quote = excerpt(data)
        raise NotMcp(f"the answer is JSON but not a JSON-RPC response: {quote}", excerpt=quote) from error
    raise bad_json(data, error) from error


def decode_result(raw: bytes | Raw) -> ResultMembers:
    """The members of a result, with those of a tool call checked. Raises one of UNREADABLE, also for a result with more
    than MAX_RESULT_VALUES values, and msgspec.ValidationError for one with more than MAX_BLOCKS blocks of content.
    """
    if len(raw) < _LONG:
        return _decode_result(raw)
    if len(raw) > _HUGE:
        _check_size(bytes(raw))
    members = _decode_long_result(raw)
    if not has_texts(members):
        return _decode_result(raw)
    return members


def _check_size(raw: bytes) -> None:
    """Raises msgspec.DecodeError for a huge result that takes long to read, and msgspec.ValidationError for one that is
    read as one text.
    """
    if too_many_values(raw, MAX_RESULT_VALUES):
        raise msgspec.DecodeError(f"it holds more than {MAX_RESULT_VALUES} values")
    # unescaped, so within no text but one that is "type"
    if raw.count(b'"type"') > MAX_BLOCKS and bytes(_decode_content(raw).content).count(b'"type"') > MAX_BLOCKS:
        raise msgspec.ValidationError(f"it has more than {MAX_BLOCKS} blocks of content")


def framed_result(data: bytes, ident: bytes, start: int = 0) -> bytes | None:
    """The text at the result's place in a response to `ident` that is written as most SDKs do; None for any other one.
    The response begins at `start`.

    It is the result if it is one JSON value, which is for the caller to check: it reads the result's members anyway,
    and the pass through the whole response is spared. White space around it stays.
    """
    before = BEFORE_ID + ident + BEFORE_RESULT
    begin = start + len(before)
    if data[start:begin] == before:  # compiled, a third of what `startswith` with a place takes
        return data[begin:-1] if data.endswith(b"}") else None
    begin = start + len(_RESULT_FIRST)
    if data[start:begin] == _RESULT_FIRST:  # as the TypeScript SDK has it
        after = _ID_LAST + ident + b"}"
        return data[begin : -len(after)] if data.endswith(after) else None
    return None


def bad_json(data: bytes, error: Exception) -> BadJson:
    """The BadJson that tells a document cut off from a malformed one."""
    if "truncated" in str(error):
        return BadJson(f"the answer's JSON ends too early, after {len(data)} bytes", reason="TruncatedJSON")
    if isinstance(error, RecursionError):
        return BadJson("the answer's JSON is nested too deeply")
    return BadJson(f"{what_is_wrong(data, error)}: {excerpt(data)}")


def excerpt(data: bytes) -> str:
    """The beginning of a foreign body on one line, without control characters."""
    text = data[: EXCERPT * 4].decode("utf-8", "replace")
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= EXCERPT else line[: EXCERPT - 1] + "…"


def request(ident: bytes, method: str, params: bytes | Raw | None = None) -> bytes:
    """An encoded request. `ident` (the id) and `params` are raw JSON and embedded as they are."""
    return b"".join((BEFORE_ID, ident, b',"method":', encode(method), *_params(params), b"}"))


def notification(method: str, params: bytes | Raw | None = None) -> bytes:
    """An encoded notification; `params` is raw JSON."""
    return b"".join((b'{"jsonrpc":"2.0","method":', encode(method), *_params(params), b"}"))


def result(ident: bytes | Raw, value: bytes | Raw) -> bytes:
    """An encoded success; both parts are raw JSON."""
    return b"".join((BEFORE_ID, ident, BEFORE_RESULT, value, b"}"))


def error(ident: bytes | Raw, code: int, message: str, data: bytes | Raw | None = None) -> bytes:
    """An encoded error; `ident` (b"null" when unknown) and `data` are raw JSON."""
    members = b'{"code":%d,"message":%b' % (code, encode(message))
    more = () if data is None else (b',"data":', data)
    return b"".join((BEFORE_ID, ident, b',"error":', members, *more, b"}}"))


def _params(params: bytes | Raw | None) -> tuple[bytes | Raw, ...]:
    return () if params is None else (b',"params":', params)


def with_member(params: bytes | Raw | None, name: str, value: bytes) -> bytes:
    """`params` with one member set, the others byte for byte (duplicates collapse into the last)."""
    members: RawObject = decode_object(params) if params is not None else {}
    members[name] = Raw(value)
    return encode(members)


CAPABILITY_OF: Final = {
    "sampling/createMessage": "sampling",
    "elicitation/create": "elicitation",
    "roots/list": "roots",
}
"""Method of a server's request to the client capability that it presupposes."""
NO_CLIENT_FEATURES: Final = "This client offers no features to servers"


def reply_to_server(request: Message) -> bytes:
    """The answer to a request that a legacy server sends to a client which has not declared the capability: `{}` for
    ping, an error for anything else.

    Such a request breaks the protocol; but an unanswered one can hang the server's handler for good. Most servers quote
    the error in the tool's result, so it names the capability.
    """
    assert request.id is not UNSET
    if request.method == "ping":
        return result(request.id, b"{}")
    capability = CAPABILITY_OF.get(str(request.method))
    if capability is None:
        return error(request.id, METHOD_NOT_FOUND, NO_CLIENT_FEATURES)
    message = f"The client of this request has not declared the capability {capability}"
    return error(request.id, METHOD_NOT_FOUND, message)


def rpc_error(error: ErrorObject, status: int = 0) -> RpcError:
    """A server's error object as an exception."""
    data = bytes(error.data) if error.data is not UNSET else None
    return RpcError(error.code, error.message, data, status=status)
