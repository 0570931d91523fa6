"""Replacement of property names that a provider refuses, and restoration of the original names.

Pure module. A replacement depends only on the original name and ends with a hash of it. So a name has the same
replacement at every level, for every provider and in every conversation, and no two names share a replacement. The
original schema suffices to restore the names in a call's arguments, in whatever format the call was sent.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from fairlead_formats.schema.budget import MAX_DEPTH, TooMuch
from fairlead_mcp.schemas import all_schemas, pointer

JsonObject = dict[str, Any]
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode

ANTHROPIC_NAMES: Final = re.compile(r"[a-zA-Z0-9_.-]{1,64}\Z")
"""Names that Anthropic accepts. For other names it refuses the whole request, also through Bedrock."""
GEMINI_NAMES: Final = re.compile(r"(?!\$ref\Z)")
"""Names that Gemini accepts. It reads a member `$ref` as a reference at any location."""

_ALPHABETS: Final = (ANTHROPIC_NAMES, GEMINI_NAMES)
_UNSAFE: Final = re.compile(r"[^a-zA-Z0-9_]+")
_HASH_DIGITS: Final = 8
"""Number of hexadecimal digits of the hash."""
_MAX_READABLE: Final = 55
"""Number of characters of the original name before the hash: 64 in all."""
_NAME_MAPS: Final = ("properties", "dependentSchemas", "dependentRequired", "dependencies")
"""Keywords whose member names are property names."""


def other_names(schema: object) -> dict[str, str]:
    """Maps replacements to original names, for each property that some provider refuses. Empty for most schemas."""
    return {_replacement_name(name): name for alphabet in _ALPHABETS for name in _refused_names(schema, alphabet)}


def rename(schema: JsonObject, alphabet: re.Pattern[str]) -> tuple[JsonObject, dict[str, str]]:
    """The schema with replaced property names, and a map of replacements to original names. Returns the same schema if
    `alphabet` matches all names. Raises TooMuch for a schema that is nested too deeply.
    """
    refused_names = _refused_names(schema, alphabet)
    if not refused_names:
        return schema, {}
    replacements = {name: _replacement_name(name) for name in refused_names}
    return _Renaming(schema, replacements).copy(schema, 0), {other: name for name, other in replacements.items()}


def restore_names(arguments: Any, names: Mapping[str, str]) -> Any:
    """The arguments with original property names, at every level. Recursive: the arguments must be of bounded depth."""
    if isinstance(arguments, dict):
        return {names.get(name, name): restore_names(value, names) for name, value in arguments.items()}
    return [restore_names(value, names) for value in arguments] if isinstance(arguments, list) else arguments


def restore_text(arguments: str, names: Mapping[str, str]) -> str:
    """Arguments as JSON text, with original property names. Text that is not JSON is returned unchanged."""
    try:
        return _encode(restore_names(_decode(arguments), names)).decode()
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return arguments


def restore_path(path: str, names: Mapping[str, str]) -> str:
    """A JSON Pointer into the original schema, from a pointer into the schema with replaced names."""
    return "/".join(pointer(names[step])[1:] if step in names else step for step in path.split("/"))


def _replacement_name(name: str) -> str:
    readable_part = _UNSAFE.sub("_", name).strip("_")[:_MAX_READABLE]
    if not readable_part[:1].isalpha():
        readable_part = f"p_{readable_part}"[:_MAX_READABLE].rstrip("_")
    return f"{readable_part}_{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:_HASH_DIGITS]}"


def _refused_names(schema: object, alphabet: re.Pattern[str]) -> list[str]:
    """Names of all properties in a schema that `alphabet` does not match, without repeats and in stable order."""
    names: dict[str, None] = {}
    pending: list[Any] = [schema]
    while pending:
        value = pending.pop()
        if value.__class__ is dict:
            properties = value.get("properties")
            if properties.__class__ is dict:
                names.update((name, None) for name in properties if not alphabet.match(name))
            pending += value.values()
        elif value.__class__ is list:
            pending += value
    return [*names]


class _Renaming:
    def __init__(self, root: JsonObject, replacements: Mapping[str, str]) -> None:
        self._replacements = replacements
        self._schemas = {id(schema) for schema in all_schemas(root)}

    def copy(self, value: Any, depth: int) -> Any:
        if depth > 2 * MAX_DEPTH:
            raise TooMuch(f"the schema is nested more than {MAX_DEPTH} levels deep")
        if isinstance(value, list):
            return [self.copy(item, depth + 1) for item in value]
        if not isinstance(value, dict):
            return value
        out = {key: self.copy(item, depth + 1) for key, item in value.items()}
        return self._schema(out) if id(value) in self._schemas else out

    def _schema(self, out: JsonObject) -> JsonObject:
        for keyword in _NAME_MAPS:
            if isinstance(out.get(keyword), dict):
                out[keyword] = {self._replacements.get(name, name): part for name, part in out[keyword].items()}
        for keyword in ("dependentRequired", "dependencies"):
            if isinstance(out.get(keyword), dict):
                out[keyword] = {name: self._names(part) for name, part in out[keyword].items()}
        if "required" in out:
            out["required"] = self._names(out["required"])
        reference = out.get("$ref")
        if isinstance(reference, str) and reference.startswith("#/"):
            out["$ref"] = self._rename_reference(reference)
        return out

    def _names(self, names: Any) -> Any:
        """Rename the strings of a list; other values are returned unchanged."""
        if not isinstance(names, list):
            return names
        return [self._replacements.get(name, name) if isinstance(name, str) else name for name in names]

    def _rename_reference(self, reference: str) -> str:
        """The `$ref` with replaced names of the properties in its path."""
        paths = {
            f"properties{pointer(name)}": f"properties{pointer(other)}" for name, other in self._replacements.items()
        }
        for path, other in paths.items():
            reference = re.sub(rf"(?<=/){re.escape(path)}(?=/|\Z)", other.replace("\\", "\\\\"), reference)
        return reference
