"""Fast dispatch of requests whose route is determined by path and method, without parameters.

FastAPI and Starlette take 0.3 to 0.6 ms to find a route and to resolve dependencies, and block the event loop during
that time. `FastRoutes` receives the requests that `fairlead_web.guard` has authenticated, and calls the functions of
such routes directly. It passes all other requests on to FastAPI: those to routes that have path parameters or
query parameters, unknown paths and methods, and the OpenAPI document.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator

from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from fairlead_offers.problems import Problem
from fairlead_rest import queries
from fairlead_web.problem_responses import internal_error, problem_response

Endpoint = Callable[[Request], Awaitable[Response]]
log = logging.getLogger(__name__)


class FastRoutes:
    """ASGI application that calls the endpoints of plain routes directly, and passes other requests on to `app`."""

    def __init__(self, app: ASGIApp, routes: Iterable[BaseRoute]) -> None:
        self._app = app
        self._endpoints = dict(plain_endpoints(routes))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint = self._endpoints.get((scope["method"], scope["path"])) if scope["type"] == "http" else None
        if endpoint is None:
            await self._app(scope, receive, send)
            return
        try:
            # these routes have no query parameters, so `check_query` refuses every query
            problem = (
                queries.check_query(scope["query_string"], {}) if scope["path"].startswith(queries.PREFIX) else None
            )
            response = await endpoint(Request(scope, receive)) if problem is None else problem_response(problem)
        except Problem as error:
            response = problem_response(error)
        except ClientDisconnect:
            return
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            response = internal_error()
        await response(scope, receive, send)


def plain_endpoints(routes: Iterable[BaseRoute]) -> Iterator[tuple[tuple[str, str], Endpoint]]:
    """Endpoints by method and path of the routes whose only parameter is the request."""
    for route in routes:
        if isinstance(route, APIRoute) and [*inspect.signature(route.endpoint).parameters] == ["request"]:
            for method in route.methods or ():
                yield (method, route.path), route.endpoint
