"""Sentences for arguments and settings that do not validate, in place of pydantic's listings."""

from __future__ import annotations

import reprlib
from typing import Any, Final

from pydantic import ValidationError

SHOWN: Final = 60
"""Characters of a refused value that a sentence quotes."""
MOST: Final = 5
"""Faults that a sentence names."""
_SHORT: Final = reprlib.Repr()
_SHORT.maxother = SHOWN + 1


def sentence(what: str, error: ValidationError) -> str:
    """Sentence that says what is wrong with `what`: `the arguments of roll are refused: expression is missing.`"""
    faults = [_fault(each) for each in error.errors(include_url=False)]
    more = f"; and {len(faults) - MOST} more" if len(faults) > MOST else ""
    return f"{what} are refused: {'; '.join(faults[:MOST])}{more}."


def quote(value: object) -> str:
    """Value as a short quotation on one line. Large values are looked at as far as they are quoted."""
    text = repr(value[: SHOWN + 1]) if isinstance(value, str | bytes) else _SHORT.repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def _fault(error: Any) -> str:
    location = ".".join(str(part) for part in error["loc"]) or "the value"
    if error["type"] == "missing":
        return f"{location} is missing"
    message = str(error["msg"]).removeprefix("Value error, ").removeprefix("Input ")
    message = message[:1].lower() + message[1:]
    return f"{location}: {message}, got {quote(error['input'])}"
