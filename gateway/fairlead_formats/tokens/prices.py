"""Prices of tokens: in dollars, where the installation says them, and of cached and written ones as factors of the
price of an input token, by the name of the model.

Pure module. Factors are those that providers published until autumn 2026, for caches of minutes; where models of one
row differ, the one whose tokens are dearer. A request may bring its own.
"""

from __future__ import annotations

import re
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from fairlead_formats.tokens.models import bare

Dollars = Annotated[float, Meta(ge=0, le=1_000_000)]


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


class ModelPrice(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Price of one model in US dollars for a million tokens, as its provider states it."""

    input: Dollars
    output: Dollars
    cached_input: Dollars | None = None
    """Input that the provider's cache has; by default what `prices_of` says of the model."""
    cache_write: Dollars | None = None
    """Input that is put into the cache; likewise."""

    def factors(self, model: str) -> TokenPrices:
        """The price of each kind of token in that of an input token."""
        published = prices_of(model)
        if not self.input:
            return published
        return TokenPrices(
            published.read if self.cached_input is None else round(1000 * self.cached_input / self.input),
            published.write if self.cache_write is None else round(1000 * self.cache_write / self.input),
            round(1000 * self.output / self.input),
            published.least,
        )

    def dollars(self, model: str, input_tokens: int, output_tokens: int, cached: int = 0, written: int = 0) -> float:
        """Cost of a request; `cached` and `written` are among the tokens of the input."""
        factors = prices_of(model)
        read = self.input * factors.read / 1000 if self.cached_input is None else self.cached_input
        write = self.input * factors.write / 1000 if self.cache_write is None else self.cache_write
        plain = max(input_tokens - cached - written, 0)
        return (plain * self.input + cached * read + written * write + output_tokens * self.output) / 1e6
