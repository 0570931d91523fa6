"""Prices of tokens: in dollars, if the installation configures them, and as price factors by model name.

Pure module. A factor is a price relative to that of an uncached input token. The factors are from prices that providers
published until autumn 2026, with caches that last minutes. If models in one row of the table differ, the row has the
factors of the more expensive model. A request may set other factors.
"""

from __future__ import annotations

import re
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from fairlead_formats.tokens.models import bare_name

Dollars = Annotated[float, Meta(ge=0, le=1_000_000)]


class TokenPrices(msgspec.Struct, frozen=True):
    """Prices in thousandths of the price of an uncached input token."""

    read: int = 100
    """Price of a token that is read from the cache."""
    write: int = 1000
    """Price of a token that is written to the cache."""
    output: int = 5000
    """Price of an output token."""
    min_cached_prompt: int = 1024
    """Minimum tokens of a prompt for the provider to cache it."""


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
    """The price factors of a model, by its name in any provider's or router's spelling; `UNKNOWN` without a match."""
    name = bare_name(model)
    return next((prices for pattern, prices in _BY_NAME if pattern.match(name)), UNKNOWN)


class ModelPrice(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Price of one model in US dollars per million tokens, as its provider states it."""

    input: Dollars
    output: Dollars
    cached_input: Dollars | None = None
    """Input that is read from the provider's cache; by default derived from `prices_of`."""
    cache_write: Dollars | None = None
    """Input that is written to the provider's cache; by default derived from `prices_of`."""

    def factors(self, model: str) -> TokenPrices:
        """The prices of all kinds of tokens, relative to an input token."""
        published = prices_of(model)
        if not self.input:
            return published
        return TokenPrices(
            published.read if self.cached_input is None else round(1000 * self.cached_input / self.input),
            published.write if self.cache_write is None else round(1000 * self.cache_write / self.input),
            round(1000 * self.output / self.input),
            published.min_cached_prompt,
        )

    def dollars(self, model: str, input_tokens: int, output_tokens: int, cached: int = 0, written: int = 0) -> float:
        """Cost of a request in US dollars. `input_tokens` includes the `cached` and `written` tokens."""
        factors = prices_of(model)
        read = self.input * factors.read / 1000 if self.cached_input is None else self.cached_input
        write = self.input * factors.write / 1000 if self.cache_write is None else self.cache_write
        uncached_tokens = max(input_tokens - cached - written, 0)
        return (uncached_tokens * self.input + cached * read + written * write + output_tokens * self.output) / 1e6
