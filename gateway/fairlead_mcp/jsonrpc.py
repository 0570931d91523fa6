"""Decoders and encoders for the JSON-RPC 2.0 messages of MCP, which pass `params` and `result` on as raw JSON. No I/O.

Members that are not read stay byte for byte (`msgspec.Raw`). Members may be in any order; the TypeScript SDK writes
`result,jsonrpc,id`. A `Raw` is a view that keeps the whole message alive: `.copy()` it before storing it for long.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec
from msgspec import Raw

from fairlead_mcp.content import LongTextBlock
from fairlead_mcp.errors import BadJson, NotMcp, RpcError
from fairlead_mcp.mending import explain_invalid_answer, mend
from fairlead_mcp.messages import (
    ErrorObject,
    LongResultMembers,
    Message,
    RawContent,
    Response,
    ResultHead,
    ResultMembers,
)
from fairlead_mcp.value_count import too_many_values

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
RESOURCE_NOT_FOUND: Final = -32002
"""Error of legacy revisions; must not be emitted from 2026-07-28 on."""
HEADER_MISMATCH: Final = -32020
MISSING_CLIENT_CAPABILITY: Final = -32021
UNSUPPORTED_PROTOCOL_VERSION: Final = -32022

UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Exceptions that decoding arbitrary bytes can raise."""

BEFORE_ID: Final = b'{"jsonrpc":"2.0","id":'
BEFORE_RESULT: Final = b',"result":'
"""Text before and after the id in the successful responses that this module encodes."""
_RESULT_FIRST: Final = b'{"result":'
_ID_LAST: Final = b',"jsonrpc":"2.0","id":'

TEXTS_SKIPPED: Final = 4 * 1024
"""Size of a result in bytes from which checking its texts one by one is cheaper than copying them."""
_LONG: Final = 64 * 1024
"""Size in bytes from which the texts of a result are not decoded if the result may not be UTF-8."""
_MAX_CHECKED_BLOCKS: Final = 64
"""Most blocks that `_has_texts` checks in a long result; with more blocks, decoding the texts is cheap enough."""
_QUOTE: Final = ord('"')
_HUGE: Final = 1 << 20
"""Size of a result in bytes from which its values and blocks are counted before it is decoded."""
MAX_RESULT_VALUES: Final = 1_000_000
"""Limit for the values of one result; each takes 20 to 50 ns."""
MAX_BLOCKS: Final = 50_000
"""Limit for the content blocks of one result; each takes 0.3 µs."""
EXCERPT: Final = 120
"""Characters of a foreign body that an error message may quote."""
CUT: Final = "…"
"""End of an excerpt that is not the whole text."""

RawObject: TypeAlias = dict[str, Raw]
"""JSON object whose members are not decoded."""

UNSET: Final = msgspec.UNSET
"""Value of a member that is absent from a message. Defined here again because compiled modules access names of other
compiled modules faster."""

decode_message: Final = msgspec.json.Decoder(Message).decode
decode_response: Final = msgspec.json.Decoder(Response).decode
decode_result_head: Final = msgspec.json.Decoder(ResultHead).decode
_decode_result: Final = msgspec.json.Decoder(ResultMembers).decode
_decode_long_result: Final = msgspec.json.Decoder(LongResultMembers).decode
_decode_content: Final = msgspec.json.Decoder(RawContent).decode
decode_object: Final = msgspec.json.Decoder(RawObject).decode
decode_text: Final = msgspec.json.Decoder(str).decode
encode: Final = msgspec.json.Encoder().encode


def copy_raw(raw: Raw) -> bytes:
    """Return a raw value as bytes. `bytes(raw)` takes half as long again, and each tool call does this twice."""
    return b"".join((raw,))


def read_response(data: bytes) -> Response:
    """Decode a response; an invalid one whose meaning is clear is repaired.

    Raises BadJson for invalid JSON, NotMcp for JSON that is not a response, such as a list or a request.
    """
    try:
        response = decode_response(data)
    except UNREADABLE as error:
        response = _read_mended(data, error)
    if response.result is UNSET and response.error is None:
        raise NotMcp(f"the answer is JSON without result or error: {excerpt(data)}", excerpt=excerpt(data))
    return response


def _read_mended(data: bytes, error: Exception) -> Response:
    mended = mend(data)
    if mended is not None:
        try:
            return decode_response(mended)
        except UNREADABLE as second_error:
            error = second_error
    if isinstance(error, msgspec.ValidationError):
        quote = excerpt(data)
        raise NotMcp(f"the answer is JSON but not a JSON-RPC response: {quote}", excerpt=quote) from error
    raise bad_json(data, error) from error


def decode_result(raw: bytes | Raw, long_bytes: int = _LONG) -> ResultMembers:
    """Decode a result, and check the members that the result of a tool call has. Raises one of UNREADABLE:
    msgspec.ValidationError also for more than MAX_BLOCKS blocks of content.

    `long_bytes` is the size in bytes from which texts are not decoded: TEXTS_SKIPPED if the result is known to be
    UTF-8.
    """
    if len(raw) < long_bytes:
        return _decode_result(raw)
    if len(raw) > _HUGE:
        _check_blocks(bytes(raw))
    members = _decode_long_result(raw)
    if not _has_texts(members):
        return _decode_result(raw)
    return members


