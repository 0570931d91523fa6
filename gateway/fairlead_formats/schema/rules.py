"""Which JSON Schema keyword each target holds, and where: the one table that every conversion reads.

Pure module. A row is a keyword (or several), the place, and a word per target:

- `keep`: goes over as it is (its subschemas are converted)
- `drop`: an annotation that is left out
- `tell`: a constraint that is left out, and told to the model in the description
- `open`: a constraint that is left out without a word, for it only says what nobody offered to the model
- `fix`: has a step of its own, in `steps`

Sources: the transformers of pydantic-ai, LiteLLM, openai-agents and the SDKs of Anthropic and Google, and the field
reports that `tests/support/formatrules.py` names one by one. A keyword without a row is unknown
(`SchemaTarget.unknown`).
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Any, Final

import msgspec

from fairlead_formats.schema.property_names import ANTHROPIC_NAMES, GEMINI_NAMES

Table = dict[str, "Cell"]


class Cell(StrEnum):
    """Treatment of a keyword."""

    KEEP = "keep"
    DROP = "drop"
    TELL = "tell"
    OPEN = "open"
    FIX = "fix"


STRICT_FORMATS: Final = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)


class SchemaTarget(msgspec.Struct, frozen=True, eq=False):
    """Limits and needs of one kind of schema, beside the table."""

    name: str
    refs: bool = True
    """Whether `$ref` and `$defs` may stay; otherwise everything is put in place and recursion is cut."""
    bare_refs: bool = False
    """Whether a `$ref` may have no siblings."""
    typed: bool = False
    """Whether every schema needs a type."""
    items: bool = True
    """Whether an array needs `items`."""
    closed: bool = False
    """Whether every object must be closed and name all its properties as required (OpenAI strict)."""
    no_extra: bool = False
    """Whether every object must be closed (Anthropic and Bedrock strict)."""
    nullable: bool = False
    """Whether null is said with `nullable` (OpenAPI 3.0)."""
    type_lists: bool = True
    """Whether `type` may be a list."""
    lone_any_of: bool = False
    """Whether `anyOf` may have no siblings, not even a description."""
    string_enums: bool = False
    """Whether `enum` holds non-empty strings only."""
    names: re.Pattern[str] | None = None
    """The names that properties may have; None: any."""
    formats: frozenset[str] | None = None
    """The values of `format` that are known; None: any."""
    lookaround: bool = True
    """Whether a pattern may look around."""
    min_items: int | None = None
    """The largest `minItems`."""
    max_depth: int | None = None
    """Levels of nesting of a strict schema, the root being the first."""
    max_levels: int | None = None
    """Schemas within schemas, the root being the first; what is deeper is moved or told, see `nesting`."""
    max_properties: int | None = None
    """Sum over all objects."""
    max_optional: int | None = None
    max_unions: int | None = None
    max_enum_values: int | None = None
    max_long_enum: int | None = None
    """Characters of one enum of more than 250 values."""
    max_text: int | None = None
    """Characters of all property names, definition names and enum values together."""
    unknown: Cell = Cell.KEEP
    """For keywords without a row, below the root."""
    unknown_root: Cell = Cell.KEEP
    root: Table = {}
    nested: Table = {}

    @property
    def strict(self) -> bool:
        """Whether a conversion to it counts only when it loses nothing."""
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

_TABLE: Final = """
keyword                       place   O    O5   OS   A    AS   G    GJ   B    BC   BS
type                          any     fix  fix  fix  fix  fix  fix  fix  fix  fix  fix
properties                    any     keep keep keep keep keep keep keep keep keep keep
required                      any     fix  fix  fix  fix  fix  fix  fix  fix  fix  fix
items                         any     keep keep keep keep keep keep keep keep keep keep
description                   nested  keep keep keep keep keep keep keep keep keep keep
description                   root    keep keep keep tell tell keep keep keep keep keep
anyOf                         nested  keep keep keep keep keep fix  keep keep keep keep
oneOf                         nested  keep keep fix  fix  fix  fix  keep keep keep fix
allOf                         nested  keep keep fix  keep fix  fix  fix  keep keep fix
anyOf,oneOf,allOf             root    fix  keep fix  fix  fix  fix  fix  fix  fix  fix
enum                          nested  fix  fix  fix  fix  fix  fix  fix  fix  fix  fix
const                         nested  keep keep fix  keep keep fix  fix  keep keep fix
enum,const                    root    tell keep tell tell tell tell tell tell tell tell
not                           nested  keep keep tell keep tell tell tell keep keep tell
not                           root    tell keep tell tell tell tell tell tell tell tell
if,then,else                  nested  keep keep tell keep tell tell tell keep keep tell
if,then,else                  root    tell keep tell tell tell tell tell tell tell tell
dependentRequired             nested  keep keep tell keep tell tell tell keep keep tell
dependentRequired             root    keep keep tell tell tell tell tell keep keep tell
dependentSchemas,dependencies nested  keep keep tell keep tell tell tell keep keep tell
dependentSchemas,dependencies root    keep keep tell tell tell tell tell keep keep tell
additionalProperties          any     keep keep fix  keep fix  open keep keep keep fix
patternProperties             nested  keep keep tell keep tell tell keep keep keep tell
patternProperties             root    keep keep tell tell tell tell keep keep keep tell
propertyNames                 nested  keep keep tell keep tell tell tell keep keep tell
propertyNames                 root    keep keep tell tell tell tell tell keep keep tell
unevaluatedProperties         nested  keep keep open keep open open open keep keep open
unevaluatedProperties         root    keep keep open open open open open keep keep open
minProperties,maxProperties   nested  keep keep tell keep tell keep keep keep keep tell
minProperties,maxProperties   root    keep keep tell tell tell keep keep keep keep tell
prefixItems                   nested  keep keep tell keep tell fix  keep keep keep tell
uniqueItems                   nested  keep keep tell keep tell tell keep keep keep tell
contains                      nested  keep keep tell keep tell tell tell keep keep tell
minContains,maxContains       nested  keep keep drop keep drop drop drop keep keep drop
unevaluatedItems              nested  keep keep open keep open open open keep keep open
minItems                      nested  keep keep keep keep fix  keep keep keep keep fix
maxItems                      nested  keep keep keep keep tell keep keep keep keep tell
minLength,maxLength           nested  keep keep tell keep tell keep keep keep keep tell
pattern                       nested  fix  fix  fix  keep tell keep keep fix  keep tell
format                        nested  keep keep fix  keep fix  fix  tell keep keep fix
minimum,maximum               nested  keep keep keep keep tell fix  fix  keep keep tell
exclusiveMinimum,exclusiveMaximum nested keep keep keep keep tell fix fix keep keep tell
multipleOf                    nested  keep keep keep keep tell tell keep keep keep tell
default                       nested  keep keep tell keep tell keep keep keep keep tell
default                       root    keep keep drop drop drop drop keep keep keep drop
title                         nested  keep keep drop keep keep drop drop keep keep keep
title                         root    keep keep drop drop drop drop drop keep keep drop
examples                      nested  keep keep tell keep tell tell keep keep keep tell
examples                      root    keep keep drop drop drop drop keep keep keep drop
example                       nested  keep keep tell keep tell tell tell keep keep tell
nullable                      nested  keep keep fix  keep fix  fix  fix  keep keep fix
deprecated                    nested  keep keep tell keep tell tell keep keep keep tell
readOnly,writeOnly,$comment   any     keep keep drop keep drop drop drop keep keep drop
contentEncoding,contentMediaType nested keep keep tell keep tell tell tell keep keep tell
contentSchema                 nested  keep keep drop keep drop drop drop keep keep drop
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
    for root, nested in tables.values():
        for keyword, cell in nested.items():  # a keyword that means nothing at the root of an object stays or goes
            root.setdefault(keyword, Cell.DROP if cell in {Cell.TELL, Cell.FIX} else cell)
    return tables


