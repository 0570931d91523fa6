"""Checks values by one compiled schema, in bounded time.

Pure module, and compiled: every call's arguments pass through it. `schema_compiler` makes checkers.
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
"""A larger value takes longer than 5 ms to read."""
MAX_WORK: Final = 8_000_000
"""Bytes of a value times the weight of the schema (see `intricacy`)."""
MAX_EXPLAINED: Final = 40_000
"""Bytes of a value in which all errors are looked for instead of one."""
PATTERN_BYTES: Final = 64 << 10
"""Patterns are checked in values up to this size, and up to less where they are large (see PATTERN_WORK)."""
PATTERN_WORK: Final = 8_000_000
"""Bytes of a value times the states of all patterns; the most hostile then take some tens of milliseconds."""

TOO_DEEP: Final = "it does not fit the schema, and is nested too deeply to say where"

_NULL: Final = b"null"
_decode: Final = msgspec.json.Decoder().decode


class Checker:
    """Compiled schema that checks values. `unchecked` counts values that were too large or too deep to be checked in
    bounded time.
    """

    __slots__ = (
        "_explain_bytes",
        "_fast",
        "_fits",
        "_heights",
        "_make_plain",
        "_max_bytes",
        "_plain",
        "_simple_bytes",
        "_slow",
        "unchecked",
    )

    def __init__(
        self, fast: Validator, heights: tuple[int, ...], states: int, without_patterns: Callable[[], Validator]
    ) -> None:
        """`heights`: weight of the schema by how deep a value is nested; `states`: of all patterns, about;
        `without_patterns` makes the validator of large values.
        """
        self._fast = fast
        self._fits = fast.is_valid
        self._heights = heights
        self._make_plain = without_patterns
        self._plain: Validator | None = None
        """Without patterns, for large values; made when first needed."""
        self._slow = len(heights) > 1
        self._max_bytes = min(PATTERN_BYTES, PATTERN_WORK // states) if states else MAX_WORK // heights[0]
        """Up to which a value is simply checked."""
        self._simple_bytes = 0 if self._slow else min(self._max_bytes, MAX_WORK // heights[0], MAX_VALUE_BYTES)
        """Up to which it takes no more than that to see that a value fits."""
        self._explain_bytes = MAX_EXPLAINED // heights[0]
        self.unchecked = 0

    def wrong(self, value: bytes | Raw) -> str | None:
        """Errors of a raw JSON value, one a line; None where all fits, or nothing can be said."""
        try:
            if len(value) <= self._simple_bytes and self._fits(_decode(value)):
                return None
        except jsonrpc.UNREADABLE:
            pass
        return self._wrong(value)

    def wrong_arguments(self, value: bytes | Raw | None) -> str | None:
        """As `wrong`, of the arguments of a call: those that are left out or `null` are an empty object."""
        if value is None or (len(value) == len(_NULL) and bytes(value) == _NULL):
            return self.wrong(b"{}")
        return self.wrong(value)

    def _wrong(self, value: bytes | Raw) -> str | None:
        if len(value) > MAX_VALUE_BYTES:
            self.unchecked += 1
            return None
        try:
            decoded = _decode(value)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self.unchecked += 1  # its recipient says what is wrong with it
            return None
        validator, explained = self._fast, True
        if self._slow or len(value) > self._explain_bytes or len(value) > self._max_bytes:
            bounded = self._for(len(value), decoded)
            if bounded is None:
                self.unchecked += 1
                return None
            validator, explained = bounded
        if validator.is_valid(decoded):
            return None
        return _explain(validator, decoded, explained)

    def doubt(self, value: bytes | Raw) -> str | None:
        """As `wrong`, but a value that cannot be checked in full does not fit."""
        if len(value) > MAX_VALUE_BYTES:
            return "they are too large to be checked"
        try:
            decoded = _decode(value)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return "they cannot be read"
        height = height_of(decoded, len(self._heights)) if self._slow else 0
        if (
            len(value) > self._max_bytes
            or height >= len(self._heights)
            or len(value) * self._heights[height] > MAX_WORK
        ):
            return "they are too large or too deep to be checked"
        if self._fast.is_valid(decoded):
            return None
        return _explain(self._fast, decoded, len(value) * self._heights[height] <= MAX_EXPLAINED)

    def _for(self, size: int, decoded: Any) -> tuple[Validator, bool] | None:
        """Validator for a value of that size, and whether it may look for more than one error."""
        height = height_of(decoded, len(self._heights)) if self._slow else 0
        if height >= len(self._heights):
            return None
        weight = self._heights[height]
        if size * weight > MAX_WORK:
            return None
        return (self._fast if size <= self._max_bytes else self._without_patterns()), size * weight <= MAX_EXPLAINED

    def _without_patterns(self) -> Validator:
        if self._plain is None:
            self._plain = self._make_plain()
        return self._plain


def height_of(value: Any, most: int) -> int:
    """How deep a value is nested, 0 for one that is not; no more than `most` is told apart."""
    height, level = 0, [value]
    while height < most:
        level = [
            below
            for child in level
            if isinstance(child, dict | list)
            for below in (child.values() if isinstance(child, dict) else child)
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
    except ValueError:  # errors carry the value, and jsonschema-rs carries none that is nested 255 levels deep
        return TOO_DEEP
    return "it does not fit the schema"
