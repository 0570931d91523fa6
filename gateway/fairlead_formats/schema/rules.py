"""The table of JSON Schema keywords that each target supports, which every conversion reads.

Pure module. A row has one or several keywords, the place in the schema where the row applies, and a word per target:

- `keep`: written unchanged, with converted subschemas
- `drop`: an annotation that is left out
- `note`: a constraint that is left out and described to the model
- `open`: a constraint on undescribed properties or items, which is left out without a description
- `fix`: handled by a step in `steps`

Sources: the transformers of pydantic-ai, LiteLLM, openai-agents and the SDKs of Anthropic and Google, and the field
reports that `tests/support/formatrules.py` names one by one. `SchemaTarget.unknown` covers keywords without a row.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Any, Final

import msgspec

from fairlead_formats.schema.dialects import Dialect
from fairlead_formats.schema.property_names import ANTHROPIC_NAMES, GEMINI_NAMES

Table = dict[str, "Cell"]


class Cell(StrEnum):
    """Treatment of a keyword."""

    KEEP = "keep"
    DROP = "drop"
    NOTE = "note"
    OPEN = "open"
    FIX = "fix"


STRICT_FORMATS: Final = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)


class SchemaTarget(msgspec.Struct, frozen=True, eq=False):
    """Properties of one kind of schema that the table does not express."""

    name: str
    refs: bool = True
    """Whether `$ref` and `$defs` are supported; otherwise references are inlined and recursion is cut."""
    bare_refs: bool = False
    """Whether a `$ref` must not have siblings."""
    typed: bool = False
    """Whether every schema must have a type."""
    items: bool = True
    """Whether an array must have `items`."""
    closed: bool = False
    """Whether every object must be closed and require all its properties (OpenAI strict)."""
    no_extra: bool = False
    """Whether every object must be closed (Anthropic and Bedrock strict)."""
    nullable: bool = False
    """Whether null is expressed by `nullable` (OpenAPI 3.0)."""
    type_lists: bool = True
    """Whether `type` may be a list."""
    lone_any_of: bool = False
    """Whether `anyOf` must not have siblings, including a description."""
    string_enums: bool = False
    """Whether `enum` may contain only non-empty strings."""
    names: re.Pattern[str] | None = None
    """Pattern of allowed property names; None for any name."""
    formats: frozenset[str] | None = None
    """Supported values of `format`; None for any value."""
    dialect: Dialect = Dialect.ECMA
    """Syntax of patterns."""
    lookaround: bool = True
    """Whether patterns may use look-around."""
    min_items: int | None = None
    """Largest supported `minItems`."""
    max_depth: int | None = None
    """Maximum number of levels of a strict schema; the root is level 1."""
    max_levels: int | None = None
    """Maximum number of levels of nested schemas; the root is level 1. `nesting` moves or describes deeper schemas."""
    max_properties: int | None = None
    """Maximum number of properties of all objects together."""
    max_optional: int | None = None
    """Maximum number of optional properties of all objects together."""
    max_unions: int | None = None
    max_enum_values: int | None = None
    max_long_enum: int | None = None
    """Maximum number of characters of the values of one enum with more than 250 values."""
    max_text: int | None = None
    """Maximum number of characters of all property names, definition names and enum values together."""
    unknown: Cell = Cell.KEEP
    """Treatment of keywords without a row, below the root."""
    unknown_root: Cell = Cell.KEEP
    """Treatment of keywords without a row, at the root."""
    root: Table = {}
    """Treatment of keywords at the root."""
    nested: Table = {}
    """Treatment of keywords below the root."""

    @property
    def strict(self) -> bool:
        """Whether a conversion to this target has to be lossless."""
        return self.closed or self.no_extra


_COLUMNS: Final = (
    "openai",
    "openai-5",
    "openai-strict",
    "anthropic",
    "anthropic-strict",
    "gemini",
    "gemini-json",
    "bedrock",
    "bedrock-claude",
    "bedrock-strict",
)

_BARE_ROOTS: Final = frozenset({"anthropic", "anthropic-strict", "bedrock-strict"})
"""Columns whose root supports only keywords that have a row for the root."""

_TABLE: Final = """
keyword                       place   O    O5   OS   A    AS   G    GJ   B    BC   BS
type                          any     fix  fix  fix  fix  fix  fix  fix  fix  fix  fix
properties                    any     keep keep keep keep keep keep keep keep keep keep
required                      any     fix  fix  fix  fix  fix  fix  fix  fix  fix  fix
items                         nested  keep keep keep keep keep keep keep keep keep keep
items                         root    drop drop drop drop drop drop drop drop drop drop
description                   nested  keep keep keep keep keep keep keep keep keep keep
description                   root    keep keep keep note note keep keep keep keep note
anyOf                         nested  keep keep keep keep keep fix  keep keep keep keep
oneOf                         nested  keep keep fix  fix  fix  fix  keep keep keep fix
allOf                         nested  keep keep fix  keep fix  fix  fix  keep keep fix
anyOf,oneOf,allOf             root    fix  keep fix  fix  fix  fix  fix  fix  fix  fix
enum                          nested  fix  fix  fix  fix  fix  fix  fix  fix  fix  fix
const                         nested  keep keep fix  keep keep fix  fix  keep keep fix
enum,const                    root    note keep note note note note note note note note
not                           nested  keep keep note keep note note note keep keep note
not                           root    note keep note note note note note note note note
if,then,else                  nested  keep keep note keep note note note keep keep note
if,then,else                  root    note keep note note note note note note note note
dependentRequired             nested  keep keep note keep note note note keep keep note
dependentRequired             root    keep keep note note note note note keep keep note
dependentSchemas,dependencies nested  keep keep note keep note note note keep keep note
dependentSchemas,dependencies root    keep keep note note note note note keep keep note
additionalProperties          any     keep keep fix  keep fix  open keep keep keep fix
patternProperties             nested  fix  fix  note fix  note note fix  fix  fix  note
patternProperties             root    fix  fix  note note note note fix  fix  fix  note
propertyNames                 nested  keep keep note keep note note note keep keep note
propertyNames                 root    keep keep note note note note note keep keep note
unevaluatedProperties         nested  keep keep open keep open open open keep keep open
unevaluatedProperties         root    keep keep open open open open open keep keep open
minProperties,maxProperties   nested  keep keep note keep note keep keep keep keep note
minProperties,maxProperties   root    keep keep note note note keep keep keep keep note
prefixItems                   nested  keep keep note keep note fix  keep keep keep note
uniqueItems                   nested  keep keep note keep note note keep keep keep note
contains                      nested  keep keep note keep note note note keep keep note
minContains,maxContains       nested  keep keep drop keep drop drop drop keep keep drop
unevaluatedItems              nested  keep keep open keep open open open keep keep open
minItems                      nested  keep keep keep keep fix  keep keep keep keep fix
maxItems                      nested  keep keep keep keep note keep keep keep keep note
minLength,maxLength           nested  keep keep note keep note keep keep keep keep note
pattern                       nested  fix  fix  fix  fix  note fix  fix  fix  fix  note
format                        nested  keep keep fix  keep fix  fix  note keep keep fix
minimum,maximum               nested  keep keep keep keep note fix  fix  keep keep note
exclusiveMinimum,exclusiveMaximum nested keep keep keep keep note fix fix keep keep note
multipleOf                    nested  keep keep keep keep note note keep keep keep note
default                       nested  keep keep note keep note keep keep keep keep note
default                       root    keep keep drop drop drop drop keep keep keep drop
title                         nested  keep keep drop keep keep drop drop keep keep keep
title                         root    keep keep drop drop drop drop drop keep keep drop
examples                      nested  keep keep note keep note note keep keep keep note
examples                      root    keep keep drop drop drop drop keep keep keep drop
example                       nested  keep keep note keep note note note keep keep note
nullable                      nested  keep keep fix  keep fix  fix  fix  keep keep fix
deprecated                    nested  keep keep note keep note note keep keep keep note
readOnly,writeOnly,$comment   nested  keep keep drop keep drop drop drop keep keep drop
readOnly,writeOnly,$comment   root    keep keep drop drop drop drop drop keep keep drop
contentEncoding,contentMediaType nested keep keep note keep note note note keep keep note
contentSchema                 nested  drop drop drop drop drop drop drop drop drop drop
$schema,$id,id,$anchor,$vocabulary,$dynamicAnchor root keep keep drop drop drop drop drop drop drop drop
$schema,$id,$anchor,$vocabulary,$dynamicAnchor nested keep keep drop drop drop drop drop drop drop drop
discriminator,xml,externalDocs any    drop drop drop drop drop drop drop drop drop drop
"""


def _tables() -> dict[str, tuple[Table, Table]]:
    tables: dict[str, tuple[Table, Table]] = {name: ({}, {}) for name in _COLUMNS}
    for line in _TABLE.strip().splitlines()[1:]:
        keywords, level, *cells = line.split()
        for column, cell in zip(_COLUMNS, cells, strict=True):
            root, nested = tables[column]
            for keyword in keywords.split(","):
                if level != "nested":
                    root[keyword] = Cell(cell)
                if level != "root":
                    nested[keyword] = Cell(cell)
    for column, (root, nested) in tables.items():
        for keyword, cell in nested.items():  # keywords without meaning at the root of an object are kept or dropped
            root.setdefault(keyword, Cell.DROP if column in _BARE_ROOTS or cell in {Cell.NOTE, Cell.FIX} else cell)
    return tables


_TABLES_BY_COLUMN: Final = _tables()


def _target(name: str, **features: Any) -> SchemaTarget:
    root, nested = _TABLES_BY_COLUMN[name]
    return SchemaTarget(name, root=root, nested=nested, **features)


_OPENAI_LIMITS: Final[dict[str, Any]] = {
    "max_depth": 10,
    "max_properties": 5000,
    "max_enum_values": 1000,
    "max_long_enum": 15_000,
    "max_text": 120_000,
}
_CLAUDE_LIMITS: Final[dict[str, Any]] = {
    "no_extra": True,
    "type_lists": False,
    "bare_refs": True,
    "min_items": 1,
    "lookaround": False,
    "max_optional": 24,
    "max_unions": 16,
    "unknown": Cell.DROP,
    "unknown_root": Cell.DROP,
    "formats": STRICT_FORMATS | {"uri"},
    "names": ANTHROPIC_NAMES,
}

OPENAI: Final = _target("openai", dialect=Dialect.PYTHON)
"""For gpt-4*, gpt-3.5*, chatgpt-4o*, o1*, o3*, o4* and unknown models: no combinators at the root."""
OPENAI_5: Final = _target("openai-5", dialect=Dialect.PYTHON)
"""For gpt-5 and later: combinators at the root are supported."""
OPENAI_STRICT: Final = _target(
    "openai-strict",
    closed=True,
    bare_refs=True,
    typed=True,
    formats=STRICT_FORMATS,
    dialect=Dialect.PYTHON,
    lookaround=False,
    unknown=Cell.DROP,
    unknown_root=Cell.DROP,
    **_OPENAI_LIMITS,
)
ANTHROPIC: Final = _target("anthropic", unknown_root=Cell.DROP, names=ANTHROPIC_NAMES)
ANTHROPIC_STRICT: Final = _target("anthropic-strict", typed=True, **_CLAUDE_LIMITS)
GEMINI: Final = _target(
    "gemini",
    refs=False,
    typed=True,
    nullable=True,
    type_lists=False,
    lone_any_of=True,
    string_enums=True,
    formats=frozenset({"date-time", "enum"}),
    unknown=Cell.DROP,
    unknown_root=Cell.DROP,
    max_levels=5,
    names=GEMINI_NAMES,
)
"""For `parameters`, a subset of OpenAPI 3.0, which Gemini Live reads as well."""
GEMINI_JSON: Final = _target("gemini-json", unknown=Cell.DROP, unknown_root=Cell.DROP, max_levels=5, names=GEMINI_NAMES)
"""For `parametersJsonSchema`."""
BEDROCK: Final = _target("bedrock", refs=False, dialect=Dialect.PYTHON, lookaround=False, names=ANTHROPIC_NAMES)
"""For Converse with any model family; Nova and Llama do not resolve `$ref`."""
BEDROCK_CLAUDE: Final = _target("bedrock-claude", names=ANTHROPIC_NAMES)
BEDROCK_STRICT: Final = _target("bedrock-strict", typed=True, **_CLAUDE_LIMITS)
