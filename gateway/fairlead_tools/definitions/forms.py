"""Validation and repair of the definitions that a server lists: one malformed entry would make clients reject the whole
list. No I/O.

Definitions are validated by MCP's JSON Schemas (`published`, made by hack/mcpschemas.py): for modern clients by the
schema of 2026-07-28, for all older clients by the schema of 2025-11-25. Faults are repaired if it is clear what was
meant: an optional member that is null counts as absent, PHP writes an empty object as `[]`, and Lua writes an empty
list as `{}`. Definitions with other faults are refused.
"""

from __future__ import annotations

import importlib.resources
import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias

import jsonschema_rs
import msgspec
from msgspec import Raw

from fairlead_mcp import jsonrpc
from fairlead_mcp.eras import LATEST_LEGACY_VERSION, MODERN_VERSION
from fairlead_tools.definitions.parsers import blank_member, is_date_time, wrong_uri
from fairlead_tools.definitions.schema_mending import is_schema, mend_schema
from fairlead_tools.definitions.validated_output import unusable_in_old_clients

MAX_DEPTH: Final = 60
"""Maximum depth of nested objects and lists. .NET's parser refuses a response, including the levels around the
definition, with more than 64 levels, the Python SDK with more than 200.
"""
MAX_DIGITS: Final = 308
"""Maximum number of digits of an integer: Go's encoding/json refuses an answer with a number beyond a double's
range.
"""
_MAX_MENDS: Final = 32
"""Maximum number of repairs of one definition; removed nulls do not count."""
MAX_CHANGES: Final = 20
"""Maximum number of reported changes of one definition."""
_MAX_SHOWN: Final = 200
_MAX_SHOWN_STEP: Final = 60
_HIDDEN_VALUE: Final = "the value"
"""Replaces values in error messages, because they may be long."""
_LONG_NUMBER: Final = re.compile(rb"[0-9]{%d}" % (MAX_DIGITS + 1))
_SCHEMAS: Final = ("inputSchema", "outputSchema")

Path: TypeAlias = tuple[str | int, ...]

_decode: Final = msgspec.json.Decoder().decode
_decode_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_encode: Final = msgspec.json.Encoder().encode


class ListedType(StrEnum):
    """Types of list entries, by their names in MCP's schema."""

    TOOL = "Tool"
    PROMPT = "Prompt"
    RESOURCE = "Resource"
    TEMPLATE = "ResourceTemplate"


class Form(NamedTuple):
    """Valid form of a definition for the clients of one era, or the reason why no form is valid."""

    definition: bytes
    """Raw JSON; empty if the definition is refused."""
    changes: tuple[str, ...] = ()
    """Descriptions of repairs, such as "inputSchema.required: null is left out"."""
    refusal: str = ""
    """Why the definition cannot be listed; empty if it can be listed."""


class Forms(NamedTuple):
    """Forms of a definition for both eras. If the modern form is refused, the legacy form is refused too."""

    modern: Form
    legacy: Form


def make_forms(raw: bytes, listed_type: ListedType) -> Forms:
    """Validate and repair one definition. A valid definition is returned as the same object. Raises nothing."""
    try:
        value = _decode(raw)
    except jsonrpc.UNREADABLE as error:
        return _refusal(" ".join(str(error).split())[:_MAX_SHOWN] or "the definition is nested too deeply")
    if _LONG_NUMBER.search(raw) and _has_huge_integer(value):
        return _refusal(f"the definition has a number of more than {MAX_DIGITS} digits")
    if raw.count(b"{") + raw.count(b"[") > MAX_DEPTH and _is_deeper(value, MAX_DEPTH):
        return _refusal(f"the definition is nested deeper than {MAX_DEPTH} objects and lists")
    draft = _Draft(raw, value)
    if listed_type is ListedType.TOOL and isinstance(value, dict):
        draft.mend_schemas()
    refusal = draft.conform(_validator(MODERN_VERSION, listed_type)) or draft.suit_parsers(listed_type)
    if refusal:
        return _refusal(refusal)
    modern = draft.form()
    if listed_type is not ListedType.TOOL:  # other definitions are the same in both revisions
        return Forms(modern, modern)
    refusal = draft.suit_old_clients()
    return Forms(modern, Form(b"", draft.changes, refusal) if refusal else draft.form())


