"""Hypothesis strategies of malformed definitions, by kind: each kind is a fault that real servers had.

Unlike the schemas of `formatschemas`, these need not be JSON Schema at all: any keyword may have any value of JSON.
"""

from __future__ import annotations

from typing import Any, Final

from hypothesis import strategies as st

from fairlead_mcp.schemas import DEFINITIONS, LISTS, MAPS, SINGLES

Schema = Any
Strategy = st.SearchStrategy[Any]

KEYWORDS: Final = (
    *sorted(SINGLES | LISTS | MAPS | DEFINITIONS),
    *("type", "enum", "const", "required", "$ref", "$dynamicRef", "$recursiveRef", "$anchor", "$dynamicAnchor"),
    *("$id", "id", "$schema", "$vocabulary", "$comment", "title", "description", "default", "examples", "example"),
    *("format", "pattern", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    *("multipleOf", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties", "minContains"),
    *("maxContains", "dependentRequired", "dependencies", "additionalItems", "nullable", "deprecated", "readOnly"),
    *("writeOnly", "contentEncoding", "contentMediaType", "contentSchema", "discriminator", "xml", "externalDocs"),
    *("x-order", "propertyOrdering", "strict", ""),
)
PATTERNS: Final = (
    "^a$",
    "(",
    "[",
    "*",
    "a{2,1}",
    "(?P<x>a)",
    "(?<x>a)\\k<x>",
    "^\\p{L}+$",
    "\\u{1F600}",
    "[\\w-.]",
    "\\Z",
    "(?=a)a",
    "(?<=a)b",
    "(?<!a)b",
    "(a)\\1",
    "\\d{3}-\\d{4}",
    "\\_",
    "[[a]&&[b]]",
    "(?i)a",
    "^[^\\x00-\\x1f]*$",
    "\\cA",
    "[]",
    "[^]",
    "a" * 3000,
    "(" * 200 + "a" + ")" * 200,
    "a{99999999999}",
)
"""Regular expressions that are valid in only one dialect, and texts that are valid in none."""
FORMATS: Final = ("date-time", "uri", "int64", "uri-reference", "enum", "", "x" * 300, "regex", "binary", "iri")
NAMES: Final = (
    "a",
    "b",
    "",
    "$filter",
    "page[size]",
    "with space",
    "x" * 70,
    "$ref",
    "$defs",
    "properties",
    "type",
    "required",
    "ä",
    "a/b",
    "a~b",
    "nested_1",
    "\u2028",
    "__proto__",
    "a\x00b",
)
REFERENCES: Final = (
    "#",
    "#/$defs/a",
    "#/$defs/b",
    "#/definitions/a",
    "#/properties/a",
    "#/properties/a/items",
    "#/properties/$filter",
    "#/$defs/a~1b",
    "#/$defs/%24ref",
    "#/required",
    "#/anyOf/0",
    "#/allOf/99999999999",
    "#a",
    "",
    "#/",
    "https://example.com/x.json",
)
TYPES: Final = ("object", "array", "string", "number", "integer", "boolean", "null")

_TEXTS: Final = st.sampled_from(("", "a", "x" * 400, "\u2028", "\U0001f600", "%s {0}", *NAMES[:6]))
_NUMBERS: Final = st.one_of(
    st.integers(-3, 300),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from((2**53 + 1, -(2**70), 10**400, 1e308, -0.0, 0.1)),
)
_MEMBERS: Final = st.sampled_from((*NAMES, *KEYWORDS))
JSON: Final = st.recursive(
    st.none() | st.booleans() | _NUMBERS | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_MEMBERS, inner, max_size=3),
    max_leaves=6,
)
"""Any value of JSON, with the names of keywords and of odd properties as members."""
_MAYBE: Final[Strategy] = st.none() | st.just([]) | st.just({})
"""Values that servers in Go write for absent members."""


def _members_of(inner: Strategy) -> Strategy:
    return st.dictionaries(st.sampled_from(NAMES), inner, max_size=4)


def _value_of(keyword: str, inner: Strategy) -> Strategy:
    """Values of a keyword that have the right type, but may be meaningless."""
    if keyword in MAPS | DEFINITIONS | {"dependencies"}:
        return _members_of(inner)
    if keyword in LISTS:
        return st.lists(inner, max_size=3)
    if keyword in SINGLES | {"additionalItems", "contentSchema"}:
        return inner | st.lists(inner, max_size=2) if keyword == "items" else inner
    return _VALUES.get(keyword, JSON)


_PROPERTIES: Final = st.lists(st.sampled_from(NAMES), max_size=4)
_COUNTS: Final = st.integers(-1, 5) | st.sampled_from((2**31, 2**63, 1.0, 2.5))
_VALUES: Final[dict[str, Strategy]] = {
    "type": st.sampled_from((*TYPES, "any", "String", "")) | st.lists(st.sampled_from((*TYPES, "any")), max_size=4),
    "enum": st.lists(JSON, max_size=4) | st.just([f"value {number}" for number in range(2_000)]),
    "required": _PROPERTIES,
    "dependentRequired": st.dictionaries(st.sampled_from(NAMES), _PROPERTIES, max_size=2),
    "pattern": st.sampled_from(PATTERNS),
    "format": st.sampled_from(FORMATS),
    "description": _TEXTS,
    "title": _TEXTS,
    **dict.fromkeys(("$ref", "$dynamicRef", "$recursiveRef"), st.sampled_from(REFERENCES)),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _COUNTS),
    **dict.fromkeys(("minimum", "maximum", "multipleOf"), _NUMBERS),
    **dict.fromkeys(("exclusiveMinimum", "exclusiveMaximum"), _NUMBERS | st.booleans()),
}


