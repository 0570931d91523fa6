"""`Mcp-Param-*` headers, which repeat arguments of a tool call (SEP-2243).

Pure module. The headers of a modern client have to match the arguments in the body. The headers that a modern server
gets are derived from the arguments.
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
"""Arguments of a tool that are repeated in headers."""
_INTEGER: Final = re.compile(r"(-?[0-9]+)(\.0+)?")


def read_headers(definition: bytes) -> ParamHeaders:
    """Arguments that a raw tool definition requires in headers.

    Empty if an `x-mcp-header` annotation is invalid: clients then send no header at all.
    """
    try:
        return parameters(definition)
    except InvalidAnnotation:
        return ()


def mismatch(arguments: Raw | None, header_parameters: ParamHeaders, headers: Mapping[bytes, bytes]) -> str | None:
    """Error message for a header that does not match its argument, or None. `headers` have lower-case names."""
    values = _values(arguments, header_parameters)
    for parameter in header_parameters:
        name = parameter.header
        header = headers.get(b"mcp-param-" + name.lower().encode())
        value = values.get(name)
        if value is None:
            if header is not None:
                return f"the header Mcp-Param-{name} has no matching member in params.arguments"
        elif header is None:
            return f"the header Mcp-Param-{name} is missing, although params.arguments has its value"
        elif not _are_equal(eras.text_of_header(header), value, parameter.kind):
            return f"the header Mcp-Param-{name} does not match its member of params.arguments"
    return None


def find_ambiguity(arguments: Raw | None, header_parameters: ParamHeaders) -> str | None:
    """Error message for arguments that a server might parse differently from the gateway, or None."""
    try:
        decoded = msgspec.json.decode(arguments) if arguments is not None else {}
        if arguments is not None and members.has_repeated_member(arguments):
            return "params.arguments has a duplicate member, and servers differ in which one they read"
    except jsonrpc.UNREADABLE:
        return None
    for path, _, _ in header_parameters:
        value: Any = decoded
        for step in path:
            if not isinstance(value, dict):
                break
            fault = members.ProtectedNames((step,)).explain_misread(value, "params.arguments")
            if fault is not None:
                return fault
            value = value.get(step)
    return None


def lines(arguments: Raw | None, header_parameters: ParamHeaders) -> bytes:
    """The `Mcp-Param-*` header lines of a request to a modern server."""
    values = _values(arguments, header_parameters)
    return b"".join(
        b"%b%b: %b\r\n" % (eras.H_PARAM, header.encode(), eras.header_value(text)) for header, text in values.items()
    )


def _values(arguments: Raw | None, header_parameters: ParamHeaders) -> dict[str, str]:
    """Header values, by the part of the header name after `Mcp-Param-`."""
    try:
        decoded = msgspec.json.decode(arguments) if arguments is not None else {}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        decoded = {}
    values = {}
    for path, name, _ in header_parameters:
        value: Any = decoded
        for step in path:
            value = value.get(step) if isinstance(value, dict) else None
        if isinstance(value, bool):
            values[name] = "true" if value else "false"
        elif isinstance(value, str | int | float):
            values[name] = str(value)
    return values


def _are_equal(header: str | None, value: str, kind: str) -> bool:
    """Whether a header equals an argument as text or, for an argument of type integer, as a number (42 and 42.0)."""
    if header is None or header == value:
        return header is not None
    header_number, value_number = _INTEGER.fullmatch(header), _INTEGER.fullmatch(value)
    return (
        kind == "integer"
        and header_number is not None
        and value_number is not None
        and _digits(header_number[1]) == _digits(value_number[1])
    )


def _digits(number: str) -> str:
    """An integer without leading zeros, as text, because parsing very long numbers is slow."""
    digits = number.lstrip("-").lstrip("0")
    return f"-{digits}" if digits and number.startswith("-") else digits