_OF: Final = _tables()


def _target(name: str, **features: Any) -> SchemaTarget:
    root, nested = _OF[name]
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

OPENAI: Final = _target("openai")
"""gpt-4*, gpt-3.5*, chatgpt-4o*, o1*, o3*, o4*, and whatever is not known: no combinator at the root."""
OPENAI_5: Final = _target("openai-5")
"""gpt-5 and later: combinators at the root are taken."""
OPENAI_STRICT: Final = _target(
    "openai-strict",
    closed=True,
    bare_refs=True,
    typed=True,
    formats=STRICT_FORMATS,
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
"""`parameters`: a subset of OpenAPI 3.0, also what Gemini Live reads."""
GEMINI_JSON: Final = _target("gemini-json", unknown=Cell.DROP, unknown_root=Cell.DROP, max_levels=5, names=GEMINI_NAMES)
"""`parametersJsonSchema`."""
BEDROCK: Final = _target("bedrock", refs=False, lookaround=False, names=ANTHROPIC_NAMES)
"""Converse for any family; Nova and Llama follow no `$ref`."""
BEDROCK_CLAUDE: Final = _target("bedrock-claude", names=ANTHROPIC_NAMES)
BEDROCK_STRICT: Final = _target("bedrock-strict", typed=True, **_CLAUDE_LIMITS)