def _has_texts(result: LongResultMembers) -> bool:
    """Whether the `text` of each text block is a JSON string. False also for more than _MAX_CHECKED_BLOCKS blocks."""
    blocks = result.content
    if blocks is UNSET:
        return True
    if len(blocks) > _MAX_CHECKED_BLOCKS:
        return False
    for block in blocks:  # noqa: SIM110 - `all` of a generator takes four times as long
        if isinstance(block, LongTextBlock) and memoryview(block.text)[0] != _QUOTE:
            return False
    return True


def check_values(text: bytes, start: int = 0) -> None:
    """Check the response that begins at `start`, before anything decodes it: each pass over a response takes up to 4 ms
    per MiB. Raises NotMcp if it has more than MAX_RESULT_VALUES values.
    """
    if len(text) - start > _HUGE and too_many_values(text, MAX_RESULT_VALUES, start):
        raise NotMcp(f"the server sent an invalid result (the result has more than {MAX_RESULT_VALUES:,} values)")


def _check_blocks(raw: bytes) -> None:
    """Raise msgspec.ValidationError for a result with too many blocks, which makes callers pass it on as one text."""
    # unescaped quotes do not occur within strings, so that the count includes only strings that are "type"
    if raw.count(b'"type"') > MAX_BLOCKS and bytes(_decode_content(raw).content).count(b'"type"') > MAX_BLOCKS:
        raise msgspec.ValidationError(f"the result has more than {MAX_BLOCKS} blocks of content")


def framed_result(data: bytes, ident: bytes, start: int = 0) -> bytes | None:
    """Cut the result out of a response to `ident` that begins at `start` and is framed as most SDKs frame it; None for
    other responses.

    The caller has to check that the returned text is one JSON value. As callers decode the result anyway, this saves a
    pass over the whole response. White space around the result is included.
    """
    before = BEFORE_ID + ident + BEFORE_RESULT
    begin = start + len(before)
    if data[start:begin] == before:  # in compiled code three times as fast as `startswith`
        return data[begin:-1] if data.endswith(b"}") else None
    begin = start + len(_RESULT_FIRST)
    if data[start:begin] == _RESULT_FIRST:  # the order of the TypeScript SDK
        after = _ID_LAST + ident + b"}"
        return data[begin : -len(after)] if data.endswith(after) else None
    return None


def bad_json(data: bytes, error: Exception) -> BadJson:
    """Make the exception for a decoding error; its reason says whether the document is cut off or malformed."""
    if "truncated" in str(error):
        return BadJson(f"the answer's JSON ends too early, after {len(data)} bytes", reason="TruncatedJSON")
    if isinstance(error, RecursionError):
        return BadJson("the answer's JSON is nested too deeply")
    return BadJson(f"{explain_invalid_answer(data, error)}: {excerpt(data)}")


def excerpt(data: bytes) -> str:
    """Return the beginning of a server's text on one line, without control characters; `…` marks a cut."""
    text = data[: EXCERPT * 4].decode("utf-8", "replace")
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= EXCERPT and len(data) <= EXCERPT * 4 else line[: EXCERPT - 1] + CUT


def request(ident: bytes, method: str, params: bytes | Raw | None = None) -> bytes:
    """Encode a request. `ident` (the id) and `params` are raw JSON and embedded unchanged."""
    return b"".join((BEFORE_ID, ident, b',"method":', encode(method), *_params(params), b"}"))


def notification(method: str, params: bytes | Raw | None = None) -> bytes:
    """Encode a notification; `params` is raw JSON."""
    return b"".join((b'{"jsonrpc":"2.0","method":', encode(method), *_params(params), b"}"))


def result(ident: bytes | Raw, value: bytes | Raw) -> bytes:
    """Encode a successful response; `ident` and `value` are raw JSON."""
    return b"".join((BEFORE_ID, ident, BEFORE_RESULT, value, b"}"))


def error(ident: bytes | Raw, code: int, message: str, data: bytes | Raw | None = None) -> bytes:
    """Encode an error response; `ident` (b"null" when unknown) and `data` are raw JSON."""
    members = b'{"code":%d,"message":%b' % (code, encode(message))
    data_member = () if data is None else (b',"data":', data)
    return b"".join((BEFORE_ID, ident, b',"error":', members, *data_member, b"}}"))


def _params(params: bytes | Raw | None) -> tuple[bytes | Raw, ...]:
    return () if params is None else (b',"params":', params)


def with_member(params: bytes | Raw | None, name: str, value: bytes) -> bytes:
    """Set one member of `params`. Other members stay byte for byte; of members with the same name, the last is kept."""
    members: RawObject = decode_object(params) if params is not None else {}
    members[name] = Raw(value)
    return encode(members)


CAPABILITY_OF: Final = {
    "sampling/createMessage": "sampling",
    "elicitation/create": "elicitation",
    "roots/list": "roots",
}
"""Client capabilities that requests of servers require, by method."""
NO_CLIENT_FEATURES: Final = "This client offers no features to servers"


def reply_to_server(request: Message) -> bytes:
    """Answer a request of a legacy server that requires a capability which the client has not declared: `{}` for ping,
    an error for others.

    Such a request violates the protocol, but without an answer the server's handler could hang for ever. The error
    names the capability because most servers quote it in the tool's result.
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
    """Make the exception for a server's error object."""
    data = bytes(error.data) if error.data is not UNSET else None
    return RpcError(error.code, error.message, data, status=status)
