"""Makes the HTTP request of a call: path, query, headers and body, from the arguments and the server's credential. No
I/O.

A model chooses the arguments, so each value is confined to its position: it cannot leave its path segment, add a
parameter or header, or replace a part of the credential.
"""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet
from typing import Final
from urllib.parse import quote, unquote

import msgspec
from msgspec import Raw

from fairlead_api.documents.catalog import SentCredential
from fairlead_api.documents.operations import Operation, OperationParameter
from fairlead_mcp.errors import ArgumentsRefused
from fairlead_mcp.http.target import InvalidTarget, checked_name, checked_value
from fairlead_openapi.calling.bodies import base_type, build_body, is_json
from fairlead_openapi.calling.styles import encoder, escape, pairs, path_text
from fairlead_openapi.calling.values import Members, compact, kind_of, text_of, value_of

MAX_TARGET_BYTES: Final = 16 << 10
"""Maximum bytes of path and query. Most servers accept 8 KiB; the highest limit in common use is 16 KiB."""
MAX_HEADER_BYTES: Final = 32 << 10
"""Limit on the header lines of one request."""
MAX_ARGUMENT_BYTES: Final = 96 << 10
"""Maximum bytes of the arguments of one location as JSON, in which a character takes up to six bytes. Encoding more,
only to find that the result is too long, would block the event loop.
"""
_TEMPLATE: Final = re.compile(r"\{([^{}]*)\}")
_PATH: Final = "/%:@!$&'()*+,;=~-._"
"""Characters of a template that need no escape in a path (RFC 3986 section 3.3)."""
_COOKIE: Final = "!#$&'()*+-./:<=>?@[]^_`{|}~"
"""Characters of a cookie's value that need no escape (RFC 6265 section 4.1.1)."""
_SEPARATORS: Final = re.compile(r"[/\\]")
_METHOD: Final = re.compile(r"[A-Z]{1,32}")
_REFUSED_METHODS: Final = frozenset({"CONNECT", "TRACE"})
"""Methods that do not reach the API, or that expose the credential of the request."""
_RESERVED_HEADERS: Final = frozenset(
    {"authorization", "cookie", "proxy-authorization", "via", "forwarded", "traceparent"}
)
"""Headers that arguments never set, in addition to the headers of the transport."""


class HttpRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request without `Host`, `Content-Length` and what the connection adds."""

    method: str
    target: bytes
    """Path and query."""
    lines: bytes
    """Header lines, each of which ends in CRLF."""
    body: bytes | None


def build_request(
    operation: Operation, arguments: Members, base: bytes, credential: SentCredential, *, added_header: str = ""
) -> HttpRequest:
    """Make the request of a call.

    `base` is the encoded path and query of the base URL. `added_header` is the name of a header that the caller adds,
    which neither arguments nor the credential may set. Raises ArgumentsRefused if the request cannot carry the
    arguments, and InvalidTarget if a credential or a document contains control characters.
    """
    if not _METHOD.fullmatch(operation.method) or operation.method in _REFUSED_METHODS:
        raise InvalidTarget(f"the method {operation.method!r} is not sent")
    try:
        _refuse_unknown(operation, arguments)
        target = _target(operation, arguments, base, credential)
        body = None if operation.body is None else build_body(operation.body, arguments)
        lines = _header_lines(operation, arguments, credential, added_header.lower())
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ArgumentsRefused(f"The arguments cannot be written into a request: {error}") from error
    except RecursionError as error:
        raise ArgumentsRefused("The arguments are nested too deeply to be written into a request") from error
    if body is not None:
        lines += b"Content-Type: %b\r\n" % checked_value("Content-Type", body.content_type)
    if len(target) > MAX_TARGET_BYTES:
        raise ArgumentsRefused(f"The arguments make a URL of {len(target)} bytes; the limit is {MAX_TARGET_BYTES}")
    if len(lines) > MAX_HEADER_BYTES:
        raise ArgumentsRefused(f"The arguments make headers of {len(lines)} bytes; the limit is {MAX_HEADER_BYTES}")
    return HttpRequest(method=operation.method, target=target, lines=lines, body=None if body is None else body.data)


def _refuse_unknown(operation: Operation, arguments: Members) -> None:
    """Refuse arguments that the request has no place for: without them the request would have another meaning."""
    names = {parameter.argument for parameter in operation.parameters}
    if operation.body is not None:
        names |= {operation.body.argument, *operation.body.properties}
    unknown_names = [name for name in arguments if name not in names]
    if unknown_names:
        raise ArgumentsRefused(f"The operation has no argument {', '.join(sorted(unknown_names)[:5])}")


def _present_parameters(
    operation: Operation, arguments: Members, location: str
) -> list[tuple[OperationParameter, Raw]]:
    """Parameters of one location that have a value other than null. Raises ArgumentsRefused beyond MAX_GIVEN_BYTES."""
    values = [
        (parameter, arguments[parameter.argument])
        for parameter in operation.parameters
        if parameter.location == location
        and parameter.argument in arguments
        and kind_of(arguments[parameter.argument]) != "n"
    ]
    size = sum(len(bytes(value)) for _, value in values)
    if size > MAX_ARGUMENT_BYTES:
        target = "headers" if location in ("header", "cookie") else "a URL"
        raise ArgumentsRefused(
            f"The arguments have {size} bytes, too many for {target}; the limit is {MAX_ARGUMENT_BYTES}"
        )
    return values


# Path and query


def _target(operation: Operation, arguments: Members, base: bytes, credential: SentCredential) -> bytes:
    prefix, _, base_query = base.partition(b"?")
    path = prefix.decode().rstrip("/") + _path(operation, arguments)
    query = [base_query.decode()] if base_query else []
    own_names = {escape(name) for name in credential.query}
    for parameter, value in _present_parameters(operation, arguments, "query"):
        query += _without_names(own_names, _query_pairs(parameter, value))
    query += [f"{escape(name)}={escape(value)}" for name, value in credential.query.items()]
    return (f"{path or '/'}?{'&'.join(query)}" if query else path or "/").encode()


def _without_names(names: AbstractSet[str], pairs: list[str]) -> list[str]:
    """Remove pairs whose encoded name is one of `names`: an object spread over the query chooses its own names."""
    return [pair for pair in pairs if pair.partition("=")[0] not in names]


def _query_pairs(parameter: OperationParameter, value: Raw) -> list[str]:
    encode = encoder(allow_reserved=parameter.allow_reserved)
    if parameter.media_type:
        return [f"{escape(parameter.name)}={encode(_content_text(parameter, value))}"]
    return pairs(parameter.name, value, parameter.style, explode=parameter.explode, encode=encode)


def _content_text(parameter: OperationParameter, value: Raw) -> str:
    """Text of a parameter with `content`."""
    return compact(value).decode() if is_json(base_type(parameter.media_type)) else text_of(value)


def _path(operation: Operation, arguments: Members) -> str:
    values = {
        parameter.name: (parameter, value) for parameter, value in _present_parameters(operation, arguments, "path")
    }
    segments = [_segment(operation, segment, values) for segment in operation.path.split("/")]
    path = "/".join(segments)
    return path if path.startswith("/") else "/" + path


def _segment(operation: Operation, segment: str, values: dict[str, tuple[OperationParameter, Raw]]) -> str:
    pieces, end = [], 0
    for match in _TEMPLATE.finditer(segment):
        pieces.append(quote(segment[end : match.start()], safe=_PATH))
        pieces.append(_path_value(operation, match[1], values))
        end = match.end()
    pieces.append(quote(segment[end:], safe=_PATH))
    encoded_segment = "".join(pieces)
    if _is_dots(unquote(encoded_segment)):
        raise ArgumentsRefused(
            f"The arguments make {unquote(encoded_segment)!r} a segment of the path {operation.path}, which leads to "
            "another path: give other values"
        )
    return encoded_segment


def _path_value(operation: Operation, name: str, values: dict[str, tuple[OperationParameter, Raw]]) -> str:
    if name not in values:
        argument = next((p.argument for p in operation.parameters if (p.name, p.location) == (name, "path")), name)
        raise ArgumentsRefused(f"The argument {argument} is missing: the path {operation.path} needs it")
    parameter, raw = values[name]
    if parameter.media_type:
        text = escape(_content_text(parameter, raw))
    else:
        value = value_of(raw)
        text = "" if not value else path_text(name, value, parameter.style, explode=parameter.explode)
    if not text:
        raise ArgumentsRefused(f"The argument {parameter.argument} is empty: it is a part of the path {operation.path}")
    decoded_text = unquote(text)
    for reading in (decoded_text, unquote(decoded_text)):  # some servers decode a path twice
        if any(_is_dots(segment) for segment in _SEPARATORS.split(reading)):
            raise ArgumentsRefused(
                f"The argument {parameter.argument} has a segment . or .. and would lead to another path than "
                f"{operation.path}"
            )
    return text


def _is_dots(segment: str) -> bool:
    """Whether a server may remove the segment (RFC 3986 section 5.2.4), also with parameters after it."""
    return segment.partition(";")[0].strip() in (".", "..")


# Headers


def _header_lines(operation: Operation, arguments: Members, credential: SentCredential, added_header: str) -> bytes:
    lines = [b"Accept: %b\r\nAccept-Encoding: identity\r\n" % checked_value("Accept", operation.accept or "*/*")]
    fixed_names = {name.lower() for name in credential.headers} | _RESERVED_HEADERS | {added_header}
    parameters = [
        (p, value)
        for p, value in _present_parameters(operation, arguments, "header")
        if p.name.lower() not in fixed_names
    ]
    if "user-agent" not in fixed_names | {parameter.name.lower() for parameter, _ in parameters}:
        lines.append(b"User-Agent: fairlead\r\n")  # some APIs refuse requests without one
    lines += [_argument_line(parameter, value) for parameter, value in parameters]
    for name, value in credential.headers.items():
        if name.lower() != added_header:
            lines.append(b"%b: %b\r\n" % (checked_name(name), checked_value(name, value)))
    cookies = _cookies(operation, arguments, credential)
    if cookies:
        lines.append(b"Cookie: %b\r\n" % checked_value("Cookie", "; ".join(cookies)))
    return b"".join(lines)


def _argument_line(parameter: OperationParameter, raw: Raw) -> bytes:
    if parameter.media_type:
        text = _content_text(parameter, raw)
    else:
        value = value_of(raw)
        text = (
            "" if value is None else path_text(parameter.name, value, "simple", explode=parameter.explode, encode=str)
        )
    try:
        return b"%b: %b\r\n" % (checked_name(parameter.name), checked_value(parameter.name, text))
    except InvalidTarget as error:
        raise ArgumentsRefused(f"The argument {parameter.argument} cannot be sent: {error}") from error


def _cookies(operation: Operation, arguments: Members, credential: SentCredential) -> list[str]:
    cookies = []
    for parameter, value in _present_parameters(operation, arguments, "cookie"):
        if parameter.media_type:
            cookies.append(f"{escape(parameter.name)}={escape(_content_text(parameter, value), _COOKIE)}")
        else:
            cookies += pairs(parameter.name, value, "form", explode=parameter.explode, encode=_cookie_text)
    credential_cookies = [f"{name}={value}" for name, value in credential.cookies.items()]
    return _without_names({escape(name) for name in credential.cookies}, cookies) + credential_cookies


def _cookie_text(text: str) -> str:
    return escape(text, _COOKIE)