@st.composite
def _schemas_of(draw: st.DrawFn, inner: Strategy) -> Schema:
    """One schema with some keywords, sometimes with a type that fits these."""
    keywords = draw(st.lists(st.sampled_from(KEYWORDS), max_size=4, unique=True))
    kind = draw(st.sampled_from(({}, {}, *({"type": kind} for kind in TYPES))))
    return {**kind, **{keyword: draw(_value_of(keyword, inner)) for keyword in keywords}}


SCHEMAS: Final = st.recursive(
    st.booleans() | _MAYBE | _schemas_of(st.booleans() | st.just({})), _schemas_of, max_leaves=8
)
"""Schemas whose keywords have values of their kinds, in every combination."""
WILD: Final = st.recursive(
    JSON,
    lambda inner: st.dictionaries(st.sampled_from(KEYWORDS), inner | _MAYBE, max_size=4) | _schemas_of(inner),
    max_leaves=8,
)
"""Values in which any keyword may have any value."""


def _root(schemas: Strategy) -> Strategy:
    """Schemas of objects with properties of the kind, and definitions that may refer to each other."""
    return st.fixed_dictionaries(
        {"type": st.just("object"), "properties": _members_of(schemas)},
        optional={
            "required": st.lists(st.sampled_from(NAMES), max_size=3) | st.none(),
            "$defs": _members_of(schemas),
            "definitions": _members_of(schemas) | st.none(),
            "additionalProperties": schemas,
        },
    )


def _keyword(keywords: tuple[str, ...]) -> Strategy:
    """Properties with some of these keywords."""
    return st.fixed_dictionaries({}, optional={keyword: _value_of(keyword, SCHEMAS) for keyword in keywords})


def _nest(levels: int, wrap: int) -> Schema:
    schema: Schema = {"type": "string"}
    for level in range(levels):
        holders = ({"properties": {"a": schema}}, {"items": schema}, {"anyOf": [schema]}, {"allOf": [schema]})
        schema = holders[(level + wrap) % len(holders)]
    return {"type": "object", "properties": {"a": schema}}


KINDS: Final[dict[str, Strategy]] = {
    "any combination of keywords": _root(SCHEMAS),
    "any value of any keyword": _root(WILD),
    "any value as the schema": WILD,
    "a root without a type": _schemas_of(SCHEMAS),
    "a combinator at the root": st.builds(
        lambda schema, keyword, parts: {**schema, keyword: parts},
        _root(SCHEMAS),
        st.sampled_from(("anyOf", "oneOf", "allOf")),
        st.lists(_root(SCHEMAS) | SCHEMAS, max_size=3) | st.none(),
    ),
    "a reference at the root": st.builds(
        lambda schema, ref: {**schema, "$ref": ref}, _root(SCHEMAS), st.sampled_from(REFERENCES)
    ),
    "references in circles": _root(
        st.fixed_dictionaries({"$ref": st.sampled_from(REFERENCES)}, optional={"allOf": st.lists(SCHEMAS, max_size=2)})
    ),
    "keywords that are null": _root(
        st.dictionaries(st.sampled_from(KEYWORDS), st.none(), max_size=5)
        | st.fixed_dictionaries({"type": st.sampled_from(TYPES), "enum": st.none(), "items": st.none()})
    ),
    "patterns and formats": _root(
        st.fixed_dictionaries(
            {"type": st.sampled_from(("string", "integer", ["string", "null"]))},
            optional={"pattern": st.sampled_from(PATTERNS), "format": st.sampled_from(FORMATS)},
        )
        | st.fixed_dictionaries({"patternProperties": st.dictionaries(st.sampled_from(PATTERNS), SCHEMAS, max_size=2)})
    ),
    "half a surrogate pair": _root(
        st.sampled_from(
            (
                {"title": "\ud800"},
                {"enum": ["\ud800"]},
                {"pattern": "\ud800"},
                {"type": "object", "properties": {"\ud800": {}}},
                {"$ref": "#/$defs/\ud800"},
            )
        )
    ),
    "odd enums": _root(_keyword(("type", "enum", "const", "nullable", "default"))),
    "depth": st.builds(_nest, st.sampled_from((3, 6, 12, 60, 99, 101, 400, 3_000)), st.integers(0, 3)),
}
"""Schemas of one tool's arguments, by their fault."""

TOOLS: Final = st.fixed_dictionaries(
    {"name": st.just("odd")},
    optional={
        "title": JSON,
        "description": JSON,
        "inputSchema": WILD,
        "outputSchema": WILD,
        "annotations": JSON,
        "_meta": JSON,
        "icons": JSON,
    },
)
"""Definitions in which every member but the name is any value."""
