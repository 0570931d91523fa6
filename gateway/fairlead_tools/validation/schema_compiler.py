"""Compiles one schema to check values by.

Pure module. `compile_schema` never raises: a schema that cannot be used gives no checker, one that can be used in part
gives a checker for that part, and both come with what was left out and why. Patterns run on an engine without
back-tracking, so their time grows with the text alone; look-around and back-references do not exist there, and such a
pattern is left out. Nothing is ever fetched.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import jsonschema_rs
import msgspec
from jsonschema_rs import RegexOptions, ValidationError, ValidationErrorKind
from msgspec import Raw

from fairlead_mcp.schemas import Schema, UnresolvedReference, every
from fairlead_tools.validation.checker import PATTERN_WORK, Checker
from fairlead_tools.validation.intricacy import TooIntricate, Weights
from fairlead_tools.validation.wording import sentence

MAX_SCHEMA_BYTES: Final = 128 << 10
"""A larger one takes longer than 5 ms to compile."""
MAX_PATTERNS: Final = 64
_PATTERNS: Final = RegexOptions(size_limit=1 << 18, dfa_size_limit=1 << 20)
"""Bytes of one compiled pattern."""

_COUNTED: Final = re.compile(r"(\)?)\{(\d{1,6})(?:,(\d{0,6}))?\}")

TOO_LARGE: Final = "too_large"
NOT_A_SCHEMA: Final = "not_a_schema"
REMOTE_REFERENCE: Final = "remote_reference"
TOO_INTRICATE: Final = "too_intricate"
PATTERN: Final = "pattern"

_decode = msgspec.json.Decoder().decode


class LeftOut(msgspec.Struct, frozen=True):
    """A part of a schema, or all of it, that values are not checked by. `reason` is one of this module's words."""

    reason: str
    message: str


class Compiled(msgspec.Struct, frozen=True):
    """`checker` None: values are not checked, as every value fits, or because of what `left_out` says."""

    checker: Checker | None
    left_out: tuple[LeftOut, ...] = ()


def compile_schema(schema: bytes | Raw | Mapping[str, Any], *, of_objects: bool = False) -> Compiled:
    """A checker of a JSON Schema: draft 2020-12, or the one that `$schema` names. Raises nothing.

    With `of_objects` all values are known to be objects, as arguments are.
    """
    raw = msgspec.json.encode(schema) if isinstance(schema, Mapping) else bytes(schema)
    if len(raw) > MAX_SCHEMA_BYTES:
        return _unusable(TOO_LARGE, f"it is larger than {MAX_SCHEMA_BYTES} bytes")
    try:
        decoded = _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return _unusable(NOT_A_SCHEMA, f"it is not JSON: {error}")
    if not isinstance(decoded, dict):
        return _unusable(NOT_A_SCHEMA, "it is not an object")
    if of_objects and _takes_every_object(decoded):
        return Compiled(None)
    try:
        heights = Weights(decoded).by_height
        left_out = _usable_patterns(decoded)
        validator, more = _compile(decoded)
    except UnresolvedReference as error:
        return _unusable(REMOTE_REFERENCE, f"it refers to {str(error)[:200]!r}, which is not in it; nothing is fetched")
    except (TooIntricate, RecursionError) as error:
        return _unusable(TOO_INTRICATE, str(error) or "it is nested too deeply")
    except (ValidationError, ValueError) as error:
        return _unusable(*_fault(error))
    states = sum(_states(pattern) for subschema in every(decoded) for pattern in _patterns_of(subschema))
    return Compiled(Checker(validator, heights, states, partial(_without_patterns, decoded)), (*left_out, *more))


def _takes_every_object(schema: Schema) -> bool:
    """The schema of a tool without arguments, in its usual forms: nothing is left to check of an object."""
    return schema.get("type", "object") == "object" and all(
        keyword in ("type", "$schema", "title", "description") or (keyword == "properties" and value == {})
        for keyword, value in schema.items()
    )


def _validator(schema: Schema) -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for(
        schema, offline=True, validate_formats=False, ignore_unknown_formats=True, pattern_options=_PATTERNS
    )


