"""Estimates the tokens of a text from its bytes, rather too high than too low. Pure module."""

from __future__ import annotations

import json
from typing import Final

BYTES_PER_TOKEN: Final = 3
"""Bytes that the estimate counts as one token. Every tokenizer has a higher average for JSON, English and Chinese, so a
text never exceeds a budget in which it fits by this estimate.
"""


def tokens(text: str) -> int:
    """Estimated tokens of a text as a JSON string."""
    return -(-len(json.dumps(text, ensure_ascii=False).encode("utf-8", "replace")) // BYTES_PER_TOKEN)


def cut_to_tokens(text: str, budget_tokens: int) -> str:
    """The beginning of a text that fits into a number of tokens."""
    cut = text[: max(0, budget_tokens * BYTES_PER_TOKEN)]
    while cut and tokens(cut) > budget_tokens:
        cut = cut[: len(cut) * 9 // 10]
    return cut


def cut_start_to_tokens(text: str, budget_tokens: int) -> str:
    """The end of a text that fits into a number of tokens."""
    start = len(text) - max(0, budget_tokens * BYTES_PER_TOKEN)
    cut = text[max(0, start) :]
    return cut_to_tokens(cut[::-1], budget_tokens)[::-1]