def _refusal(reason: str) -> Forms:
    form = Form(b"", (), reason)
    return Forms(form, form)


class _Draft:
    """Decoded definition that is repaired in place. Only changed members are encoded again."""

    def __init__(self, raw: bytes, value: Any) -> None:
        self._raw = raw
        self._value = value
        self._changed_members: set[str] = set()
        self._changes: list[str] = []

    @property
    def changes(self) -> tuple[str, ...]:
        return tuple(self._changes)

    def form(self) -> Form:
        if not self._changed_members:
            return Form(self._raw)
        members = _decode_members(self._raw)
        for name in self._changed_members:
            if name in self._value:
                members[name] = Raw(_encode(self._value[name]))
            else:
                members.pop(name, None)
        return Form(_encode(members), self.changes)

    def mend_schemas(self) -> None:
        """Repair the JSON Schemas in the definition, at any depth."""
        for name in _SCHEMAS:
            schema = self._value.get(name)
            if isinstance(schema, dict) and not is_schema(schema):
                for path, change in mend_schema(schema):
                    self._note((name, *path), change)

    def conform(self, validator: jsonschema_rs.Validator) -> str:
        """Repair the definition. Returns a sentence about the first fault that cannot be repaired; empty if there is no
        such fault.
        """
        if validator.is_valid(self._value):
            return ""
        self._leave_out_nulls()
        for _ in range(_MAX_MENDS):
            try:
                validator.validate(self._value)  # reports only the first error of possibly 100,000
            except jsonschema_rs.ValidationError as error:
                path = tuple(error.instance_path)
                if self._mend(path, error):
                    continue
                if path[:1] == ("icons",):
                    self._leave_out_icons()
                elif path[:1] == ("execution",):  # tasks of 2025-11-25, which the gateway does not support
                    self._leave_out("execution", "left out")
                else:
                    return _sentence(path, error)
            else:
                return ""
        return "the definition has too many faults to be repaired"

    def suit_old_clients(self) -> str:
        """Adapt the definition to 2025-11-25. Returns a sentence about a fault that remains; empty if the definition is
        valid."""
        schema = self._value.get("outputSchema")
        if schema is not None:
            is_not_object = schema.get("type") != "object"
            reason = "the schema is not of type object" if is_not_object else unusable_in_old_clients(schema)
            if reason:
                self._leave_out("outputSchema", f"left out for older clients, as {reason}")
        for name in _SCHEMAS:
            schema = self._value.get(name)
            properties: Any = schema.get("properties") if isinstance(schema, dict) else None
            for key, value in properties.items() if isinstance(properties, dict) else ():
                if isinstance(value, bool):
                    properties[key] = {} if value else {"not": {}}
                    self._note(
                        (name, "properties", key), f"{str(value).lower()} is written as an object for older clients"
                    )
        return self.conform(_validator(LATEST_LEGACY_VERSION, ListedType.TOOL))

    def suit_parsers(self, listed_type: ListedType) -> str:
        """Repair values that MCP's schema allows but a client's parser refuses. Returns a sentence about the first such
        value that cannot be repaired; empty if there is no such value.
        """
        if listed_type is ListedType.TOOL:
            if "execution" in self._value:  # not in 2026-07-28, but clients of both revisions read it
                self.conform(_execution())
            return ""
        blank_path = blank_member(self._value)
        if blank_path:
            return f"{blank_path} is empty"
        if listed_type is ListedType.PROMPT:
            return ""
        annotations = self._value.get("annotations", {})
        if not is_date_time(annotations.get("lastModified", "2026-07-28T00:00:00Z")):
            del annotations["lastModified"]
            self._note(("annotations", "lastModified"), "left out, because the value is not a time with a UTC offset")
        return self._suit_parsers_of_resources() if listed_type is ListedType.RESOURCE else ""

    def _suit_parsers_of_resources(self) -> str:
        size = self._value.get("size", 0)
        if not -(2**63) <= size < 2**63:
            return "size does not fit into 64 bits"
        if isinstance(size, float):
            self._value["size"] = int(size)
            self._note(("size",), "written as an integer")
        reason = wrong_uri(self._value["uri"])
        return f"uri: {reason}" if reason else ""

    def _leave_out_nulls(self) -> None:
        """Remove members that are null, which MCP allows nowhere. A required member is then reported as missing."""
        for path, members in _objects(self._value):
            for name in [name for name, member in members.items() if member is None]:
                del members[name]
                self._note((*path, name), "null is left out")

    def _mend(self, path: Path, error: jsonschema_rs.ValidationError) -> bool:
        """Repair the value that a validation error reports. False if it is unclear what the value means."""
        parent: Any = _value_at(self._value, path[:-1]) if path else None
        if not isinstance(parent, dict):
            return False
        types, value = getattr(error.kind, "types", ()), parent.get(path[-1])
        if isinstance(value, list) and not value and "object" in types:
            parent[path[-1]] = {}
            self._note(path, "[] is written as {}")
        elif isinstance(value, dict) and not value and "array" in types:
            parent[path[-1]] = []
            self._note(path, "{} is written as []")
        else:
            return False
        return True

    def _leave_out(self, member: str, change: str) -> None:
        if self._value.pop(member, None) is not None:
            self._note((member,), change)

    def _leave_out_icons(self) -> None:
        """Remove invalid icons, because icons are only decoration."""
        icons = self._value.get("icons")
        is_valid = _validator(MODERN_VERSION, "Icon").is_valid
        valid_icons = [icon for icon in icons if is_valid(icon)] if isinstance(icons, list) else []
        if valid_icons:
            self._value["icons"] = valid_icons
            self._note(("icons",), "invalid icons are left out")
        else:
            self._leave_out("icons", "left out")

    def _note(self, path: Path, change: str) -> None:
        self._changed_members.add(str(path[0]))
        if len(self._changes) < MAX_CHANGES:
            self._changes.append(f"{dot_path(path)}: {change}")


