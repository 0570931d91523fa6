"""Estimates tokens of text by its bytes, rather too many than too few. Pure module."""

from __future__ import annotations

import json
from typing import Final

BYTES_PER_TOKEN: Final = 3
"""Fewer than any tokenizer has on average over JSON, English or Chinese: a budget in tokens is kept."""


def tokens(text: str) -> int:
    """Tokens of a text as it is written in JSON."""
    return -(-len(json.dumps(text, ensure_ascii=False).encode("utf-8", "replace")) // BYTES_PER_TOKEN)


def within(text: str, budget_tokens: int) -> str:
    """The beginning of a text that a number of tokens holds."""
    cut = text[: max(0, budget_tokens * BYTES_PER_TOKEN)]
    while cut and tokens(cut) > budget_tokens:
        cut = cut[: len(cut) * 9 // 10]
    return cut


def ending(text: str, budget_tokens: int) -> str:
    """The end of a text that a number of tokens holds."""
    start = len(text) - max(0, budget_tokens * BYTES_PER_TOKEN)
    cut = text[max(0, start) :]
    return within(cut[::-1], budget_tokens)[::-1]
