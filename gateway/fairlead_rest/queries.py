"""Parameters of queries: one that a resource does not take, or takes once and gets twice, is refused as a member of a
body is.

Put around the routes below `/v1` by `application`; `direct` asks for its own. Nothing else of the gateway runs it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final, get_args, get_origin
from urllib.parse import parse_qsl

from fastapi.routing import APIRoute
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from fairlead_formats.names import did_you_mean
from fairlead_offers.problems import INVALID_ARGUMENTS, Problem
from fairlead_web.problem_responses import problem_response

PREFIX: Final = "/v1/"
LONGEST: Final = 64
"""Characters of a wrong name that are said."""


def wrong(query: bytes, parameters: dict[str, bool]) -> Problem | None:
    """Why a query is refused. `parameters`: the parameters there are, and whether one may come several times."""
    if not query:
        return None
    counted = Counter(name for name, _ in parse_qsl(query.decode("latin-1"), keep_blank_values=True))
    for name, times in counted.items():
        if name not in parameters:
            near = did_you_mean(name, parameters)
            hint = "" if near is None else f". Did you mean {near}?"
            detail = f"the query: unknown parameter {name[:LONGEST]!r}{hint}"
            return Problem(INVALID_ARGUMENTS, detail, did_you_mean=near, existing=tuple(sorted(parameters)))
        if times > 1 and not parameters[name]:
            return Problem(INVALID_ARGUMENTS, f"the query: the parameter {name!r} comes more than once")
    return None


def hold(routes: Iterable[BaseRoute]) -> None:
    """Have each route below `/v1` refuse what it does not take."""
    for route in routes:
        if isinstance(route, APIRoute) and route.path.startswith(PREFIX):
            route.app = _CheckedQuery(route.app, parameters(route))


def words(values: Iterable[str] | None) -> frozenset[str]:
    """Values of a parameter that takes several, repeated or with commas in between."""
    return frozenset(word.strip() for value in values or () for word in value.split(",") if word.strip())


def parameters(route: APIRoute) -> dict[str, bool]:
    """Parameters of a route's query, and whether one may come several times."""
    return {field.alias: _is_list(field.field_info.annotation) for field in route.dependant.query_params}


def _is_list(annotation: Any) -> bool:
    return get_origin(annotation) is list or any(map(_is_list, get_args(annotation)))


class _CheckedQuery:
    """The application of one route, behind its query."""

    def __init__(self, app: ASGIApp, parameters: dict[str, bool]) -> None:
        self._app = app
        self._parameters = parameters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        problem = wrong(scope["query_string"], self._parameters)
        await (self._app if problem is None else problem_response(problem))(scope, receive, send)
