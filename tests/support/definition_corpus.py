"""Definitions with one malformed member: each member of each definition of MCP gets values of all other types.

The members are those of the specification's own schemas, of 2025-11-25 and of 2026-07-28.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

REVISIONS: Final = ("2025-11-25", "2026-07-28")
LISTED: Final = ("Tool", "Prompt", "Resource", "ResourceTemplate")
DEEP: Final = 20_000
_OPEN: Final = ("_meta",)
"""Members for which the schema allows any value."""


class Odd(NamedTuple):
    """One definition of the corpus."""

    title: str
    """Path and value, for example `annotations.title=null`."""
    definition: bytes


@cache
def list_schemas(revision: str) -> dict[str, Any]:
    """Part of a revision's schema that describes lists."""
    folder = files("fairlead_tools.definitions").joinpath("published")
    schema: dict[str, Any] = json.loads(folder.joinpath(f"{revision}.json").read_bytes())
    return schema


def corpus(listed: str) -> Iterator[Odd]:
    """Odd definitions of one type, each with a unique name."""
    number = 0
    for revision in REVISIONS:
        whole = _example(list_schemas(revision)["$defs"][listed], revision)
        for path in _paths(whole):
            for label, value in _values().items():
                number += 1
                odd = copy.deepcopy(whole)
                _name(odd, listed, f"odd{number}")
                _put(odd, path, value)
                title = f"{revision} {'.'.join(map(str, path))}={label}"
                yield Odd(title, json.dumps(odd).encode())
    for label, raw in _raw(listed).items():
        number += 1
        yield Odd(label, raw.replace(b"raw", b"raw%d" % number))


def _values() -> dict[str, Any]:
    nested: Any = "core"
    for _ in range(200):
        nested = {"a": [nested]}
    return {
        "null": None,
        "true": True,
        "false": False,
        "number": 7,
        "fraction": 1.5,
        "large": 2**70,
        "text": "x",
        "empty text": "",
        "empty list": [],
        "empty object": {},
        "list of null": [None],
        "object of null": {"a": None},
        "object of list": {"a": []},
        "list of text": ["x"],
        "object of text": {"a": "x"},
        "nested": nested,
    }


def _raw(listed: str) -> dict[str, bytes]:
    """Definitions that Python's JSON decoder cannot produce."""
    begin = json.dumps(_identity(listed, "raw") | ({"inputSchema": {"type": "object"}} if listed == "Tool" else {}))
    values = {
        "20,000 levels": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
        "150 levels": b"[" * 150 + b"]" * 150,
        "a number beyond doubles": b"1e400",
        "an integer beyond doubles": b"1" + b"0" * 400,
        "half a surrogate pair": rb'"\ud83d"',
        "100,000 nulls": b"[" + b",".join([b"null"] * 40_000) + b"]",
    }
    made = {label: b'%b,"_meta":{"x":%b}}' % (begin[:-1].encode(), value) for label, value in values.items()}
    if listed != "Tool":
        return made
    many = b",".join(b'"p%d":null' % number for number in range(15_000))
    made["15,000 properties of null"] = b'{"name":"raw","inputSchema":{"type":"object","properties":{%b}}}' % many
    deep = b'{"type":"object","properties":{"a":' * DEEP + b"{}" + b"}}" * DEEP
    made["20,000 levels of schemas"] = b'{"name":"raw","inputSchema":%b}' % deep
    made["20,000 levels of output"] = b'{"name":"raw","inputSchema":{"type":"object"},"outputSchema":%b}' % deep
    for label, schema in _OUTPUTS.items():
        tool = {"name": "raw", "inputSchema": {"type": "object"}, "outputSchema": schema}
        made[f"outputSchema: {label}"] = json.dumps(tool).encode()
    return made


