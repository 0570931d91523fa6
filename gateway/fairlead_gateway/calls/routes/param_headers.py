"""Arguments repeated in `Mcp-Param-*` headers (SEP-2243): checked on the way in, derived on the way out.

Pure module. A modern client has to send them and they have to match the body; for a legacy client they are derived
here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Raw

from fairlead_mcp import eras, jsonrpc, members
from fairlead_mcp.parameters import InvalidAnnotation, Parameter, parameters

ParamHeaders: TypeAlias = tuple[Parameter, ...]
_WHOLE: Final = re.compile(r"(-?[0-9]+)(\.0+)?")


def read_headers(definition: bytes) -> ParamHeaders:
    """Arguments that a raw tool definition wants in headers; none where an annotation is not valid, for clients send
    none then.
    """
    try:
        return parameters(definition)
    except InvalidAnnotation:
        return ()


def mismatch(arguments: Raw | None, names: ParamHeaders, headers: Mapping[bytes, bytes]) -> str | None:
    """Sentence about a header that does not match its argument; None if all do. `headers`: by lower-case name."""
    values = _values(arguments, names)
    for parameter in names:
        name = parameter.header
        header = headers.get(b"mcp-param-" + name.lower().encode())
        value = values.get(name)
        if value is None:
            if header is not None:
                return f"Mcp-Param-{name} has no counterpart in the arguments"
        elif header is None:
            return f"Mcp-Param-{name} is missing"
        elif not _same(eras.text_of_header(header), value, parameter.kind):
            return f"Mcp-Param-{name} does not match the arguments"
    return None


def misread(arguments: Raw | None, names: ParamHeaders) -> str | None:
    """A sentence about what a server may read otherwise of the arguments that headers repeat; None for nothing."""
    try:
        decoded = msgspec.json.decode(arguments) if arguments is not None else {}
        if arguments is not None and members.has_repeated_member(arguments):
            return "params.arguments has a member twice: servers differ in which one they read"
    except jsonrpc.UNREADABLE:
        return None
    for path, _, _ in names:
        value: Any = decoded
        for step in path:
            if not isinstance(value, dict):
                break
            fault = members.Known((step,)).misread(value, "params.arguments")
            if fault is not None:
                return fault
            value = value.get(step)
    return None


def lines(arguments: Raw | None, names: ParamHeaders) -> bytes:
    """The header lines of a request to a modern server."""
    values = _values(arguments, names)
    return b"".join(
        b"%b%b: %b\r\n" % (eras.H_PARAM, header.encode(), eras.header_value(text)) for header, text in values.items()
    )


def _values(arguments: Raw | None, names: ParamHeaders) -> dict[str, str]:
    """Values of the headers, by the end of their names."""
    try:
        decoded = msgspec.json.decode(arguments) if arguments is not None else {}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        decoded = {}
    values = {}
    for path, name, _ in names:
        value: Any = decoded
        for step in path:
            value = value.get(step) if isinstance(value, dict) else None
        if isinstance(value, bool):
            values[name] = "true" if value else "false"
        elif isinstance(value, str | int | float):
            values[name] = str(value)
    return values


def _same(header: str | None, value: str, kind: str) -> bool:
    """Whether both are equal, as texts; whole numbers by their value, so that 42 and 42.0 are."""
    if header is None or header == value:
        return header is not None
    first, other = _WHOLE.fullmatch(header), _WHOLE.fullmatch(value)
    return kind == "integer" and first is not None and other is not None and _digits(first[1]) == _digits(other[1])


def _digits(number: str) -> str:
    """Digits without leading zeros; texts are compared, for a number of many digits takes long to read."""
    digits = number.lstrip("-").lstrip("0")
    return f"-{digits}" if digits and number.startswith("-") else digits
