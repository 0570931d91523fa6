"""Results of `tools/call` from the answers of an API, in two steps: `content_of`, and `result_of`. No I/O.

| answer | result |
|---|---|
| JSON | its text, and `structuredContent` if the operation has an `outputSchema` |
| other text | its text |
| image or audio | a block of that kind |
| other bytes | a resource with a blob |
| nothing | a sentence with the status |
| a status of 300 or more | HttpRefused, with the status and the beginning of the body |
"""

from __future__ import annotations

import binascii
import codecs
import re
from http import HTTPStatus
from typing import Final

import msgspec
from msgspec import Raw

from fairlead_api.documents.operations import Operation
from fairlead_mcp import jsonrpc
from fairlead_mcp.errors import HttpRefused, TooLarge
from fairlead_mcp.http.answer import Answer
from fairlead_mcp.http.reading import looks_like_html, plain_address
from fairlead_mcp.jsonrpc import CUT, MAX_RESULT_VALUES
from fairlead_mcp.value_count import too_many_values
from fairlead_openapi.calling.bodies import base_type, is_json
from fairlead_openapi.calling.values import compact

MAX_REFUSAL_CHARS: Final = 2_000
"""Maximum number of characters of an error's body that a model reads, enough for the faults of several fields."""
_MEDIA_TYPE: Final = re.compile(r"[\w.+-]{1,127}/[\w.+-]{1,127}", re.ASCII)
_BYTES: Final = "application/octet-stream"
_TEXTS: Final = frozenset(
    f"application/{subtype}"
    for subtype in (
        "graphql",
        "javascript",
        "jsonl",
        "jsonlines",
        "ndjson",
        "sql",
        "x-ndjson",
        "x-www-form-urlencoded",
        "x-yaml",
        "xml",
        "yaml",
    )
)
_CHARSET: Final = re.compile(
    r"charset\s*=\s*\"?((?:utf|us-ascii|iso|latin|windows|cp|shift|euc|gb|big5|koi8)[\w.:-]{0,40})",
    re.ASCII | re.IGNORECASE,
)
"""Encodings of texts. Some of Python's other codecs take quadratic time."""
_DECODE_ERRORS: Final = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)


class AnswerForm(msgspec.Struct, frozen=True):
    """Form of the result of an answer."""

    content_type: str
    path: str = ""
    """Path of the request, which names a blob."""
    structured: bool = False
    """Whether the result has `structuredContent`."""
    wrapped: bool = False
    """Whether `structuredContent` that is not an object is wrapped in one."""


_SENTENCE: Final = AnswerForm("text/plain")


def content_of(operation: Operation, path: str, answer: Answer) -> tuple[AnswerForm, bytes]:
    """The form and the body from which `result_of` makes the result of a call. Takes microseconds for any body.

    `path` is the path of the request. Raises HttpRefused.
    """
    if not 200 <= answer.status < 300:
        raise _refusal(answer)
    if not answer.body:
        return _SENTENCE, _empty_answer_text(answer).encode()
    content_type = answer.content_type.decode("latin-1")
    return AnswerForm(content_type, path, operation.structured, operation.wrapped), answer.body


def result_of(form: AnswerForm, body: bytes) -> Raw:
    """Make the result of a call, in up to 12 ms per MiB of the body. Raises TooLarge for too many JSON values."""
    base = base_type(form.content_type)
    if is_json(base):
        return _json_result(form, body)
    if base in _TEXTS or base.startswith("text/") or base.endswith(("+xml", "+yaml")):  # no model takes SVG as an image
        return _result(_text_block(_text(body, form.content_type)))
    if not base:
        try:
            return _result(_text_block(body.decode()))
        except UnicodeDecodeError:
            pass
    return _result(_binary_block(form.path, base, body))


def error_result(text: str) -> Raw:
    """Make the result of a call that failed."""
    return Raw(b'{"content":[%b],"isError":true}' % _text_block(text))


def is_fault_of_call(error: HttpRefused) -> bool:
    """Whether the status blames the call itself, rather than the credential, a rate limit or the API."""
    return 400 <= error.status < 500 and error.status not in (401, 403, 408, 421, 425, 429)


