"""Validation of values by one compiled schema, in bounded time. No I/O.

This module checks the arguments of every call and is therefore compiled by mypyc. `schema_compiler` makes checkers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
from jsonschema_rs import ValidationError, Validator
from msgspec import Raw

from fairlead_mcp import jsonrpc
from fairlead_tools.validation.wording import sentence, sentences

MAX_VALUE_BYTES: Final = 512 << 10
"""Maximum number of bytes of a value that is checked; decoding a larger value takes more than 5 ms."""
MAX_WORK: Final = 8_000_000
"""Maximum product of the size of a value in bytes and the weight of the schema (see `schema_compiler`)."""
MAX_EXPLAINED: Final = 40_000
"""Maximum product of size and weight (as in MAX_WORK) for which all errors of a value are reported, not only the first
error."""
PATTERN_BYTES: Final = 64 << 10
"""Maximum number of bytes of a value in which patterns are checked. With large patterns, the limit is lower
(PATTERN_WORK)."""
PATTERN_WORK: Final = 8_000_000
"""Maximum product of the size of a value in bytes and the number of states of all patterns' automata. At this limit,
the worst patterns take some tens of milliseconds.
"""

TOO_DEEP: Final = "the value does not match the schema, and is nested too deeply to say where"

_NULL: Final = b"null"
_decode: Final = msgspec.json.Decoder().decode


class Checker:
    """Compiled schema. `unchecked` counts values that were too large or too deep to be checked in bounded time."""

    __slots__ = (
        "_explain_bytes",
        "_fits",
        "_is_recursive",
        "_make_plain",
        "_max_bytes",
        "_plain_validator",
        "_simple_bytes",
        "_validator",
        "_weights",
        "unchecked",
    )

    def __init__(
        self, validator: Validator, weights: tuple[int, ...], states: int, without_patterns: Callable[[], Validator]
    ) -> None:
        """`weights` has the weights of the schema (see `schema_compiler`), by the nesting depth of a value. `states` is
        the approximate number of states of all patterns' automata. `without_patterns` makes the validator for values in
        which patterns are not checked.
        """
        self._validator = validator
        self._fits = validator.is_valid
        self._weights = weights
        self._make_plain = without_patterns
        self._plain_validator: Validator | None = None
        """Validator without patterns, for large values; made on demand."""
        self._is_recursive = len(weights) > 1
        self._max_bytes = min(PATTERN_BYTES, PATTERN_WORK // states) if states else MAX_WORK // weights[0]
        """Maximum number of bytes of a value that is checked with patterns."""
        self._simple_bytes = 0 if self._is_recursive else min(self._max_bytes, MAX_WORK // weights[0], MAX_VALUE_BYTES)
        """Maximum number of bytes of a value for which the fast path in `errors` is bounded in time; 0 for recursive
        schemas."""
        self._explain_bytes = MAX_EXPLAINED // weights[0]
        self.unchecked = 0

    def errors(self, value: bytes | Raw) -> str | None:
        """Return the errors of a raw JSON value, one per line; None if the value is valid or cannot be checked."""
        try:
            if len(value) <= self._simple_bytes and self._fits(_decode(value)):
                return None
        except jsonrpc.UNREADABLE:
            pass
        return self._errors(value)

    def argument_errors(self, value: bytes | Raw | None) -> str | None:
        """Like `errors`, for the arguments of a call; absent arguments and `null` count as an empty object."""
        if value is None or (len(value) == len(_NULL) and bytes(value) == _NULL):
            return self.errors(b"{}")
        return self.errors(value)

    def _errors(self, value: bytes | Raw) -> str | None:
        if len(value) > MAX_VALUE_BYTES:
            self.unchecked += 1
            return None
        try:
            decoded = _decode(value)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self.unchecked += 1  # the value's recipient, server or client, reports that it cannot be decoded
            return None
        validator, reports_all = self._validator, True
        if self._is_recursive or len(value) > self._explain_bytes or len(value) > self._max_bytes:
            choice = self._choose_validator(len(value), decoded)
            if choice is None:
                self.unchecked += 1
                return None
            validator, reports_all = choice
        if validator.is_valid(decoded):
            return None
        return _explain(validator, decoded, reports_all)

    def find_error_or_excess(self, value: bytes | Raw) -> str | None:
        """Return the errors of raw arguments, as `errors` does. Arguments that cannot be checked completely are an
        error.
        """
        if len(value) > MAX_VALUE_BYTES:
            return "the arguments are too large to be checked"
        try:
            decoded = _decode(value)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return "the arguments are not valid JSON, or nested too deeply"
        height = height_of(decoded, len(self._weights)) if self._is_recursive else 0
        if (
            len(value) > self._max_bytes
            or height >= len(self._weights)
            or len(value) * self._weights[height] > MAX_WORK
        ):
            return "the arguments are too large or nested too deeply to be checked"
        if self._validator.is_valid(decoded):
            return None
        return _explain(self._validator, decoded, len(value) * self._weights[height] <= MAX_EXPLAINED)

    def _choose_validator(self, size: int, decoded: Any) -> tuple[Validator, bool] | None:
        """Choose the validator for a value of `size` bytes, and whether to report all errors. None if the value is too
        large or too deep to be checked in bounded time.
        """
        height = height_of(decoded, len(self._weights)) if self._is_recursive else 0
        if height >= len(self._weights):
            return None
        weight = self._weights[height]
        if size * weight > MAX_WORK:
            return None
        validator = self._validator if size <= self._max_bytes else self._without_patterns()
        return validator, size * weight <= MAX_EXPLAINED

    def _without_patterns(self) -> Validator:
        if self._plain_validator is None:
            self._plain_validator = self._make_plain()
        return self._plain_validator


def height_of(value: Any, maximum: int) -> int:
    """Return the nesting depth of a value: 0 for a scalar, `maximum` for a value of that depth or deeper."""
    height, level = 0, [value]
    while height < maximum:
        level = [
            item
            for child in level
            if isinstance(child, dict | list)
            for item in (child.values() if isinstance(child, dict) else child)
        ]
        if not level:
            return height
        height += 1
    return height


def _explain(validator: Validator, decoded: Any, all_errors: bool) -> str:
    try:
        if all_errors:
            return "\n".join(sentences(validator.iter_errors(decoded)))
        validator.validate(decoded)
    except ValidationError as error:
        return sentence(error)
    except ValueError:  # jsonschema-rs cannot make an error with a value that is nested 255 levels deep
        return TOO_DEEP
    return "the value does not match the schema"
