"""Copies of routes: narrowing a route changes only the attributes in question, also when attributes are added to the
class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, Final, cast

import pytest
from msgspec import Raw

from fairlead_gateway.core.ports import AdmissionGuard, AttemptMeter, CallRecorder, Upstream
from fairlead_gateway.core.route import Route
from fairlead_tools.refusal import OVER_BUDGET, Refusal

REFUSAL: Final = Refusal(OVER_BUDGET, "too slow")
COPIES: Final[dict[str, tuple[Callable[[Route], Route], dict[str, Any]]]] = {
    "with less time": (
        lambda route: route.with_time_limit(2.0),
        {
            "timeout": 2.0,
            "start_timeout": 2.0,
            "max_timeout": 2.0,
            "caller_deadline": True,
            "caller_set_max_timeout": True,
        },
    ),
    "with less time for progress": (
        lambda route: route.with_time_limit(90.0),
        {"max_timeout": 90.0, "caller_set_max_timeout": True},
    ),
    "with less time for a start": (
        lambda route: route.with_time_limit(60.0),
        {"start_timeout": 60.0, "max_timeout": 60.0, "caller_set_max_timeout": True},
    ),
    "with other attempts": (lambda route: route.with_retries(7), {"retries": 7}),
    "unavailable": (lambda route: route.with_refusal(REFUSAL), {"unavailable": REFUSAL}),
}


OTHERS: Final = (
    "tool",
    "binding",
    "server",
    "caps",
    "check",
    "unavailable",
    "constraint",
    "shape",
    "quota",
    "task",
    "uris",
    "verify",
)
"""Values for attributes whose types are not checked at run time."""
ATTRIBUTES: Final[dict[str, Any]] = {name: object() for name in OTHERS} | {
    "name": "echo",
    "id": "default/up/echo",
    "member": "name",
    "name_raw": Raw(b'"echo"'),
    "name_lines": b"Mcp-Name: echo\r\n",
    "upstream": Upstream(),
    "recorder": CallRecorder(),
    "meter": AttemptMeter(),
    "timeout": 30.0,
    "start_timeout": 90.0,
    "max_timeout": 600.0,
    "max_bytes": 4096,
    "server_info": b"{}",
    "guard": AdmissionGuard(),
    "retries": 2,
    "idempotent": True,
    "per_client": True,
    "cacheable_seconds": 60,
    "cache_scope": b"scope",
    "offline": True,
    "requires": ("sampling",),
    "param_headers": (cast("Any", object()),),
    "caller_deadline": False,
    "caller_set_max_timeout": False,
    "counted": True,
    "must_escape": True,
    "manual": "a policy",
    "result_tokens": 2000,
}


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_of_a_route_keeps_every_attribute_that_it_is_not_about(name: str) -> None:
    route = Route(**ATTRIBUTES)
    copy, changed = COPIES[name]
    made = copy(route)
    assert made is not route
    assert ATTRIBUTES.keys() == {field.name for field in fields(Route)}
    for attribute, value in (ATTRIBUTES | changed).items():
        assert getattr(made, attribute) == value, attribute


def test_a_route_that_has_less_time_than_is_given_stays_itself() -> None:
    route = Route(**ATTRIBUTES)
    assert route.with_time_limit(600.0) is route


def test_a_route_that_calls_share_cannot_be_written() -> None:
    with pytest.raises(AttributeError):
        Route(**ATTRIBUTES).timeout = 1.0  # type: ignore[misc] # what is tested
