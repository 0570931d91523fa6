"""Targets of `$ref` within one schema document, and their names below `$defs`.

Pure module. References to other documents are never resolved: nothing is fetched for a schema.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import unquote

import msgspec

from fairlead_formats.schema.budget import TooMuch
from fairlead_mcp.schemas import UnresolvedReference, all_schemas, anchors, follow_pointer

_DEFINITIONS: Final = ("#/$defs/", "#/definitions/")

_encode = msgspec.json.Encoder().encode


class SchemaReferences:
    """Resolves the references of one document."""

    __slots__ = ("_anchors", "_names", "_root", "_sizes")

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._sizes: dict[str, int] = {}
        self._names: dict[str, str] = {}
        self._anchors: dict[str, Any] | None = None

    def target(self, ref: object) -> Any | None:
        """The schema that `ref` points to; None if it does not resolve within the document."""
        if not isinstance(ref, str) or not ref.startswith("#"):
            return None
        try:
            schema = (
                follow_pointer(self._root, ref[1:]) if ref == "#" or ref.startswith("#/") else self._anchor(ref[1:])
            )
        except UnresolvedReference:
            return None
        return schema if isinstance(schema, dict | bool) else None

    def peek(self, schema: Any) -> Any:
        """The schema at the end of a chain of references without siblings."""
        for _ in range(10):
            if not isinstance(schema, dict) or schema.keys() != {"$ref"}:
                break
            schema = self.target(schema["$ref"])
        return schema

    def size(self, ref: str, schema: Any) -> int:
        """Size in bytes of the target of `ref` as JSON. Raises TooMuch if it cannot be encoded."""
        if ref not in self._sizes:
            try:
                self._sizes[ref] = len(_encode(schema))
            except (RecursionError, TypeError, ValueError, msgspec.MsgspecError) as error:
                raise TooMuch(f"the target of {ref[:80]} cannot be copied: {error}") from error
        return self._sizes[ref]

    def name(self, ref: str) -> str:
        """A name below `$defs` for the target of `ref`: its name there, or a name made of the pointer's last parts."""
        if ref not in self._names:
            for prefix in _DEFINITIONS:
                own_name = ref.removeprefix(prefix)
                if (
                    own_name != ref
                    and "/" not in own_name
                    and (prefix == _DEFINITIONS[0] or own_name not in self._defs())
                ):
                    self._names[ref] = unquote(own_name).replace("~1", "/").replace("~0", "~")
                    return self._names[ref]
            base_name = "_".join(part for part in ref.lstrip("#/").split("/")[-3:] if part) or "root"
            taken_names = {*self._names.values(), *self._defs()}
            name, number = base_name, 2
            while name in taken_names:
                name, number = f"{base_name}_{number}", number + 1
            self._names[ref] = name
        return self._names[ref]

    def _defs(self) -> dict[str, Any]:
        definitions = self._root.get("$defs")
        return definitions if isinstance(definitions, dict) else {}

    def _anchor(self, name: str) -> Any | None:
        if self._anchors is None:
            self._anchors = {}
            for schema in all_schemas(self._root):
                for anchor in anchors(schema):
                    self._anchors.setdefault(anchor, schema)
        return self._anchors.get(name)
