"""Converts pydantic's validation errors of arguments and settings to sentences."""

from __future__ import annotations

import reprlib
from typing import Any, Final

from pydantic import ValidationError

MAX_QUOTE: Final = 60
"""Maximum number of characters of a quoted value."""
MAX_FAULTS: Final = 5
"""Maximum number of faults in a sentence."""
_REPR: Final = reprlib.Repr()
_REPR.maxother = MAX_QUOTE + 1


def sentence(subject: str, error: ValidationError) -> str:
    """Sentence about the faults of `subject`, such as `the arguments of roll are invalid: expression is missing.`"""
    faults = [_fault(each) for each in error.errors(include_url=False)]
    suffix = f"; and {len(faults) - MAX_FAULTS} more" if len(faults) > MAX_FAULTS else ""
    return f"{subject} are invalid: {'; '.join(faults[:MAX_FAULTS])}{suffix}."


def quote(value: object) -> str:
    """A value as a short quotation on one line. Only the quoted part of a large value is formatted."""
    text = repr(value[: MAX_QUOTE + 1]) if isinstance(value, str | bytes) else _REPR.repr(value)
    return text if len(text) <= MAX_QUOTE else f"{text[:MAX_QUOTE]}…"


def _fault(error: Any) -> str:
    location = ".".join(str(part) for part in error["loc"]) or "the value"
    if error["type"] == "missing":
        return f"{location} is missing"
    message = str(error["msg"]).removeprefix("Value error, ").removeprefix("Input ")
    message = message[:1].lower() + message[1:]
    return f"{location}: {message}, got {quote(error['input'])}"
