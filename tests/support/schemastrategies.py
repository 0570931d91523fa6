"""Hypothesis strategies for the schemas that check users' YAML: those of the chart's values and of the CRDs. They
support the keywords of these schemas. Values may violate other rules, such as CEL rules.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from hypothesis import strategies as st

Json = Mapping[str, Any]
Strategy = st.SearchStrategy[Any]

_EXAMPLE: Final = re.compile(r"such as ([^ ,;]+)")
_CHARACTERS: Final = st.characters(codec="ascii", categories=("L", "N", "P", "S", "Zs"))
_AWKWARD: Final = ("123", "1e3", "0x1f", "true", "on", "null", "2001-01-01")
"""Texts that YAML reads as another type if they are not quoted."""
_TEXT: Final = st.text(_CHARACTERS, min_size=1, max_size=12) | st.sampled_from(_AWKWARD)
_LONGEST: Final = 60
"""Maximum number of characters of a text that is generated from a pattern; longer ones test nothing more."""


def values_of(schema: Json) -> Strategy:
    """Values that a schema accepts. Raises ValueError for an unknown keyword."""
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        return st.integers(schema.get("minimum", 0), 65535) | _texts(schema)
    kinds = schema.get("type", "object")
    if isinstance(kinds, list):
        return st.one_of([values_of({**schema, "type": kind}) for kind in kinds])
    match kinds:
        case "null":
            return st.none()
        case "boolean":
            return st.booleans()
        case "integer":
            return st.integers(*_bounds(schema))
        case "number":
            return st.floats(*_bounds(schema), allow_nan=False, allow_infinity=False)
        case "string":
            return _texts(schema)
        case "array":
            return _arrays(schema)
        case "object":
            return _objects(schema)
    raise ValueError(f"no strategy for the type {kinds}")


def _bounds(schema: Json) -> tuple[Any, Any]:
    least = schema.get("minimum")
    most = schema.get("maximum")
    if "exclusiveMinimum" in schema:
        least = schema["exclusiveMinimum"] + 1
    if "exclusiveMaximum" in schema:
        most = schema["exclusiveMaximum"] - 1
    return -1000 if least is None else least, max(1000, least or 0) if most is None else most


def _texts(schema: Json) -> Strategy:
    least = schema.get("minLength", 0)
    most = min(schema.get("maxLength", _LONGEST), _LONGEST)
    for rule in schema.get("x-kubernetes-validations", ()):
        if example := _EXAMPLE.search(rule["message"]):
            return st.just(example[1])
    if "pattern" in schema or "if" in schema:  # an `else` has the words that helm prints for other texts
        # `\Z`: Python's `$` is also in front of a final line break, RE2's is not.
        pattern = re.sub(r"\$$", r"\\Z", schema.get("if", schema)["pattern"])
        drawn = st.from_regex(pattern, alphabet=_CHARACTERS)
        awkward = [text for text in _AWKWARD if re.search(pattern, text)]
        either = drawn | st.sampled_from(awkward) if awkward else drawn
        return either.filter(lambda text: least <= len(text) <= most)
    return _TEXT.filter(lambda text: least <= len(text) <= most) if most else st.just("")


def _arrays(schema: Json) -> Strategy:
    items = values_of(schema.get("items", {"type": "string"}))
    least = schema.get("minItems", 0)
    most = min(schema.get("maxItems", 3), 3)
    if keys := schema.get("x-kubernetes-list-map-keys"):
        return st.lists(items, min_size=least, max_size=most, unique_by=lambda item: tuple(item.get(k) for k in keys))
    distinct = schema.get("uniqueItems") or schema.get("x-kubernetes-list-type") == "set"
    return st.lists(items, min_size=least, max_size=most, unique_by=repr if distinct else None)


def _objects(schema: Json) -> Strategy:
    members = {
        name: values_of(member) for name, member in schema.get("properties", {}).items() if not _is_moved(member)
    }
    required = set(schema.get("required", ()))
    always = {name: member for name, member in members.items() if name in required}
    maybe = {name: member for name, member in members.items() if name not in required}
    fixed = st.fixed_dictionaries(always)
    if maybe:  # few at a time, so that an error names the member that caused it
        few = st.lists(st.sampled_from(sorted(maybe)), max_size=3, unique=True)
        chosen = few.flatmap(lambda names: st.fixed_dictionaries({name: maybe[name] for name in names}))
        return st.builds(lambda left, other: {**left, **other}, fixed, chosen)
    if "patternProperties" in schema:
        ((pattern, value),) = schema["patternProperties"].items()
        return st.dictionaries(_texts({"pattern": pattern}), values_of(value), max_size=3)
    if isinstance(others := schema.get("additionalProperties"), Mapping):
        return st.dictionaries(_TEXT, values_of(others), max_size=min(schema.get("maxProperties", 3), 3))
    return fixed


def _is_moved(schema: Json) -> bool:
    """Whether a deprecated member only names its new location."""
    return any(rule["rule"] == "false" for rule in schema.get("x-kubernetes-validations", ()))
