"""Subschemas, anchors and pointers of a schema, found in one walk."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead_mcp.schemas import KEYWORDS, References, UnresolvedReference, all_schemas, follow_pointer, parts, pointer

LEAF = {"type": "string"}


def value_for(keyword: str) -> Any:
    if keyword in {"anyOf", "oneOf", "allOf", "prefixItems"}:
        return [LEAF, True]
    named = {"properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"}
    return {"a/b": LEAF, "c": False} if keyword in named else LEAF


@pytest.mark.parametrize("keyword", sorted(KEYWORDS))
def test_schemas_of_every_keyword_are_found_with_the_pointer_to_them(keyword: str) -> None:
    schema = {keyword: value_for(keyword), "default": {"properties": {"x": LEAF}}, "enum": [{"not": LEAF}]}

    ((way, leaf),) = parts(schema)
    assert leaf is LEAF
    assert follow_pointer(schema, pointer(*way)) is LEAF
    assert list(all_schemas(schema)) == [schema, LEAF]


def test_the_tuples_of_older_drafts_are_found() -> None:
    assert [way for way, _ in parts({"items": [LEAF, True, {}]})] == [("items", "0"), ("items", "2")]


@pytest.mark.parametrize("pointer", ["/enum/²", "/enum/-1", "/enum/2", f"/enum/{'9' * 5000}", "/enum/0/x", "/nothing"])
def test_a_pointer_that_leads_nowhere_is_refused_whatever_it_is_made_of(pointer: str) -> None:
    with pytest.raises(UnresolvedReference):
        follow_pointer({"enum": ["a", "b"]}, pointer)


def test_a_circle_of_references_is_walked_once() -> None:
    schema: dict[str, Any] = {"$defs": {"a": {"$anchor": "a", "items": {"$ref": "#/$defs/a"}}}, "$ref": "#a"}

    assert len(list(all_schemas(schema))) == 3
    assert References(schema).targets(schema) == [schema["$defs"]["a"]]


def test_a_schema_of_great_depth_is_walked() -> None:
    schema: dict[str, Any] = {}
    for _ in range(50_000):
        schema = {"not": schema}

    assert sum(1 for _ in all_schemas(schema)) == 50_001
    while schema:  # taken apart in a loop, because the interpreter may fail to free it recursively
        schema = schema["not"]