def _json_result(form: AnswerForm, body: bytes) -> Raw:
    try:
        body.decode()  # only checks that the body is UTF-8, which `compact` does not
        value = compact(body.removeprefix(codecs.BOM_UTF8))
    except _DECODE_ERRORS:  # declared as JSON, but it is not
        return _result(_text_block(_text(body, form.content_type)))
    block = _text_block(value.decode())
    if not form.structured:
        return _result(block)
    if too_many_values(value, MAX_RESULT_VALUES):
        raise TooLarge(f"the API's answer has more than {MAX_RESULT_VALUES:,} JSON values: ask for less at once")
    if value.startswith(b"{"):
        return _result(block, value)
    return _result(block, b'{"result":%b}' % value) if form.wrapped else _result(block)


def _result(block: bytes, structured: bytes = b"") -> Raw:
    member = b',"structuredContent":%b' % structured if structured else b""
    return Raw(b'{"content":[%b]%b}' % (block, member))


def _text_block(text: str) -> bytes:
    return b'{"type":"text","text":%b}' % jsonrpc.encode(text)


def _binary_block(path: str, base: str, body: bytes) -> bytes:
    media_type = base if _MEDIA_TYPE.fullmatch(base) else _BYTES
    data, encoded_type = binascii.b2a_base64(body, newline=False), media_type.encode()
    kind = media_type.partition("/")[0]
    if kind in ("image", "audio"):
        return b'{"type":"%b","data":"%b","mimeType":"%b"}' % (kind.encode(), data, encoded_type)
    uri = jsonrpc.encode("openapi:/" + path.lstrip("/"))
    return b'{"type":"resource","resource":{"uri":%b,"mimeType":"%b","blob":"%b"}}' % (uri, encoded_type, data)


def _text(body: bytes, content_type: str) -> str:
    """Text in the encoding that the type names, if that is one of `_DECODERS`; else as UTF-8 with replacements."""
    charset = _CHARSET.search(content_type)
    decode = _DECODERS.get(charset[1].lower() if charset else "", _utf_8)
    return decode(body).removeprefix("\ufeff")


def _utf_8(body: bytes) -> str:
    return body.decode("utf-8", "replace")


def _utf_16(body: bytes) -> str:
    return body.decode("utf-16", "replace")


def _windows_1252(body: bytes) -> str:
    return body.decode("windows-1252", "replace")


_DECODERS: Final = {
    "utf-16": _utf_16,
    "iso-8859-1": _windows_1252,
    "latin1": _windows_1252,
    "us-ascii": _windows_1252,
    "windows-1252": _windows_1252,
}
"""Decoders by label (WHATWG Encoding, section 4.2). Other codecs of Python, such as punycode, may take hours."""


def _empty_answer_text(answer: Answer) -> str:
    location = answer.headers.get(b"location", b"").decode("latin-1")
    location_text = f"; its Location is {plain_address(location)}" if location else ""
    return f"The API answered with status {_status(answer.status)} and without content{location_text}."


def _refusal(answer: Answer) -> HttpRefused:
    retry_after = answer.headers.get(b"retry-after")
    if 300 <= answer.status < 400:
        text = f"the API redirects ({answer.status}); redirects are not followed"
    else:
        text = f"the API answered with status {_status(answer.status)}{_quote(answer)}"
    return HttpRefused(
        text,
        status=answer.status,
        retry_after=None if retry_after is None else retry_after.decode("latin-1"),
        challenge=answer.headers.get(b"www-authenticate"),
    )


def _status(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _quote(answer: Answer) -> str:
    if looks_like_html(answer):
        return " and an HTML page"
    beginning = answer.body[: MAX_REFUSAL_CHARS * 4]
    text = _text(beginning, answer.content_type.decode("latin-1"))
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    if len(line) > MAX_REFUSAL_CHARS or len(beginning) < len(answer.body):
        line = line[: MAX_REFUSAL_CHARS - 1] + CUT
    return f": {line}" if line else ""
