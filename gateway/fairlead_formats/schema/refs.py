"""Targets of `$ref` within one document, and the names that they get.

Pure module. References to other documents are never followed: nothing is fetched for a schema.
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
    """The references of one document, by its root."""

    __slots__ = ("_anchors", "_names", "_root", "_sizes")

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._sizes: dict[str, int] = {}
        self._names: dict[str, str] = {}
        self._anchors: dict[str, Any] | None = None

    def target(self, ref: object) -> Any | None:
        """The schema that `ref` points to; None where it points to nothing in this document."""
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
        """The schema at the end of a chain of references and nothing else."""
        for _ in range(10):
            if not isinstance(schema, dict) or schema.keys() != {"$ref"}:
                break
            schema = self.target(schema["$ref"])
        return schema

    def size(self, ref: str, schema: Any) -> int:
        """Bytes of what `ref` points to, as JSON. Raises TooMuch for what cannot be encoded."""
        if ref not in self._sizes:
            try:
                self._sizes[ref] = len(_encode(schema))
            except (RecursionError, TypeError, ValueError, msgspec.MsgspecError) as error:
                raise TooMuch(f"what {ref[:80]} points to cannot be copied: {error}") from error
        return self._sizes[ref]

    def name(self, ref: str) -> str:
        """A name for what `ref` points to below `$defs`: its own, or one made of the last parts of the pointer."""
        if ref not in self._names:
            for prefix in _DEFINITIONS:
                own = ref.removeprefix(prefix)
                if own != ref and "/" not in own and (prefix == _DEFINITIONS[0] or own not in self._defs()):
                    self._names[ref] = unquote(own).replace("~1", "/").replace("~0", "~")
                    return self._names[ref]
            plain = "_".join(part for part in ref.lstrip("#/").split("/")[-3:] if part) or "root"
            taken = {*self._names.values(), *self._defs()}
            name, number = plain, 2
            while name in taken:
                name, number = f"{plain}_{number}", number + 1
            self._names[ref] = name
        return self._names[ref]

    def _defs(self) -> dict[str, Any]:
        definitions = self._root.get("$defs")
        return definitions if isinstance(definitions, dict) else {}

    def _anchor(self, name: str) -> Any | None:
        if self._anchors is None:
            self._anchors = {}
            for schema in all_schemas(self._root):
                for own in anchors(schema):
                    self._anchors.setdefault(own, schema)
        return self._anchors.get(name)
