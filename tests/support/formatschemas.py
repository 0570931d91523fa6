"""Schemas for tests of conversions: unusual features of JSON Schema 2020-12, and a strategy for arbitrary schemas."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Schema = dict[str, Any]


def _object(**properties: Any) -> Schema:
    return {"type": "object", "properties": properties}


_STRING = {"type": "string"}
_NODE = {
    "type": "object",
    "properties": {"v": {"type": "integer"}, "kids": {"type": "array", "items": {"$ref": "#/$defs/N"}}},
}

ODDITIES: dict[str, Any] = {
    "unions within unions at the root": {
        "type": "object",
        "oneOf": [{"oneOf": [{"anyOf": [_object(a={"type": "string"})]}, _object(b=True)]}],
        "anyOf": [{"required": ["a"]}, {"allOf": [{"oneOf": [{"required": ["b"]}]}]}],
    },
    "a union at the root that is none": {"type": "object", "oneOf": [{"oneOf": "x"}, {"anyOf": []}]},
    "combinators beside a ref": {
        "type": "object",
        "additionalProperties": {"oneOf": [{"type": "string"}], "$ref": "#/$defs/A"},
        "properties": {"a": {"allOf": [{"minLength": 1}, {"maxLength": 9}], "$ref": "#/$defs/A"}},
        "$defs": {"A": {"type": "string"}},
    },
    "ref": {**_object(a={"$ref": "#/$defs/A"}), "$defs": {"A": {"type": "string", "minLength": 2}}},
    "ref beside a description": {**_object(a={"$ref": "#/$defs/A", "description": "d"}), "$defs": {"A": _STRING}},
    "ref beside a constraint": {**_object(a={"$ref": "#/$defs/A", "maxLength": 3}), "$defs": {"A": _STRING}},
    "recursion": {**_object(n={"$ref": "#/$defs/N"}), "$defs": {"N": _NODE}},
    "recursion through allOf": {
        **_object(n={"$ref": "#/definitions/N"}),
        "definitions": {
            "N": _object(
                kid={"allOf": [{"$ref": "#/definitions/N"}], "description": "x"},
                k2={"allOf": [{"$ref": "#/definitions/N"}, {"minProperties": 1}]},
            )
        },
    },
    "recursion to the root": _object(child={"$ref": "#"}, v={"type": "integer"}),
    "allOf of itself": {"type": "object", "allOf": [{"$ref": "#"}]},
    "ref at the root": {"$ref": "#/$defs/R", "$defs": {"R": _object(a=_STRING)}},
    "refs in a circle": {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}}},
    "nested refs in a circle": {
        **_object(a={"$ref": "#/$defs/A"}),
        "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}},
    },
    "pointer into properties": _object(a=_object(b=_STRING), c={"$ref": "#/properties/a/properties/b"}),
    "anchor": {**_object(a={"$ref": "#foo"}), "$defs": {"X": {"$anchor": "foo", "type": "integer"}}},
    "remote ref": _object(a={"$ref": "https://example.com/x.json"}),
    "ref to nowhere": _object(a={"$ref": "#/$defs/missing"}),
    "definition with odd name": {**_object(a={"$ref": "#/$defs/a~1b"}), "$defs": {"a/b": _STRING}},
    "anyOf at the root": {
        "anyOf": [{**_object(a=_STRING), "required": ["a"]}, {**_object(b={"type": "integer"}), "required": ["b"]}]
    },
    "oneOf at the root beside properties": {
        **_object(x=_STRING),
        "oneOf": [{"required": ["x"]}, {**_object(y=_STRING), "required": ["y"]}],
    },
    "allOf at the root": {"allOf": [_object(a=_STRING), _object(b=_STRING)]},
    "not and enum at the root": {**_object(a=_STRING), "not": {"required": ["b"]}, "enum": [{"a": "x"}]},
    "const": _object(a={"const": "x"}, b={"const": 3}, c={"const": None}, d={"const": {"a": 1}}, e={"const": True}),
    "prefixItems": _object(a={"type": "array", "prefixItems": [_STRING, {"type": "number"}], "items": False}),
    "tuple of draft 7": _object(a={"type": "array", "items": [_STRING, {"type": "number"}], "additionalItems": False}),
    "patternProperties": _object(
        a={"type": "object", "patternProperties": {"^x": _STRING}, "additionalProperties": False}
    ),
    "no type": _object(
        a={},
        b={"description": "d"},
        c={"enum": ["a", 1, None]},
        d={"minLength": 3},
        e={"properties": {"z": {}}},
        f={"items": _STRING},
        g={"minimum": 1},
    ),
    "boolean schemas": _object(
        a=True,
        b=False,
        c={"type": "array", "items": True},
        d={"type": "array", "items": False},
        e={"anyOf": [True, False]},
    ),
    "null in every way": _object(
        a={"type": "string", "nullable": True},
        b={"type": ["string", "null"], "enum": ["x"]},
        c={"type": ["string", "integer", "null"]},
        d={"anyOf": [_STRING, {"type": "null"}], "default": None, "title": "D"},
        e={"type": "null"},
        f={"enum": [None]},
        g={"type": ["null"]},
    ),
    "enums": _object(
        a={"type": "integer", "enum": [1, 2, 3]},
        b={"type": "string", "enum": ["", "a"]},
        c={"type": "number", "enum": [1.5, 9]},
        d={"type": "boolean", "enum": [True]},
        e={"type": "string", "enum": [1]},
        f={"type": "string", "enum": ["a", "a"]},
        g={"enum": [[1], {"a": 1}]},
    ),
    "exclusive bounds": _object(
        a={"type": "integer", "exclusiveMinimum": 0},
        b={"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        c={"type": "integer", "exclusiveMinimum": 0.5, "minimum": 3},
        d={"exclusiveMinimum": True, "minimum": 1},
    ),
    "formats and patterns": _object(
        a={"type": "string", "format": "uri"},
        b={"type": "string", "pattern": "\\p{L}+"},
        c={"type": "string", "pattern": "^(?!x).*$"},
        d={"type": "string", "pattern": "["},
    ),
    "malformed values": {
        "type": "object",
        "required": "a",
        "properties": {
            "a": {"type": "any"},
            "b": {"type": "string", "required": True},
            "c": "string",
            "d": None,
            "e": {"type": []},
            "f": {"type": "array", "items": None},
            "g": {"enum": []},
            "h": {"anyOf": []},
            "i": {"minLength": -1},
            "j": {"description": 3},
            "k": {"default": {"a": [1]}},
        },
    },
    "conditions": {**_object(a=_STRING), "if": _object(a={"const": "x"}), "then": {"required": ["b"]}},
    "open map": _object(m={"type": "object", "additionalProperties": _STRING}),
    "anyOf beside constraints": _object(
        a={"type": "string", "anyOf": [{"pattern": "^a"}, {"minLength": 3}], "description": "q"}
    ),
    "anyOf within anyOf": _object(a={"anyOf": [{"anyOf": [_STRING, {"type": "null"}]}, {"type": "integer"}]}),
    "oneOf": _object(
        a={"oneOf": [_STRING, {"type": "number"}]}, b={"oneOf": [{"type": "number"}, {"type": "integer"}]}
    ),
    "nothing": {},
    "true": True,
    "null": None,
    "dependencies": {**_object(a=_STRING, b=_STRING), "dependentRequired": {"a": ["b"]}},
    "unknown keywords": {**_object(a={"type": "string", "x-order": 1}), "x-root": 1, "optional": ["a"]},
    "a property called like a keyword": _object(
        type=_STRING, properties=_STRING, **{"$ref": _STRING, "title": _STRING}
    ),
    "required but not described": {**_object(a=_STRING), "required": ["a", "ghost"]},
    "object or null": {"type": ["object", "null"], "properties": {"a": _STRING}},
}

REFUSED: dict[str, Any] = {
    "an array": {"type": "array", "items": {}},
    "false": False,
    "text": "x",
    "a number": 3,
    "a scalar": {"type": "string"},
}


def bomb(width: int = 10, levels: int = 12) -> Schema:
    """A schema of a few lines that unfolds into `width ** levels` copies."""
    steps = {f"d{i}": _object(**{f"p{j}": {"$ref": f"#/$defs/d{i + 1}"} for j in range(width)}) for i in range(levels)}
    return {**_object(x={"$ref": "#/$defs/d0"}), "$defs": {**steps, f"d{levels}": _STRING}}


def deep(levels: int) -> Schema:
    """An object in an object in an object."""
    schema: Schema = _object(a=_STRING)
    for _ in range(levels):
        schema = _object(a=schema)
    return schema


_TEXTS = st.sampled_from(["", "a", "b", "abc", "x y"])
_SCALARS = st.one_of(
    st.fixed_dictionaries(
        {"type": st.just("string")},
        optional={
            "minLength": st.integers(0, 3),
            "maxLength": st.integers(0, 9),
            "description": _TEXTS,
            "format": st.sampled_from(["date-time", "uri", "email", "x"]),
            "pattern": st.sampled_from(["^a", "b$", "(?=a)"]),
            "enum": st.lists(st.sampled_from(["", "a", "b", 1, None]), min_size=1, max_size=3),
            "default": _TEXTS,
        },
    ),
    st.fixed_dictionaries(
        {"type": st.sampled_from(["integer", "number"])},
        optional={
            "minimum": st.integers(-5, 5),
            "maximum": st.integers(-5, 9),
            "exclusiveMinimum": st.integers(-5, 5),
            "exclusiveMaximum": st.integers(-5, 9),
            "multipleOf": st.integers(1, 3),
            "title": _TEXTS,
            "enum": st.lists(st.integers(0, 4), min_size=1, max_size=3),
        },
    ),
    st.sampled_from(
        [
            {"type": "boolean"},
            {"type": "null"},
            {},
            True,
            False,
            {"const": "a"},
            {"const": 1},
            {"type": ["string", "null"]},
            {"type": ["integer", "string"]},
            {"enum": ["a", 1, None]},
            {"$ref": "#/$defs/A"},
            {"$ref": "#/$defs/N", "description": "n"},
            {"$ref": "#"},
            {"type": "string", "nullable": True},
        ]
    ),
)
_NAMES = st.sampled_from(["a", "b", "c", "type", "title"])


def _compound(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    some = st.lists(parts, min_size=1, max_size=3)
    return st.one_of(
        objects(parts),
        st.fixed_dictionaries(
            {"type": st.just("array")},
            optional={
                "items": parts,
                "minItems": st.integers(0, 2),
                "maxItems": st.integers(0, 3),
                "uniqueItems": st.booleans(),
                "prefixItems": some,
                "contains": parts,
            },
        ),
        st.fixed_dictionaries({"anyOf": some}, optional={"description": _TEXTS, "default": st.none()}),
        st.fixed_dictionaries({"oneOf": some}),
        st.fixed_dictionaries({"allOf": some}, optional={"type": st.just("object")}),
        st.fixed_dictionaries({"not": parts}),
    )


def objects(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Schemas of objects with properties of the kinds given."""
    return st.fixed_dictionaries(
        {"type": st.just("object")},
        optional={
            "properties": st.dictionaries(_NAMES, parts, max_size=3),
            "required": st.lists(_NAMES, unique=True, max_size=2),
            "additionalProperties": st.one_of(st.booleans(), parts),
            "patternProperties": st.dictionaries(st.sampled_from(["^x", "a"]), parts, max_size=1),
            "propertyNames": st.just({"minLength": 1}),
            "minProperties": st.integers(0, 2),
            "dependentRequired": st.just({"a": ["b"]}),
        },
    )


PARTS = st.recursive(_SCALARS, _compound, max_leaves=6)
_DEFS = {"$defs": {"A": {"type": "string", "maxLength": 5}, "N": _NODE}}
SCHEMAS: st.SearchStrategy[Schema] = st.builds(
    lambda schema, more: {**schema, **more, **_DEFS},
    objects(PARTS),
    st.one_of(
        st.just({}),
        st.fixed_dictionaries({"anyOf": st.lists(objects(_SCALARS), min_size=1, max_size=2)}),
        st.fixed_dictionaries({"allOf": st.lists(objects(_SCALARS), min_size=1, max_size=2)}),
    ),
)
"""Schemas of a tool's arguments with all features of JSON Schema, and with some meaningless values."""
