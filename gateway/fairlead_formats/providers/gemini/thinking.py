"""Thinking levels, such as `low`, which newer Gemini models take in place of a thinking budget in tokens. Pure module.

Source: Google, "Gemini thinking" (ai.google.dev/gemini-api/docs/thinking, firebase.google.com/docs/ai-logic/thinking).
From Gemini 3 on `thinkingLevel` replaces `thinkingBudget`. Earlier models refuse a level, and every model refuses both
members together.
"""

from __future__ import annotations

import re
from typing import Final

from fairlead_formats.neutral.conversation import Effort

_MODELS_WITH_LEVELS: Final = re.compile(r"gemini-(?:[3-9]|\d\d)")
_MODELS_WITHOUT_MEDIUM: Final = re.compile(r"gemini-3-pro")
_MODELS_WITH_MINIMAL: Final = re.compile(r"gemini-3(?:\.[0-6])?-flash")
LOW: Final = "LOW"
MEDIUM: Final = "MEDIUM"
HIGH: Final = "HIGH"
MINIMAL: Final = "MINIMAL"
LEVELS: Final = (MINIMAL, LOW, MEDIUM, HIGH)


def levels_of(model: str) -> tuple[str, ...]:
    """Values of `thinkingLevel` that a model accepts, the least first; empty for a model that takes a budget."""
    if not _MODELS_WITH_LEVELS.search(model):
        return ()
    if _MODELS_WITHOUT_MEDIUM.search(model):
        return LOW, HIGH
    return LEVELS if _MODELS_WITH_MINIMAL.search(model) else (LOW, MEDIUM, HIGH)


_LEVELS_BY_EFFORT: Final[dict[Effort, tuple[str, ...]]] = {
    "none": (MINIMAL, LOW),
    "minimal": (MINIMAL, LOW),
    "low": (LOW,),
    "medium": (MEDIUM, HIGH),
    "high": (HIGH,),
    "xhigh": (HIGH,),
}
"""Levels that are high enough for an effort, the lowest first."""


def level_for(effort: Effort, levels: tuple[str, ...]) -> str:
    """The level for an effort; if the model lacks this level, the next higher level that it has."""
    return next(level for level in _LEVELS_BY_EFFORT[effort] if level in levels)
