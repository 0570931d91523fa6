"""Sentences for users about JSON that does not have the expected form, in place of those of msgspec. No I/O."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import msgspec

_LOCATION: Final = re.compile(r" - at (`key(?:\.\.\.)?` in )?`(.*)`\Z", re.DOTALL)
_WRONG_TYPE: Final = re.compile(r"Expected `([^`]+)`, got `([^`]+)`\Z")
_BOUND: Final = re.compile(r"Expected `(?:int|float)` (>=|<=|>|<) (\S+)\Z")
_LENGTH: Final = re.compile(r"Expected `(str|array|object|bytes)` of length (?:(>=|<=) )?(\d+)\Z")
_PATTERN: Final = re.compile(r"Expected `str` matching regex (.+)\Z", re.DOTALL)
_MISSING: Final = re.compile(r"Object missing required field `([^`]+)`\Z")
_UNKNOWN: Final = re.compile(r"Object contains unknown field `([^`]+)`\Z")
_INVALID: Final = re.compile(r"Invalid (?:enum )?value (.+)\Z", re.DOTALL)
_MALFORMED: Final = re.compile(r"JSON is malformed: (.+) \(byte (\d+)\)\Z")
_NAMES: Final = {
    "str": "a text",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "null": "null",
    "array": "a list",
    "object": "an object",
    "bytes": "a text in base64",
    "datetime": "a date and time (RFC 3339)",
}
_BOUNDS: Final = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than", "==": "exactly"}
_UNITS: Final = {
    "str": ("character", "characters"),
    "array": ("entry", "entries"),
    "object": ("member", "members"),
    "bytes": ("byte", "bytes"),
}
"""Singular and plural of what a length counts."""
_LONGEST: Final = 300
"""Maximum number of characters of a sentence that is passed on as it is."""


class Misreading(NamedTuple):
    """Why a value was not read."""

    path: str
    """Path of the member that is wrong, such as `messages[0].content`; empty for the whole value. `[...]` stands for
    an entry whose number is unknown.
    """
    reason: str
    """Predicate about the member, such as `must be a text, not a number`."""

    def about(self, subject: str) -> str:
        """The sentence. `subject` names the whole value, such as `the body`."""
        return f"{self.path}: {self.reason}" if self.path else f"{subject} {self.reason}"


def misreading_of(error: Exception) -> Misreading:
    """Turn an exception of msgspec's decoding or conversion, or another one that decoding raises, into words."""
    if isinstance(error, RecursionError):
        return Misreading("", "is nested too deeply")
    if isinstance(error, UnicodeDecodeError):
        return Misreading("", "is not text in UTF-8")
    message = str(error)
    if message == "Invalid UTF-8 encoded string":
        return Misreading("", "is not text in UTF-8")
    if not isinstance(error, msgspec.ValidationError):
        return Misreading("", f"is not JSON: {_syntax_reason(message)}")
    location = _LOCATION.search(message)
    path = "" if location is None else location[2].removeprefix("$").removeprefix(".")
    text = message if location is None else message[: location.start()]
    if location is not None and location[1]:
        name = f"a name in {path}" if path else "a name of a member"
        return Misreading(name, _reason(text))
    for pattern, reason in ((_MISSING, "is missing"), (_UNKNOWN, "is unknown")):
        if (match := pattern.fullmatch(text)) is not None:
            return Misreading(f"{path}.{match[1]}" if path else match[1], reason)
    return Misreading(path, _reason(text))


def explain_misreading(error: Exception, subject: str) -> str:
    """The sentence about an exception; see `misreading_of` and `Misreading.about`."""
    return misreading_of(error).about(subject)


def _syntax_reason(message: str) -> str:
    malformed = _MALFORMED.fullmatch(message)
    if malformed is not None:
        return f"{malformed[1]} at byte {malformed[2]}"
    return "it ends too early" if message == "Input data was truncated" else message[:_LONGEST]


def _reason(text: str) -> str:
    if match := _WRONG_TYPE.fullmatch(text):
        actual = "a number with decimals" if match[2] == "float" else _named(match[2])
        return f"must be {_alternatives(match[1])}, not {actual}"
    if match := _BOUND.fullmatch(text):
        return f"must be {_BOUNDS[match[1]]} {match[2]}"
    if match := _LENGTH.fullmatch(text):
        singular, plural = _UNITS[match[1]]
        return f"must have {_BOUNDS[match[2] or '==']} {match[3]} {singular if match[3] == '1' else plural}"
    if match := _PATTERN.fullmatch(text):
        return f"must match the regular expression {match[1]}"
    if match := _INVALID.fullmatch(text):
        return f"has the value {match[1][:_LONGEST]}, which is none of the possible ones"
    return f"is not valid: {text[:_LONGEST].replace('`', '')}"


def _alternatives(types: str) -> str:
    *others, last = (_named(name) for name in types.split(" | "))
    return f"{', '.join(others)} or {last}" if others else last


def _named(name: str) -> str:
    return _NAMES.get(name, name)
