"""Arguments that travel in `Mcp-Param-*` headers too: which ones, checked on the way in, derived on the way out.

Pure module (MCP 2026-07-28, Transports, "Custom headers from tool parameters"; SEP-2243). A modern client has to send
them and what it sends has to match the body; for a legacy client they are derived here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Raw

from fairlead_mcp import eras

_KEY: Final = "x-mcp-header"
_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_TYPES: Final = frozenset({"string", "integer", "boolean"})
MAX_DEPTH: Final = 32

Mirrored: TypeAlias = tuple[tuple[tuple[str, ...], str], ...]
"""Path of each mirrored argument, and the end of its header's name."""


def mirrored(definition: bytes) -> Mirrored:
    """The mirrored arguments of a raw tool definition; none where an annotation is not valid, for a client drops it
    then.
    """
    if _KEY.encode() not in definition:
        return ()
    try:
        schema = msgspec.json.decode(definition).get("inputSchema")
    except (msgspec.DecodeError, AttributeError, RecursionError):
        return ()
    found: list[tuple[tuple[str, ...], str]] = []
    if not _walk(schema, (), found) or len({name.lower() for _, name in found}) != len(found):
        return ()
    return tuple(found)


def _walk(schema: Any, path: tuple[str, ...], found: list[tuple[tuple[str, ...], str]]) -> bool:
    if not isinstance(schema, dict) or len(path) > MAX_DEPTH:
        return True
    properties = schema.get("properties")
    for name, below in properties.items() if isinstance(properties, dict) else ():
        if isinstance(below, dict) and _KEY in below:
            header, kind = below[_KEY], below.get("type")
            if not isinstance(header, str) or _TOKEN.fullmatch(header) is None or kind not in _TYPES:
                return False
            found.append(((*path, name), header))
        if not _walk(below, (*path, name), found):
            return False
    return True


def mismatch(arguments: Raw | None, names: Mirrored, headers: Mapping[bytes, bytes]) -> str | None:
    """What is wrong with the headers of a request (by lower-case name), as a sentence; None if nothing is."""
    values = _values(arguments, names)
    for _, name in names:
        header = headers.get(b"mcp-param-" + name.lower().encode())
        value = values.get(name)
        if value is None:
            if header is not None:
                return f"Mcp-Param-{name} has no counterpart in the arguments"
        elif header is None:
            return f"Mcp-Param-{name} is missing"
        elif not _same(eras.text_of_header(header), value):
            return f"Mcp-Param-{name} does not match the arguments"
    return None


def lines(arguments: Raw | None, names: Mirrored) -> bytes:
    """The header lines of a request to a modern server."""
    values = _values(arguments, names)
    return b"".join(
        b"%b%b: %b\r\n" % (eras.H_PARAM, name.encode(), eras.header_value(values[name]))
        for _, name in names
        if name in values
    )


def _values(arguments: Raw | None, names: Mirrored) -> dict[str, str]:
    try:
        decoded = msgspec.json.decode(arguments) if arguments is not None else {}
    except (msgspec.DecodeError, RecursionError):
        decoded = {}
    found = {}
    for path, name in names:
        value: Any = decoded
        for step in path:
            value = value.get(step) if isinstance(value, dict) else None
        if isinstance(value, bool):
            found[name] = "true" if value else "false"
        elif isinstance(value, str | int | float):
            found[name] = str(value)
    return found


def _same(header: str | None, value: str) -> bool:
    if header is None or header == value:
        return header is not None
    try:
        return float(header) == float(value)
    except ValueError:
        return False
