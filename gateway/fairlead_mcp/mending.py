"""Repair of invalid JSON messages whose meaning is clear, after decoding them has failed. No I/O.

Repaired are:

- a leading byte order mark (RFC 8259 section 8.1), which is removed;
- the escape of half a surrogate pair, which RFC 8259 section 7 allows but UTF-8 cannot encode: it becomes U+FFFD;
- raw control characters within strings, which are escaped;
- error objects whose members have wrong types (JSON-RPC 2.0 section 5.1).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import Raw

from fairlead_mcp.deep_entries import remove_deep_values
from fairlead_mcp.surrogates import replace_lone_surrogates

MAX_BYTES: Final = 256 * 1024
"""Most bytes of a message that is repaired; the repair takes up to 40 ms of the event loop."""
BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_CONTROL: Final = re.compile(rb"[\x00-\x1f]")
_NOT_A_NUMBER: Final = re.compile(rb"[:\[,]\s*(-?(?:NaN|Infinity))\b")
_ID_MEMBER: Final = re.compile(rb'"id"\s*:\s*"?(\d{1,18})"?\s*(?=[,}\r\n]|$)')
_ID_LINE: Final = re.compile(rb'\s*"id"\s*:\s*"?(\d{1,18})"?\s*,?\s*')
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_decode_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_list: Final = msgspec.json.Decoder(list[Raw]).decode
_decode: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode


def mend(message: bytes) -> bytes | None:
    """Return the repaired message; None if nothing was repaired or the message is still invalid.

    In a message of more than MAX_BYTES only the byte order mark and entries that are nested too deeply are removed, and
    the result may be invalid.
    """
    text = remove_deep_values(message.removeprefix(BYTE_ORDER_MARK))
    if len(text) > MAX_BYTES:
        return text if len(text) < len(message) else None
    if _CONTROL.search(text):
        text = _STRING.sub(lambda match: _escape(match[0]), text)
    text = replace_lone_surrogates(text)
    if b'"error"' in text:
        text = _with_error_object(text) or text
    if text == message:
        return None
    try:
        _decode(text)
    except _UNREADABLE:
        return None
    return text


def messages_of_batch(line: bytes) -> list[bytes] | None:
    """Split a batch into its messages (MCP 2025-03-26, Batching; JSON-RPC 2.0 section 6); None for other lines."""
    text = line.removeprefix(BYTE_ORDER_MARK).lstrip()
    if not text.startswith(b"["):
        return None
    try:
        items = [bytes(item) for item in _decode_list(text)]
    except _UNREADABLE:
        return None
    return [item for item in items if item.startswith(b"{")] or None


def answered_ids(line: bytes) -> Iterator[bytes]:
    """Yield the ids of requests that an invalid line may answer.

    Ids are the numeric `id` members of a line that looks like a response, or that is one of the lines of a
    pretty-printed response.
    """
    text = line.replace(b"\x00", b"")  # in UTF-16 an ASCII character has a zero byte beside it
    if match := _ID_LINE.fullmatch(text):
        yield match[1]
    elif b'"result"' in text or b'"error"' in text:
        for match in _ID_MEMBER.finditer(text):
            yield match[1]


def explain_invalid_answer(line: bytes, error: Exception) -> str:
    """Explain to the waiting caller why an answer is invalid."""
    if b"\x00" in line:
        return "the answer is encoded as UTF-16, not as UTF-8"
    if match := _NOT_A_NUMBER.search(line):
        return f"the answer has the value {match[1].decode()}, which JSON does not allow"
    if _ID_LINE.fullmatch(line):
        return "the answer spans several lines; a message has to be one line"
    if isinstance(error, UnicodeDecodeError):
        return "the answer is not UTF-8"
    if isinstance(error, RecursionError):
        return "the answer is nested too deeply"
    return f"the answer is not JSON ({error})"


def _escape(text: bytes) -> bytes:
    """Escape the raw control characters of a JSON string."""
    return _CONTROL.sub(lambda match: b"\\u%04x" % match[0][0], text)


def _with_error_object(text: bytes) -> bytes | None:
    """Repair the `error` of a response that lacks an integer `code` or a string `message`; None for other messages."""
    try:
        members = _decode_members(text)
        raw = members.get("error")
        error = _decode(raw) if raw is not None and "method" not in members else None
    except _UNREADABLE:
        return None
    if error is None:
        return None
    error_members = error if isinstance(error, dict) else {"message": error}
    code, message = error_members.get("code"), error_members.get("message")
    integer = code if isinstance(code, int) and not isinstance(code, bool) else _integer_in(code)
    if isinstance(error, dict) and integer is not None and integer == code and isinstance(message, str):
        return None
    text_of_message = message if isinstance(message, str) else "" if message is None else _encode(message).decode()
    if integer is None and code is not None:
        text_of_message = f"{code}: {text_of_message}" if text_of_message else str(code)
    repaired = {
        **error_members,
        "code": -32603 if integer is None else integer,
        "message": text_of_message or "the server gives no reason",
    }
    return _encode({**members, "error": Raw(_encode(repaired))})


def _integer_in(code: object) -> int | None:
    return int(code) if isinstance(code, str) and re.fullmatch(r"-?\d{1,9}", code) else None