def _without_patterns(schema: Schema) -> jsonschema_rs.Validator:
    plain = msgspec.json.decode(msgspec.json.encode(schema))
    for part in every(plain):
        _drop_patterns(part)
    return _validator(plain)


def _compile(schema: Schema) -> tuple[jsonschema_rs.Validator, list[LeftOut]]:
    """The validator, and the patterns that had to go for it. `schema` loses them too."""
    left_out: list[LeftOut] = []
    while True:
        try:
            return _validator(schema), left_out
        except ValidationError as error:
            where = list(error.instance_path)
            if len(left_out) >= MAX_PATTERNS or not _take_out(schema, where):
                raise
            what = f"the pattern at {'/'.join(map(str, where))} is not checked: it needs back-tracking, or is too large"
            left_out.append(LeftOut(PATTERN, what))


def _take_out(schema: Schema, where: list[str | int]) -> bool:
    """Take the pattern out that an error points at; False where it points at something else."""
    holder: Any = schema
    names = list(where)
    if not names:
        return False
    name = names.pop()
    if name == "pattern" or (names and names[-1] == "patternProperties") or name == "patternProperties":
        steps = names if name in ("pattern", "patternProperties") else names[:-1]
        for step in steps:
            holder = holder[step]
        if name == "pattern" and isinstance(holder, dict) and isinstance(holder.get("pattern"), str):
            del holder["pattern"]
            return True
        if isinstance(holder, dict) and "patternProperties" in holder:
            _drop_patterns(holder)
            return True
    return False


def _patterns_of(schema: Schema) -> list[str]:
    own, named = schema.get("pattern"), schema.get("patternProperties")
    return [*([own] if isinstance(own, str) else ()), *(named if isinstance(named, dict) else ())]


def _states(pattern: str) -> int:
    """About how many states a pattern has at most: an engine that does not back-track looks at all for each byte."""
    atoms, groups = len(pattern) + 200 * pattern.lower().count("\\p"), 1
    for group, least, most in _COUNTED.findall(pattern):
        count = max(int(least), int(most or 0), 1)
        if group:
            groups = min(groups * count, PATTERN_WORK)
        else:
            atoms += 8 * count
    return min(groups * atoms, PATTERN_WORK)


def _drop_patterns(schema: Schema) -> None:
    """Remove patterns of names, and keywords that would forbid names which a pattern allowed."""
    if isinstance(schema.get("pattern"), str):
        del schema["pattern"]
    if schema.pop("patternProperties", None) is not None:
        schema.pop("additionalProperties", None)
        schema.pop("unevaluatedProperties", None)


def _usable_patterns(root: Schema) -> list[LeftOut]:
    """Bounds the number of patterns that have to be compiled."""
    with_patterns = [
        subschema for subschema in every(root) if "pattern" in subschema or "patternProperties" in subschema
    ]
    names = sum(
        len(subschema["patternProperties"])
        for subschema in with_patterns
        if isinstance(subschema.get("patternProperties"), dict)
    )
    if len(with_patterns) + names <= MAX_PATTERNS:
        return []
    for schema in with_patterns:
        _drop_patterns(schema)
    return [LeftOut(PATTERN, f"none of its patterns is checked: there are more than {MAX_PATTERNS}")]


def _unusable(reason: str, message: str) -> Compiled:
    return Compiled(None, (LeftOut(reason, message),))


def _fault(error: ValidationError | ValueError) -> tuple[str, str]:
    if isinstance(error, ValidationError):
        if isinstance(error.kind, ValidationErrorKind.Referencing):
            return REMOTE_REFERENCE, f"it refers to something outside it: {_first_line(error.message)}"
        return NOT_A_SCHEMA, f"it is not a valid JSON Schema: {sentence(error)}"
    return NOT_A_SCHEMA, f"it is not a valid JSON Schema: {_first_line(str(error))}"


def _first_line(text: str) -> str:
    return re.split(r"[\r\n]", text, maxsplit=1)[0][:200]
