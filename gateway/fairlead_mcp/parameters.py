"""Finds the arguments of a tool that `Mcp-Param-*` headers repeat, by the annotation `x-mcp-header` in its input
schema. No I/O.

A tool with an invalid annotation must be left out of lists (MCP 2026-07-28, Transports, "Custom headers from tool
parameters"; SEP-2243).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

import msgspec

from fairlead_mcp.schemas import MODERN, Schema, parts

KEY: Final = "x-mcp-header"
MARK: Final = KEY.encode()
_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_TYPES: Final = frozenset({"string", "integer", "boolean"})
Path: TypeAlias = tuple[str, ...]
"""Names of nested properties, from the arguments object to one argument."""


class Parameter(NamedTuple):
    """Argument that a header repeats: the path of the argument, the header's name after `Mcp-Param-`, and the
    argument's JSON type.
    """

    path: Path
    header: str
    kind: str


class InvalidAnnotation(Exception):
    """A tool has an invalid annotation and must not be listed. The message names the argument and the rule."""


def parameters(definition: bytes) -> tuple[Parameter, ...]:
    """Return the annotated arguments of a raw tool definition. Raises InvalidAnnotation."""
    if MARK not in definition:
        return ()
    try:
        schema = msgspec.json.decode(definition).get("inputSchema")
    except (msgspec.DecodeError, UnicodeDecodeError, AttributeError, RecursionError):
        return ()
    by_name: dict[str, Parameter] = {}
    for path, subschema in _schemas(schema) if isinstance(schema, dict) else ():
        if KEY not in subschema:
            continue
        parameter = _parameter(path, subschema)
        other = by_name.setdefault(parameter.header.lower(), parameter)
        if other is not parameter:
            raise InvalidAnnotation(
                f"{_dotted_path(parameter.path)} and {_dotted_path(other.path)} have the same {KEY}"
            )
    return tuple(by_name.values())


def _parameter(path: Path | None, schema: Schema) -> Parameter:
    header, kind = schema[KEY], schema.get("type")
    if not path:
        raise InvalidAnnotation(f"{KEY} is at a schema that is not an argument: it may only be below `properties`")
    if not isinstance(header, str) or _TOKEN.fullmatch(header) is None:
        raise InvalidAnnotation(f"the {KEY} of {_dotted_path(path)} is not a header name")
    if not isinstance(kind, str) or kind not in _TYPES:
        raise InvalidAnnotation(f"{_dotted_path(path)} has {KEY} and is neither string nor integer nor boolean")
    return Parameter(path, header, kind)


def _dotted_path(path: Path) -> str:
    return ".".join(path)[:80]


def _schemas(root: Schema) -> Iterator[tuple[Path | None, Schema]]:
    """Yield all schemas with the argument's path; the path is None below keywords other than `properties`, where a
    schema does not belong to a single argument.
    """
    pending: list[tuple[Path | None, Schema]] = [((), root)]
    while pending:
        path, schema = pending.pop()
        yield path, schema
        for (keyword, *name), subschema in parts(schema, MODERN):
            if keyword == "items" and name:
                continue  # a tuple of older drafts, which the SDK ignores too
            pending.append((None if path is None or keyword != "properties" else (*path, *name), subschema))
