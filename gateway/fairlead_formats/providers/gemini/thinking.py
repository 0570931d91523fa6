"""Thinking levels, such as `low`, which newer Gemini models take in place of a thinking budget in tokens. Pure module.

Source: Google, "Gemini thinking" (ai.google.dev/gemini-api/docs/thinking, firebase.google.com/docs/ai-logic/thinking).
From Gemini 3 on `thinkingLevel` replaces `thinkingBudget`. Earlier models refuse a level, and every model refuses both
members together.
"""

from __future__ import annotations

import re
from typing import Final

from fairlead_formats.neutral.conversation import Effort

_LEVELS: Final = re.compile(r"gemini-(?:[3-9]|\d\d)")
_NO_MEDIUM: Final = re.compile(r"gemini-3-pro")
_MINIMAL: Final = re.compile(r"gemini-3(?:\.[0-6])?-flash")
LOW: Final = "LOW"
MEDIUM: Final = "MEDIUM"
HIGH: Final = "HIGH"
MINIMAL: Final = "MINIMAL"
LEVELS: Final = (MINIMAL, LOW, MEDIUM, HIGH)


def levels_of(model: str) -> tuple[str, ...]:
    """Values of `thinkingLevel` that a model accepts, the least first; empty for a model that takes a budget."""
    if not _LEVELS.search(model):
        return ()
    if _NO_MEDIUM.search(model):
        return LOW, HIGH
    return LEVELS if _MINIMAL.search(model) else (LOW, MEDIUM, HIGH)


_AT_LEAST: Final[dict[Effort, tuple[str, ...]]] = {
    "none": (MINIMAL, LOW),
    "minimal": (MINIMAL, LOW),
    "low": (LOW,),
    "medium": (MEDIUM, HIGH),
    "high": (HIGH,),
    "xhigh": (HIGH,),
}


def level_for(effort: Effort, levels: tuple[str, ...]) -> str:
    """The level for an effort; if the model lacks this level, the next higher level that it has."""
    return next(level for level in _AT_LEAST[effort] if level in levels)
