"""Compiler of JSON Schemas to checkers. No I/O; remote references are not fetched.

`compile_schema` never raises. Parts of a schema that cannot be used, or the whole schema, are left out and reported
with the reason. Patterns run on an engine without backtracking, in time linear in the text. That engine does not
support look-around and back-references, so patterns with these are left out.

The bound on the work of validating a value is computed from the schema. Nested alternatives (`anyOf`) can double the
work with each level: a schema of thirty definitions of two lines can need a billion comparisons for the value `{}`. The
*weight* of a schema at a height is the maximum number of subschemas that may be tried along a path into a value, if the
path has the length of that height. Weight times the size of a value bounds the work.
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

from fairlead_mcp.schemas import (
    CHILD_APPLICATORS,
    IN_PLACE_APPLICATORS,
    References,
    Schema,
    UnresolvedReference,
    all_schemas,
    parts,
)
from fairlead_tools.validation.checker import PATTERN_WORK, Checker
from fairlead_tools.validation.wording import sentence

MAX_WEIGHT: Final = 2_000
"""Maximum weight of a schema. A schema with a greater weight is not used."""
MAX_EVALUATIONS: Final = 4
"""Maximum number of evaluations of the subschemas beside an `unevaluated…` keyword. They show which members those
subschemas leave unevaluated."""
_UNEVALUATED: Final = ("unevaluatedProperties", "unevaluatedItems")
MAX_HEIGHT: Final = 64
"""Maximum height (nesting depth) of a value for which the weight of a recursive schema is computed; higher values are
not checked."""
MAX_SCHEMA_BYTES: Final = 128 << 10
"""Maximum number of bytes of a schema; compiling a larger schema takes more than 5 ms."""
MAX_PATTERNS: Final = 64
"""Maximum number of patterns in a schema. If there are more, no pattern is checked."""
_PATTERNS: Final = RegexOptions(size_limit=1 << 18, dfa_size_limit=1 << 20)
"""Limits for one compiled pattern, in bytes."""
_REPETITION: Final = re.compile(r"(\)?)\{(\d{1,6})(?:,(\d{0,6}))?\}")
TOO_LARGE: Final = "too_large"
NOT_A_SCHEMA: Final = "not_a_schema"
REMOTE_REFERENCE: Final = "remote_reference"
TOO_INTRICATE: Final = "too_intricate"
PATTERN: Final = "pattern"
_decode = msgspec.json.Decoder().decode


class TooIntricate(Exception):
    """The weight of a schema exceeds MAX_WEIGHT, or the schema refers to itself without descending into the value."""


class Weights:
    """Weights of one schema by height. The constructor raises TooIntricate, and UnresolvedReference for an external
    reference."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._references = References(root)
        self._weights: dict[tuple[int, int], int] = {}
        """Computed weights by id of the schema and height."""
        self._unfinished_weights: set[tuple[int, int]] = set()
        """Ids and heights of the schemas whose weights are being computed. If a schema occurs in the set again, the
        schema is recursive."""
        self.recursive = False
        """Whether the schema refers to itself."""
        flat = self._weight(root, -1)
        self.by_height: tuple[int, ...] = (flat,)
        """Weights by the height of a value. A schema that is not recursive has a single weight, for all heights."""
        if self.recursive:
            self.by_height = tuple(self._weights_by_height())

    def _weights_by_height(self) -> list[int]:
        weights: list[int] = []
        self._weights.clear()
        self._unfinished_weights.clear()
        for height in range(MAX_HEIGHT + 1):
            try:
                weights.append(self._weight(self._root, height))
            except TooIntricate:
                if height <= 2:
                    raise
                break
        return weights

    def _weight(self, schema: Schema, height: int) -> int:
        """Compute the weight of a schema at a height. The height -1 stands for any height: a recursive reference then
        sets `recursive`, and is not followed.
        """
        key = (id(schema), height)
        stored = self._weights.get(key)
        if stored is not None:
            return stored
        if key in self._unfinished_weights:
            if height >= 0:
                raise TooIntricate("the schema refers to itself without descending into the value")
            self.recursive = True
            return 1
        self._unfinished_weights.add(key)
        value_work = sum(self._weight(part, height) for part in self._references.targets(schema))
        value_work += sum(self._weight(part, height) for _, part in parts(schema, IN_PLACE_APPLICATORS))
        weight = 1 + value_work * (MAX_EVALUATIONS if any(keyword in schema for keyword in _UNEVALUATED) else 1)
        if height != 0:
            weight += self._weight_below(schema, height if height < 0 else height - 1)
        self._unfinished_weights.discard(key)
        if weight > MAX_WEIGHT and not (height < 0 and self.recursive):
            raise TooIntricate(f"a value may have to be compared with more than {MAX_WEIGHT} schemas")
        self._weights[key] = weight
        return weight

    def _weight_below(self, schema: Schema, height: int) -> int:
        all_members = sum(self._weight(part, height) for _, part in parts(schema, CHILD_APPLICATORS))
        heaviest_property = max((self._weight(part, height) for _, part in parts(schema, ("properties",))), default=0)
        return all_members + heaviest_property


class LeftOut(msgspec.Struct, frozen=True):
    """Part of a schema, or the whole schema, that is not checked. `reason` is one of the constants of this module."""

    reason: str
    message: str


class Compiled(msgspec.Struct, frozen=True):
    """Result of a compilation. `checker` is None if every value is valid, or if the whole schema is left out."""

    checker: Checker | None
    left_out: tuple[LeftOut, ...] = ()


