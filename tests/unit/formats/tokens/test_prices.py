"""Prices of models: in dollars, and as factors for comparing ways to offer tools."""

from __future__ import annotations

import pytest

from fairlead_formats.tokens.prices import ModelPrice, TokenPrices, prices_of

STATED = ModelPrice(input=2, output=10, cached_input=0.5, cache_write=3)


def test_every_kind_of_token_has_its_price() -> None:
    million = 1_000_000
    assert STATED.dollars("m", million, 0) == 2
    assert STATED.dollars("m", 0, million) == 10
    assert STATED.dollars("m", million, 0, cached=million) == 0.5
    assert STATED.dollars("m", million, 0, written=million) == 3
    assert STATED.dollars("m", million, million, cached=250_000, written=250_000) == 1 + 0.125 + 0.75 + 10


@pytest.mark.parametrize(("model", "read", "write"), [("claude-sonnet-5", 0.1, 1.25), ("gpt-4.1", 0.25, 1)])
def test_of_the_cache_the_published_factors_count_where_nothing_is_stated(
    model: str, read: float, write: float
) -> None:
    price = ModelPrice(input=4, output=8)
    assert price.dollars(model, 1_000_000, 0, cached=1_000_000) == pytest.approx(4 * read)
    assert price.dollars(model, 1_000_000, 0, written=1_000_000) == pytest.approx(4 * write)


def test_stated_prices_are_factors_of_the_input() -> None:
    assert STATED.factors("m") == TokenPrices(read=250, write=1500, output=5000)
    assert ModelPrice(input=0, output=0).factors("claude-x") == prices_of("claude-x"), "what is free has no factors"
    assert ModelPrice(input=0, output=0).dollars("m", 10, 10, 5, 5) == 0