def _of_property(schema: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": schema}}


_OUTPUTS: Final[dict[str, Any]] = {
    "a list": {"type": "array", "items": {"type": "string"}},
    "empty": {},
    "a reference": {"$ref": "#/$defs/A", "$defs": {"A": {"type": "object"}}},
    "a reference that leads nowhere": _of_property({"$ref": "#/$defs/nothing"}),
    "a reference to another host": _of_property({"$ref": "https://example.com/schema.json"}),
    "a reference in a circle": {**_of_property({"$ref": "#/$defs/A"}), "$defs": {"A": {"$ref": "#/$defs/A"}}},
    "a recursive reference": _of_property({"$ref": "#"}),
    "a pattern that is none": _of_property({"type": "string", "pattern": "("}),
    "a pattern of Python": _of_property({"type": "string", "pattern": "^(?P<x>a)\\Z"}),
    "a pattern with an escape that ECMAScript lacks": _of_property({"type": "string", "pattern": "^\\_a$"}),
    "a pattern of both": _of_property({"type": "string", "pattern": "^[a-z0-9-]+$"}),
    "a property pattern": {"type": "object", "patternProperties": {"(": {}}},
    "a type that is none": _of_property({"type": "strin"}),
    "a bound of draft 4": _of_property({"type": "number", "minimum": 1, "exclusiveMinimum": True}),
    "nullable without a type": _of_property({"nullable": True}),
    "an anchor twice": {"type": "object", "properties": {"a": {"$anchor": "x"}, "b": {"$anchor": "x"}}},
    "an anchor that is none": _of_property({"$anchor": "#x"}),
    "a part with an identifier": _of_property({"$id": "https://example.com/a", "type": "object"}),
    "a part with the identifier of another's": _of_property({"$id": "https://example.com/a", "type": "string"}),
    "an identifier of draft 4": _of_property({"id": "a"}),
    "an empty enum": _of_property({"enum": []}),
    "additional items that are a number": _of_property({"additionalItems": 0}),
    "a keyword of Ajv": _of_property({"$async": True, "formatMinimum": 0}),
    "an identifier that is a number": {"type": "object", "$id": 5},
    "draft 4": {**_of_property({}), "$schema": "http://json-schema.org/draft-04/schema#"},
    "a draft that nobody knows": {**_of_property({}), "$schema": "https://example.com/draft"},
    "an empty anyOf": _of_property({"anyOf": []}),
    "keywords that are null": _of_property({"enum": None, "items": None, "description": None, "type": None}),
    "keywords that are lists": _of_property({"properties": [], "items": [], "additionalProperties": []}),
}


def _identity(listed: str, name: str) -> dict[str, Any]:
    """Required members of a definition of one type."""
    more = {"Resource": {"uri": f"file:///{name}"}, "ResourceTemplate": {"uriTemplate": f"file:///{name}/{{x}}"}}
    return {"name": name, **more.get(listed, {})}


def _name(definition: dict[str, Any], listed: str, name: str) -> None:
    definition.update(_identity(listed, name))


def _example(schema: dict[str, Any], revision: str) -> Any:
    """A value with all members of a schema."""
    if "$ref" in schema:
        return _example(list_schemas(revision)["$defs"][schema["$ref"].rpartition("/")[2]], revision)
    if "const" in schema or "enum" in schema:
        return schema.get("const", schema.get("enum", [None])[0])
    match schema.get("type"):
        case "object":
            value = {name: _example(member, revision) for name, member in schema.get("properties", {}).items()}
            rest = schema.get("additionalProperties")
            return value | ({"more": _example(rest, revision)} if isinstance(rest, dict) and rest else {})
        case "array":
            return [_example(schema["items"], revision)]
        case "string":
            return "file:///x" if schema.get("format") == "uri" else "text"
        case "boolean":
            return True
        case "number" | "integer":
            return 1
    return {}


def _paths(value: Any) -> Iterator[tuple[str | int, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in items:
        yield (key,)
        if key not in _OPEN:
            yield from ((key, *path) for path in _paths(member))


def _put(value: Any, path: tuple[str | int, ...], member: Any) -> None:
    for step in path[:-1]:
        value = value[step]
    value[path[-1]] = member