def compile_schema(schema: bytes | Raw | Mapping[str, Any], *, of_objects: bool = False) -> Compiled:
    """Compile a JSON Schema of draft 2020-12, or of the draft that `$schema` names. Raises nothing.

    `of_objects`: whether all values will be objects, as the arguments of calls are.
    """
    raw = msgspec.json.encode(schema) if isinstance(schema, Mapping) else bytes(schema)
    if len(raw) > MAX_SCHEMA_BYTES:
        return _unusable(TOO_LARGE, f"the schema is larger than {MAX_SCHEMA_BYTES} bytes")
    try:
        decoded = _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return _unusable(NOT_A_SCHEMA, f"the schema is not valid JSON: {error}")
    if not isinstance(decoded, dict):
        return _unusable(NOT_A_SCHEMA, "the schema is not a JSON object")
    if of_objects and _takes_every_object(decoded):
        return Compiled(None)
    try:
        weights = Weights(decoded).by_height
        left_out = _usable_patterns(decoded)
        validator, uncompiled_patterns = _compile(decoded)
    except UnresolvedReference as error:
        message = f"the schema refers to {str(error)[:200]!r}, which it does not contain; nothing is fetched"
        return _unusable(REMOTE_REFERENCE, message)
    except (TooIntricate, RecursionError) as error:
        return _unusable(TOO_INTRICATE, str(error) or "the schema is nested too deeply")
    except (ValidationError, ValueError) as error:
        return _unusable(*_fault(error))
    states = sum(_states(pattern) for subschema in all_schemas(decoded) for pattern in _patterns_of(subschema))
    checker = Checker(validator, weights, states, partial(_without_patterns, decoded))
    return Compiled(checker, (*left_out, *uncompiled_patterns))


def _takes_every_object(schema: Schema) -> bool:
    """Whether every object fits a schema, as with the usual schemas of tools without arguments."""
    return schema.get("type", "object") == "object" and all(
        keyword in ("type", "$schema", "title", "description") or (keyword == "properties" and value == {})
        for keyword, value in schema.items()
    )


def _validator(schema: Schema) -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for(
        schema, offline=True, validate_formats=False, ignore_unknown_formats=True, pattern_options=_PATTERNS
    )


def _without_patterns(schema: Schema) -> jsonschema_rs.Validator:
    copy = msgspec.json.decode(msgspec.json.encode(schema))
    for part in all_schemas(copy):
        _drop_patterns(part)
    return _validator(copy)


def _compile(schema: Schema) -> tuple[jsonschema_rs.Validator, list[LeftOut]]:
    """Make the validator of `schema`, from which patterns that do not compile are removed. Returns the validator and a
    description of each removed pattern.
    """
    left_out: list[LeftOut] = []
    while True:
        try:
            return _validator(schema), left_out
        except ValidationError as error:
            path = list(error.instance_path)
            if len(left_out) >= MAX_PATTERNS or not _take_out(schema, path):
                raise
            pattern_path = "/".join(map(str, path))
            message = f"the pattern at {pattern_path} is not checked: it needs backtracking, or is too large"
            left_out.append(LeftOut(PATTERN, message))


def _take_out(schema: Schema, path: list[str | int]) -> bool:
    """Remove the pattern that an error reports; False if the error is not about a pattern."""
    holder: Any = schema
    names = list(path)
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
    pattern, properties = schema.get("pattern"), schema.get("patternProperties")
    return [*([pattern] if isinstance(pattern, str) else ()), *(properties if isinstance(properties, dict) else ())]


def _states(pattern: str) -> int:
    """Estimate the states of a pattern; an engine without backtracking may visit all of them for each byte."""
    atoms, groups = len(pattern) + 200 * pattern.lower().count("\\p"), 1
    for group, least, most in _REPETITION.findall(pattern):
        count = max(int(least), int(most or 0), 1)
        if group:
            groups = min(groups * count, PATTERN_WORK)
        else:
            atoms += 8 * count
    return min(groups * atoms, PATTERN_WORK)


def _drop_patterns(schema: Schema) -> None:
    """Remove the patterns of a schema. Also remove the keywords that would then forbid names that a removed pattern had
    allowed."""
    if isinstance(schema.get("pattern"), str):
        del schema["pattern"]
    if schema.pop("patternProperties", None) is not None:
        schema.pop("additionalProperties", None)
        schema.pop("unevaluatedProperties", None)


def _usable_patterns(root: Schema) -> list[LeftOut]:
    """Remove all patterns if there are more than MAX_PATTERNS. Returns what was left out."""
    with_patterns = [
        subschema for subschema in all_schemas(root) if "pattern" in subschema or "patternProperties" in subschema
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
    return [LeftOut(PATTERN, f"the patterns are not checked: the schema has more than {MAX_PATTERNS}")]


def _unusable(reason: str, message: str) -> Compiled:
    return Compiled(None, (LeftOut(reason, message),))


def _fault(error: ValidationError | ValueError) -> tuple[str, str]:
    if isinstance(error, ValidationError):
        if isinstance(error.kind, ValidationErrorKind.Referencing):
            return REMOTE_REFERENCE, f"the schema has an external reference: {_first_line(error.message)}"
        return NOT_A_SCHEMA, f"the schema is not valid JSON Schema: {sentence(error)}"
    return NOT_A_SCHEMA, f"the schema is not valid JSON Schema: {_first_line(str(error))}"


def _first_line(text: str) -> str:
    return re.split(r"[\r\n]", text, maxsplit=1)[0][:200]
