"""Prices of cached and written tokens, as factors of the price of an input token, by family of models.

Pure module. Factors are those of the providers' public price lists of 2026; where models of one family differ, the one
that saves less by a cache is here. A request may bring its own.
"""

from __future__ import annotations

from typing import Final

import msgspec

from fairlead_formats.tokens.families import CLAUDE_3, CLAUDE_4, CLAUDE_4_7, GEMINI, OPENAI, Family


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


CLAUDE: Final = TokenPrices(write=1250)
"""Prompt caching for five minutes; output at five times the input."""
BY_FAMILY: Final = {
    OPENAI.name: TokenPrices(output=8000),
    GEMINI.name: TokenPrices(output=8000),
    **{family.name: CLAUDE for family in (CLAUDE_3, CLAUDE_4, CLAUDE_4_7)},
}


def prices_of(family: Family) -> TokenPrices:
    """The prices of a family; those of most providers where none are known."""
    return BY_FAMILY.get(family.name, TokenPrices())
