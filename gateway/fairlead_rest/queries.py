"""Strict check of query parameters: unknown and repeated parameters are refused, like unknown members of a body.

The check applies to all routes below `/v1`: `application` adds it to FastAPI's routes, and `fast_routes` calls
`check_query` itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final, get_args, get_origin
from urllib.parse import parse_qsl

from fastapi.routing import APIRoute
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from fairlead_formats.names import suggest_name
from fairlead_offers.problems import INVALID_ARGUMENTS, Problem
from fairlead_web.problem_responses import problem_response

PREFIX: Final = "/v1/"
MAX_SHOWN_NAME: Final = 64
"""Maximum characters of an unknown name that a message shows."""


def check_query(query: bytes, parameters: dict[str, bool]) -> Problem | None:
    """Check a query. Returns a problem, or None for a valid query. `parameters` says for each allowed parameter whether
    it may be repeated.
    """
    if not query:
        return None
    counts = Counter(name for name, _ in parse_qsl(query.decode("latin-1"), keep_blank_values=True))
    for name, times in counts.items():
        if name not in parameters:
            similar_name = suggest_name(name, parameters)
            hint = "" if similar_name is None else f". Did you mean {similar_name}?"
            detail = f"unknown query parameter {name[:MAX_SHOWN_NAME]!r}{hint}"
            return Problem(INVALID_ARGUMENTS, detail, did_you_mean=similar_name, existing=tuple(sorted(parameters)))
        if times > 1 and not parameters[name]:
            return Problem(INVALID_ARGUMENTS, f"the query parameter {name!r} may not be repeated")
    return None


def check_routes(routes: Iterable[BaseRoute]) -> None:
    """Add the check of query parameters to all routes below `/v1`."""
    for route in routes:
        if isinstance(route, APIRoute) and route.path.startswith(PREFIX):
            route.app = _CheckedQuery(route.app, parameters(route))


def words(values: Iterable[str] | None) -> frozenset[str]:
    """All values of a query parameter that may be repeated or contain a comma-separated list."""
    return frozenset(word.strip() for value in values or () for word in value.split(",") if word.strip())


def parameters(route: APIRoute) -> dict[str, bool]:
    """Query parameters of a route, and whether each may be repeated."""
    return {field.alias: _is_list(field.field_info.annotation) for field in route.dependant.query_params}


def _is_list(annotation: Any) -> bool:
    return get_origin(annotation) is list or any(map(_is_list, get_args(annotation)))


class _CheckedQuery:
    """ASGI application of one route that checks the query first."""

    def __init__(self, app: ASGIApp, parameters: dict[str, bool]) -> None:
        self._app = app
        self._parameters = parameters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        problem = check_query(scope["query_string"], self._parameters)
        await (self._app if problem is None else problem_response(problem))(scope, receive, send)