def _sentence(path: Path, error: jsonschema_rs.ValidationError) -> str:
    missing_member = getattr(error.kind, "property", None)
    if path == ("inputSchema", "type") or (path == ("inputSchema",) and missing_member == "type"):
        return 'the inputSchema does not have "type": "object"'
    fault = error.message[:_MAX_SHOWN] if missing_member is None else f"no {missing_member}"
    return f"{dot_path(path)}: {fault}" if path else fault


def dot_path(path: Path) -> str:
    """Write a path for messages, such as `icons[0].src`."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step[:_MAX_SHOWN_STEP]}" for step in path)
    return text.removeprefix(".")


def _objects(definition: Any) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield those objects in a definition that MCP defines, with their paths; that excludes JSON Schemas and
    `_meta`.
    """
    if not isinstance(definition, dict):
        return
    yield (), definition
    for member in ("annotations", "execution"):
        if isinstance(definition.get(member), dict):
            yield (member,), definition[member]
    for member in ("arguments", "icons"):
        items = definition.get(member)
        for number, item in enumerate(items if isinstance(items, list) else ()):
            if isinstance(item, dict):
                yield (member, number), item


def _value_at(value: Any, path: Path) -> Any:
    """Return the value at a path; None if it was removed."""
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def _is_deeper(value: Any, limit: int) -> bool:
    layer = [value]
    for _ in range(limit):
        layer = [item for parent in layer for item in _items(parent) if isinstance(item, dict | list)]
        if not layer:
            return False
    return True


def _has_huge_integer(value: Any) -> bool:
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, int) and not isinstance(item, bool) and abs(item) >= 10**MAX_DIGITS:
            return True
        pending += _items(item)
    return False


def _items(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


@cache
def _validator(revision: str, definition: str) -> jsonschema_rs.Validator:
    """Return the validator for one definition of a revision's schema."""
    return _compile(revision, {"$ref": f"#/$defs/{definition}"})


@cache
def _execution() -> jsonschema_rs.Validator:
    """Return the validator for a tool's `execution`."""
    return _compile(LATEST_LEGACY_VERSION, {"properties": {"execution": {"$ref": "#/$defs/ToolExecution"}}})


def _compile(revision: str, root: dict[str, Any]) -> jsonschema_rs.Validator:
    folder = importlib.resources.files("fairlead_tools.definitions").joinpath("published")
    schema = {**_decode(folder.joinpath(f"{revision}.json").read_bytes()), **root}
    return jsonschema_rs.validator_for(schema, offline=True, mask=_HIDDEN_VALUE)
