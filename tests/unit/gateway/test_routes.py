"""Copies of routes: what narrows a route leaves every other attribute as it is, whatever attributes there are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from fairlead_gateway.core.refusal import OVER_BUDGET, Refusal
from fairlead_gateway.core.route import Route

REFUSAL: Final = Refusal(OVER_BUDGET, "too slow")
COPIES: Final[dict[str, tuple[Callable[[Route], Route], dict[str, Any]]]] = {
    "with less time": (lambda route: route.within(2.0), {"timeout": 2.0, "caller_deadline": True}),
    "with other attempts": (lambda route: route.retried(7), {"retries": 7}),
    "closed": (lambda route: route.closed_by(REFUSAL), {"closed": REFUSAL}),
}


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_of_a_route_keeps_every_attribute_that_it_is_not_about(name: str) -> None:
    attributes: dict[str, Any] = {field: object() for field in Route.__struct_fields__}
    route = Route(**attributes | {"timeout": 30.0})
    copy, changed = COPIES[name]
    made = copy(route)
    assert made is not route
    for attribute in Route.__struct_fields__:
        expected = changed.get(attribute, getattr(route, attribute))
        assert getattr(made, attribute) is expected, attribute


def test_a_route_that_has_less_time_than_is_given_stays_itself() -> None:
    attributes: dict[str, Any] = dict.fromkeys(Route.__struct_fields__)
    route = Route(**attributes | {"timeout": 1.0})
    assert route.within(2.0) is route


def test_nothing_writes_to_a_route_that_calls_share() -> None:
    attributes: dict[str, Any] = dict.fromkeys(Route.__struct_fields__)
    with pytest.raises(AttributeError):
        Route(**attributes).timeout = 1.0  # type: ignore[misc] # what is tested
