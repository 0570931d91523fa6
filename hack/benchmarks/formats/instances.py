"""Values that a JSON Schema accepts, and values a step away from them: to see where two schemas disagree.

Deterministic in the `Random` it is given. Most values satisfy the schema, none need to: a validator judges them
afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

Schema = dict[str, Any]

MAX_DEPTH = 6
_SAMPLES = {
    "date-time": "2026-01-02T03:04:05Z",
    "date": "2026-01-02",
    "time": "03:04:05Z",
    "email": "a@example.com",
    "uri": "https://example.com/a",
    "uuid": "8c5a1f3e-9d0b-4c55-9a53-0d7c1f1b2a3c",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "hostname": "example.com",
    "duration": "P1D",
    "byte": "YQ==",
}
_WORDS = ("", "a", "A1", "abc", "hello world", "x-1", "2026-01-02", "42", "https://example.com", "äöü")
_KINDS = ("string", "integer", "number", "boolean", "object", "array", "null")


class Instances:
    """A generator of values for one schema."""

    def __init__(
        self,
        schema: Schema,
        chance: Random,
        *,
        words: Sequence[str] = _WORDS,
        matching: Callable[[str], str] | None = None,
    ) -> None:
        """`words` are texts without a format. `matching` makes a text that a pattern matches; without it, patterns are
        ignored.
        """
        self._root = schema
        self._chance = chance
        self._words = words
        self._matching = matching

    def value(self) -> Any:
        """A value that probably satisfies the schema."""
        return self._of(self._root, 0)

    def near(self) -> Any:
        """A value with one change at a random place."""
        return self._changed(self.value())

    def _of(self, schema: Any, depth: int) -> Any:
        if schema is True or schema == {} or not isinstance(schema, dict):
            return self._any(depth)
        for keyword, merge in (("$ref", self._resolved), ("anyOf", self._chosen), ("oneOf", self._chosen)):
            if schema.get(keyword):
                if keyword == "$ref" and depth >= MAX_DEPTH:
                    return {}
                return self._of(merge(_without(schema, keyword), schema[keyword]), depth + 1)
        if schema.get("allOf"):
            return self._of(self._combined(_without(schema, "allOf"), schema["allOf"]), depth + 1)
        if "const" in schema:
            return schema["const"]
        if schema.get("enum"):
            return self._chance.choice(schema["enum"])
        return self._typed(schema, depth)

    def _resolved(self, rest: Schema, reference: str) -> Schema:
        return {**self._target(reference), **rest}

    def _chosen(self, rest: Schema, branches: list[Any]) -> Schema:
        return _with(rest, self._chance.choice(branches))

    def _combined(self, rest: Schema, parts: list[Any]) -> Schema:
        for part in parts:
            rest = _with(rest, self._target(part["$ref"]) if isinstance(part, dict) and "$ref" in part else part)
        return rest

    def _typed(self, schema: Schema, depth: int) -> Any:
        kind = schema.get("type")
        if isinstance(kind, list):
            kind = self._chance.choice(kind)
        if kind is None:
            kind = "object" if "properties" in schema else "array" if "items" in schema else self._chance.choice(_KINDS)
        if kind == "object":
            return self._object(schema, depth)
        if kind == "array":
            return self._array(schema, depth)
        if kind == "string":
            return self._string(schema)
        if kind in ("integer", "number"):
            return self._number(schema, whole=kind == "integer")
        return None if kind == "null" else self._chance.random() < 0.5

    def _object(self, schema: Schema, depth: int) -> Schema:
        properties = schema.get("properties", {})
        required = schema.get("required", [])
        out = {
            name: self._of(part, depth + 1)
            for name, part in properties.items()
            if part is not False and (name in required or (depth < MAX_DEPTH and self._chance.random() < 0.6))
        }
        out.update({name: self._any(depth) for name in required if name not in out})
        more = schema.get("additionalProperties", True)
        if more is not False and self._chance.random() < (0.1 if more is True else 0.7):
            out[self._chance.choice(("extra", "x1"))] = self._of(more, depth + 1)
        return out

    def _array(self, schema: Schema, depth: int) -> list[Any]:
        prefix = schema.get("prefixItems", [])
        least = max(schema.get("minItems", 0), len(prefix))
        count = self._chance.randint(least, max(least, min(schema.get("maxItems", least + 2), least + 2)))
        items = schema.get("items", True)
        if items is False:
            count = min(count, len(prefix))
        if depth >= MAX_DEPTH:
            count = min(count, least)
        return [self._of(prefix[i] if i < len(prefix) else items, depth + 1) for i in range(count)]

    def _string(self, schema: Schema) -> str:
        sample = _SAMPLES.get(str(schema.get("format")), "YQ==" if "contentEncoding" in schema else "")
        if self._matching is not None and "pattern" in schema and not re.search(schema["pattern"], sample):
            return self._matching(schema["pattern"])
        text: str = sample or self._chance.choice(self._words)
        text += "x" * max(0, min(schema.get("minLength", 0), 1000) - len(text))
        return text[: schema.get("maxLength", len(text))]

    def _number(self, schema: Schema, *, whole: bool) -> float:
        low = schema.get("minimum", schema.get("exclusiveMinimum"))
        high = schema.get("maximum", schema.get("exclusiveMaximum"))
        low = (high - 10 if high is not None else -5) if low is None else low
        high = low + 20 if high is None else high
        edge = self._chance.choice((low, high, self._chance.uniform(low, high) if low <= high else low))
        return int(edge) if whole else edge

    def _any(self, depth: int) -> Any:
        return self._chance.choice(("a", 3, 1.5, True, {"a": 1}, ["a"])) if depth < MAX_DEPTH else "a"

    def _target(self, ref: str) -> Schema:
        here: Any = self._root
        for part in ref.lstrip("#").split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            here = here[int(key)] if isinstance(here, list) else here.get(key, {})
        return here if isinstance(here, dict) else {}

    def _changed(self, value: Any) -> Any:
        chance = self._chance
        if isinstance(value, dict) and value and chance.random() < 0.85:
            return self._changed_object(value)
        if isinstance(value, list) and value and chance.random() < 0.7:
            return [*value, value[0]] if chance.random() < 0.3 else [self._changed(value[0]), *value[1:]]
        if isinstance(value, int | float) and not isinstance(value, bool) and chance.random() < 0.6:
            return value + chance.choice((-1000, 1000, 1, 0.5))
        if isinstance(value, str) and chance.random() < 0.6:
            return chance.choice(_WORDS)
        return chance.choice((None, "a", 7, True, {}, []))

    def _changed_object(self, value: dict[str, Any]) -> dict[str, Any]:
        name = self._chance.choice(sorted(value))
        rest = _without(value, name)
        step = self._chance.random()
        if step < 0.2:
            return rest
        if step < 0.3:
            return {**value, "extra": 1}
        return {**rest, name: self._changed(value[name])}


def _without(members: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in members.items() if key != name}


def _with(rest: Schema, branch: Any) -> Schema:
    if not isinstance(branch, dict):
        return rest
    merged = {**rest, **branch}
    if "properties" in rest and "properties" in branch:
        merged["properties"] = {**rest["properties"], **branch["properties"]}
    if "required" in rest and "required" in branch:
        merged["required"] = [*rest["required"], *branch["required"]]
    return merged
