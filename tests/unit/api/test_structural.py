"""Structural schemas of models: what is translated, and what is refused because leaving it out would change the
meaning."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

from fairlead_api.structural import NotStructural, structural_schema, without_defaults
from fairlead_api.v1alpha1.common import Duration, Model, duration_rule
from fairlead_api.v1alpha1.lists import Distinct
from fairlead_api.v1alpha1.rules import ValidationRule


class Part(Model):
    """A part."""

    size: int = 3
    """How large."""


class Whole(Model):
    """A whole."""

    part: Part = Part()
    """Described
    here."""
    plain: Part | None = None
    kind: Literal["one"] = "one"
    ratio: float = Field(default=0.5, ge=0)
    free: dict[str, Any] | None = None
    by_name: dict[str, Part] | None = None
    amount: int | str | None = None
    parts: Annotated[list[Part], Distinct(key="size")] = Field(default=[], max_length=4)
    wait: Annotated[Duration, duration_rule("1s", "2s")] | None = None

    guards = (ValidationRule(cel="has(self.plain)", message="no plain", holds=lambda whole: whole.plain is not None),)


def test_a_model_becomes_a_structural_schema() -> None:
    part = {
        "type": "object",
        "properties": {"size": {"type": "integer", "format": "int64", "default": 3, "description": "How large."}},
    }
    assert structural_schema(Whole) == {
        "type": "object",
        "description": "A whole.",
        "properties": {
            "part": {**part, "description": "Described here.", "default": {}},
            "plain": {**part, "description": "A part."},
            "kind": {"type": "string", "enum": ["one"], "default": "one"},
            "ratio": {"type": "number", "default": 0.5, "minimum": 0},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "byName": {"type": "object", "additionalProperties": {**part, "description": "A part."}},
            "amount": {"x-kubernetes-int-or-string": True},
            "parts": {
                "type": "array",
                "items": {**part, "description": "A part."},
                "maxItems": 4,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["size"],
            },
            "wait": {
                "type": "string",
                "maxLength": 24,
                "x-kubernetes-validations": [
                    {
                        "rule": "self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') && duration(self) >= duration('1s') && "
                        "duration(self) <= duration('24h')",
                        "message": "must be a duration of at least 1s and at most 24h, such as 2s",
                    }
                ],
            },
        },
        "x-kubernetes-validations": [{"rule": "has(self.plain)", "message": "no plain"}],
    }


def test_an_integer_says_how_wide_it_is() -> None:
    class Bounds(BaseModel):
        port: int = Field(ge=1, le=65535)
        tokens: int = Field(ge=1, le=2**31)

    properties = structural_schema(Bounds)["properties"]
    assert {name: each["format"] for name, each in properties.items()} == {"port": "int32", "tokens": "int64"}


def test_a_status_has_no_defaults_at_any_depth() -> None:
    bare = without_defaults(structural_schema(Whole))

    assert "default" not in bare["properties"]["part"]
    assert "default" not in bare["properties"]["part"]["properties"]["size"]
    assert "default" not in bare["properties"]["parts"]["items"]["properties"]["size"]


class Union(BaseModel):
    value: int | list[int]


class Exclusive(BaseModel):
    value: int = Field(gt=0)


class Endless(BaseModel):
    model_config = ConfigDict(defer_build=True)
    next: Endless | None = None


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Union, "value: only a type that may be absent"),
        (Exclusive, "value: exclusiveMinimum is not supported in a CRD"),
    ],
)
def test_a_model_that_a_crd_cannot_express_is_an_error(model: type[BaseModel], message: str) -> None:
    with pytest.raises(NotStructural, match=message):
        structural_schema(model)


def test_a_recursive_model_is_an_error() -> None:
    Endless.model_rebuild()

    with pytest.raises(NotStructural, match="recursion"):
        structural_schema(Endless)
