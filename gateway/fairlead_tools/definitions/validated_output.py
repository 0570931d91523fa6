"""Check of output schemas for clients that compile them when they read the list of tools, such as the TypeScript SDK
1.x.
This SDK compiles schemas with Ajv, and rejects the whole list if one schema does not compile. So every schema that may
not compile is reported. Ajv compiles patterns as ECMAScript regular expressions with the flag `u`, which does not allow
much of the syntax of other regular expressions. No I/O.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from typing import Any, Final

import msgspec

from fairlead_mcp.schemas import REFERENCES, References, Schema, UnresolvedReference, all_schemas, anchors
from fairlead_tools.definitions.schema_mending import LATEST, TUPLES, draft_of, is_schema
from fairlead_tools.validation.schema_compiler import TooIntricate, Weights

MAX_BYTES: Final = 64 << 10
"""Maximum number of bytes of an output schema. The check of a larger schema would block the event loop for too long."""
MAX_PATTERN: Final = 500
"""Maximum number of characters of a pattern."""
_REFUSED_KEYWORDS: Final = (
    "id",
    "$async",
    "formatMinimum",
    "formatMaximum",
    "formatExclusiveMinimum",
    "formatExclusiveMaximum",
)
"""Keywords of older drafts and of Ajv itself that Ajv refuses, or to which it gives another meaning."""
_SIGNS_OF_CHECKED_KEYWORDS: Final = (
    b'Ref"',
    b'ref"',
    b'nchor"',
    b'id"',
    b'"nullable"',
    b'"pattern"',
    b'"enum":[]',
    b'"additionalItems"',
    b'"$async"',
    b'"formatM',
    b'"formatE',
)
"""Byte strings, of which at least one occurs in each schema that has a keyword to check. A valid schema without any of
these byte strings compiles."""
_ANCHOR: Final = re.compile(r"[A-Za-z_][A-Za-z0-9._-]*")
_ESCAPED: Final = r"\\(?:[fnrtv^$\\.*+?()\[\]{}|/]|x[0-9A-Fa-f]{2}|u(?![dD][89a-fA-F])[0-9A-Fa-f]{4})"
_SET: Final = r"\\[dDwWsS]"
_MEMBER: Final = rf"(?:[^\\\]\[-]|{_ESCAPED}|\\-)"
_CLASS: Final = rf"\[\^?-?(?:{_MEMBER}-{_MEMBER}|{_MEMBER}|{_SET}(?!-[^\]]))*-?\]"
_QUANTIFIER: Final = r"(?:[*+?]|\{\d{1,4}(?:,\d{0,4})?\})\??"
_PORTABLE: Final = re.compile(
    rf"(?:(?:[\^$]|\\[bB])(?![*+?{{])|\||\((?:\?:)?|(?:\)|[^\\^$.*+?()\[\]{{}}|]|\.|{_ESCAPED}|{_SET}|{_CLASS})(?:{_QUANTIFIER})?)*"
)
"""Matches patterns that consist of syntax elements that ECMAScript and Python share. Python then checks the order of
the elements."""


def unusable_in_old_clients(schema: Schema) -> str:
    """Explain why an output schema may not compile in older clients; empty if it certainly compiles."""
    encoded = msgspec.json.encode(schema)
    if len(encoded) > MAX_BYTES:
        return f"the schema has more than {MAX_BYTES >> 10} KiB"
    if not is_schema(schema) and not (draft_of(schema) == LATEST and is_schema(schema, TUPLES)):
        return "the schema is not valid JSON Schema"
    if not any(keyword in encoded for keyword in _SIGNS_OF_CHECKED_KEYWORDS):
        return ""
    try:
        fault = _name_fault(schema)
        if fault:
            return fault
        references = References(schema)
        for part in all_schemas(schema):
            fault = _part_fault(part)
            if fault:
                return fault
            references.targets(part)
        Weights(schema)
    except UnresolvedReference as error:
        return f"the schema refers to {str(error)[:60]!r}, which it does not contain"
    except (TooIntricate, RecursionError) as error:
        return f"the schema is too complex ({str(error)[:100]})"
    return ""


def _part_fault(part: Schema) -> str:
    return next(filter(None, (check(part) for check in _CHECKS)), "")


def _reference_fault(part: Schema) -> str:
    targets = [part[keyword] for keyword in REFERENCES if keyword in part]
    are_internal = all(isinstance(target, str) and target.startswith("#") for target in targets)
    return "" if are_internal else f"the schema refers to {str(targets)[:60]}, which it does not contain"


def _keyword_fault(part: Schema) -> str:
    refused_keyword = next((keyword for keyword in _REFUSED_KEYWORDS if keyword in part), "")
    if refused_keyword:
        return f"the schema has the keyword {refused_keyword}"
    if part.get("enum") == [] or not isinstance(part.get("additionalItems", True), bool | dict):
        return "the schema has an empty enum, or additionalItems that are not a schema"
    if "nullable" in part and ("type" not in part or not isinstance(part["nullable"], bool)):
        return "the schema has nullable without a type"
    return ""


def _pattern_fault(part: Schema) -> str:
    if "pattern" not in part or is_portable(part["pattern"]):
        return ""
    return f"the schema's pattern {str(part['pattern'])[:60]!r} may not be ECMAScript"


_CHECKS: Final = (_reference_fault, _keyword_fault, _pattern_fault)


def _name_fault(schema: Schema) -> str:
    """Explain which name in a schema may clash with a name in another schema: clients compile the schemas of all
    servers together. Empty if no name may clash.
    """
    names = Counter[str]()
    pending: list[Any] = [schema]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            if value is not schema and isinstance(value.get("$id"), str):
                return "a part of the schema has an $id"
            names.update(anchors(value))
        pending += value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    clashing_name = next((name for name, count in names.items() if count > 1 or not _ANCHOR.fullmatch(name)), None)
    return "" if clashing_name is None else f"the schema's anchor {clashing_name[:60]!r} is invalid or used twice"


def is_portable(pattern: object) -> bool:
    """Whether a pattern is certainly valid in ECMAScript with the flag `u`."""
    if not isinstance(pattern, str) or len(pattern) > MAX_PATTERN or not _PORTABLE.fullmatch(pattern):
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python warns of character sets such as `[[a]` whose meaning may change
            re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return False
    return True
