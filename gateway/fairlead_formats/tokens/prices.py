"""Prices of cached and written tokens, as factors of the price of an input token, by the name of the model.

Pure module. Factors are those that providers published until autumn 2026, for caches of minutes; where models of one
row differ, the one whose tokens are dearer. A request may bring its own.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from fairlead_formats.tokens.families import bare


class TokenPrices(msgspec.Struct, frozen=True):
    """Prices in thousandths of the price of an input token that no cache has."""

    read: int = 100
    """A token that the cache has."""
    write: int = 1000
    """A token that is put into the cache."""
    output: int = 5000
    """A token that the model writes."""
    least: int = 1024
    """Tokens of the shortest prompt that is cached."""


UNKNOWN: Final = TokenPrices()
CLAUDE: Final = TokenPrices(write=1250)
_BY_NAME: Final = (
    (re.compile(r"claude"), CLAUDE),
    (re.compile(r"gpt-(5\.[6-9]|[6-9]|\d\d)"), TokenPrices(write=1250, output=6000)),
    (re.compile(r"gpt-5"), TokenPrices(output=8000)),
    (re.compile(r"(gpt-4\.1|o[34])"), TokenPrices(read=250, output=4000)),
    (re.compile(r"(chatgpt-4o|gpt-4o|o1)"), TokenPrices(read=500, output=4000)),
    (re.compile(r"gemini"), TokenPrices(output=8000)),
)


def prices_of(model: str) -> TokenPrices:
    """The prices of a model, however a provider or a router writes its name; `UNKNOWN` for any other."""
    name = bare(model)
    return next((prices for pattern, prices in _BY_NAME if pattern.match(name)), UNKNOWN)
