"""Faults of a manifest as sentences with a field, converted from pydantic's errors.

This module has no I/O.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from fairlead_api.structural import structural_schema
from fairlead_api.v1alpha1.rules import RULE_ERROR, VALIDATIONS

REQUIRED: Final = "Required value"
"""Message about a missing member."""
Place = tuple[str | int, ...]


class Complaint(NamedTuple):
    """One fault of an object."""

    path: Place
    """Member names and indexes from the root of the object."""
    message: str
    """One sentence without the field's name."""

    @property
    def field(self) -> str:
        """The path as text: `spec.tools[0].name`."""
        return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.path).lstrip(".")

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.path else self.message


_TYPES: Final = {
    "string_type": "text",
    "string_sub_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}
_WAS_TEXT: Final = {"ImageSource": "image: {name: …}"}
"""Objects that were strings in earlier releases: model name to the current syntax."""
_BOUNDS: Final = {
    "greater_than_equal": "should be greater than or equal to {ge}",
    "less_than_equal": "should be less than or equal to {le}",
    "string_too_short": "should be at least {min_length} characters long",
    "string_too_long": "should be at most {max_length} characters long",
    "string_pattern_mismatch": "should match '{pattern}'",
}


def complaints(error: ValidationError, model: type[BaseModel]) -> list[Complaint]:
    """All faults that `error` reports about an object of `model`, in the order of its fields."""
    return [complaint for details in error.errors(include_url=False) for complaint in _complaints(details, model)]


def _complaints(details: ErrorDetails, model: type[BaseModel]) -> Iterator[Complaint]:
    location, context = details["loc"], details.get("ctx", {})
    if details["type"] == RULE_ERROR:
        for path, message in context["violations"]:
            yield Complaint((*location, *_steps(path)), message)
    elif details["type"] == "extra_forbidden":
        yield Complaint(location, _unknown(location, model))
    else:
        yield Complaint(location, _sentence(details, context))


def _steps(path: str) -> Place:
    """Parse a rule's path, such as `.command` or `[1]`."""
    if path.startswith("["):
        return (int(path[1:-1]),)
    return tuple(step for step in path.split(".") if step)


def _sentence(details: ErrorDetails, context: Mapping[str, Any]) -> str:
    kind, value = details["type"], details["input"]
    if kind == "missing":
        return REQUIRED
    if kind in ("model_type", "model_attributes_type") and context.get("class_name") in _WAS_TEXT:
        name = _WAS_TEXT[context["class_name"]]
        return f"must be a mapping, not {_value_text(value)}: write {name}, or have fairlead migrate FILE rewrite it"
    if kind in _TYPES:
        return f"must be {_TYPES[kind]}, not {_value_text(value)}"
    if kind in _BOUNDS:
        return f"{_BOUNDS[kind].format(**context)}, but is {_value_text(value)}"
    if kind in ("too_short", "too_long"):
        bound = f"at least {context['min_length']}" if kind == "too_short" else f"at most {context['max_length']}"
        return f"should have {bound} items, but has {context['actual_length']}"
    if kind == "literal_error":
        return f"Unsupported value: {_value_text(value)}: supported values: {_quote(context['expected'])}"
    return details["msg"]


def _quote(expected: str) -> str:
    """Convert pydantic's `'a', 'b' or 'c'` to the form that an API server uses."""
    return expected.replace(" or ", ", ").replace("'", '"')


def _value_text(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else text[:77] + "…"


def _unknown(path: Place, model: type[BaseModel]) -> str:
    """Message about an unknown member, with a similar one that exists, or the new name of a moved one."""
    members = _members(_schema(model), path[:-1])
    if (moved := members.get(str(path[-1]))) is not None:  # moved fields are in the schema, not in the model
        return str(moved[VALIDATIONS][0]["message"])
    near = difflib.get_close_matches(str(path[-1]), members, n=1, cutoff=0.6)
    return f"unknown field; did you mean {near[0]}?" if near else "unknown field"


@cache
def _schema(model: type[BaseModel]) -> Mapping[str, Any]:
    return structural_schema(model)


def _members(schema: Mapping[str, Any], path: Sequence[str | int]) -> Mapping[str, Any]:
    for step in path:
        schema = schema.get("items", {}) if isinstance(step, int) else schema.get("properties", {}).get(step, {})
    return dict(schema.get("properties", {}))
