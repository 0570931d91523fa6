"""Documents with one invalid member: each member of a document gets values of all other types."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest

from fairlead_openapi.compiling.compile import CompileOptions, compile_document
from fairlead_openapi.compiling.reading import DocumentRefused
from openapidocuments import OK, document, get, post

ODD: list[Any] = [None, True, 3, -1.5, "", "x", [], [3], {}, {"x": 3}, {"$ref": "#"}, {"$ref": 3}, {"$ref": "#/paths"}]
SCHEMAS = ("inputSchema", "outputSchema")
PET = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "nullable": True, "minLength": 1, "enum": ["a"], "example": "a"},
        "id": {"type": "integer", "readOnly": True, "minimum": 0, "exclusiveMinimum": True},
        "tag": {"$ref": "#/components/schemas/Tag"},
        "any": {
            "anyOf": [{"type": "string"}, {"items": {"type": "string"}}],
            "additionalProperties": {"type": "string"},
        },
    },
}
SOURCE = document(
    {
        "/pets/{id}": {
            **get(
                {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}, "style": "label"},
                {"$ref": "#/components/parameters/Limit"},
                {"name": "f", "in": "query", "content": {"application/json": {"schema": {"type": "object"}}}},
                responses={
                    "200": {
                        "description": "fine",
                        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}},
                    }
                },
                security=[{"key": []}],
                tags=["pets"],
                servers=[{"url": "https://{host}", "variables": {"host": {"default": "example.com"}}}],
            ),
            **post(
                {
                    "multipart/form-data": {
                        "schema": {"type": "object", "properties": {"file": {"type": "string", "format": "binary"}}},
                        "encoding": {"file": {"contentType": "image/png", "explode": True}},
                    }
                },
            ),
            "put": {
                "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}},
                "responses": OK,
            },
        },
    },
    components={
        "schemas": {"Pet": PET, "Tag": {"type": "string", "maxLength": 9}},
        "parameters": {"Limit": {"name": "limit", "in": "query", "schema": {"type": "integer"}, "explode": False}},
        "securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}},
    },
)


def paths(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Paths of all values below the document."""
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, member in members:
        yield (*path, step)
        yield from paths(member, (*path, step))


def with_value(path: tuple[str | int, ...], odd: Any) -> dict[str, Any]:
    source: dict[str, Any] = copy.deepcopy(SOURCE)
    at: Any = source
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = odd
    return source


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
@pytest.mark.parametrize("odd", ODD, ids=json.dumps)
def test_an_odd_value_anywhere_makes_valid_tools_or_is_refused(odd: Any, version: str) -> None:
    valid: set[str] = set()
    for path in paths(SOURCE):
        source = with_value(path, odd)
        source.update({"openapi": version} if path != ("openapi",) else {})
        try:
            result = compile_document(json.dumps(source).encode(), CompileOptions())
        except DocumentRefused:
            assert path[0] in ("openapi", "paths"), path
            continue
        assert len(result.reports) >= len(result.tools), path
        for tool in result.tools:
            definition = json.loads(bytes(tool.definition))
            schemas = {str(definition[name]): definition[name] for name in SCHEMAS if name in definition}
            for schema in (schemas[text] for text in schemas.keys() - valid):
                assert schema["type"] == "object", path
                jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})
            valid.update(schemas)
