"""The ASGI application behind every path that is no MCP endpoint.

Made by `app`. It reads what it is given and decides nothing.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Sequence
from importlib import import_module
from types import ModuleType
from typing import Final

import msgspec
from fastapi import FastAPI, Request, Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Scope

from fairlead_gateway.identity.resource import WELL_KNOWN
from fairlead_rest import openapi, queries, resources
from fairlead_rest.bodies import answer
from fairlead_rest.context import RestContext
from fairlead_rest.fast_routes import FastRoutes
from fairlead_rest.guard import ForeignApi, ForeignApis, GuardMiddleware
from fairlead_rest.problems import NOT_FOUND, Problem, handle_problems
from fairlead_tools.version import VERSION

_DESCRIPTION: Final = (
    "Tools of MCP servers for any model: definitions in a provider's form, a model's calls run and answered, and "
    "plans that fit a context window. Errors are problem documents (RFC 9457)."
)
_TAGS: Final = [
    {"name": "tools", "description": "What may be called."},
    {"name": "servers", "description": "Whose tools these are."},
    {"name": "tiers", "description": "How long an answer may take, and which tools fit."},
    {"name": "scores", "description": "How fast tools are, and whether they say so."},
    {"name": "formats", "description": "Definitions from any provider's form to any other."},
    {"name": "calls", "description": "A model's message in, the messages that answer it out."},
    {"name": "budgets", "description": "What fits a model's context window."},
]


class Readiness(msgspec.Struct, frozen=True):
    """Whether this gateway should get traffic, and why not."""

    ready: bool
    reason: str
    stale: bool = False
    """The catalog is served from the last snapshot; the source is away. Ready all the same."""


def application(api: ASGIApp, context: RestContext, *foreign: ForeignApis) -> ASGIApp:
    """The API of `routed`, and those in forms of others, behind the guard."""
    return GuardMiddleware(api, context.guard, lambda scope: _first(foreign, scope))


def _first(foreign: Sequence[ForeignApis], scope: Scope) -> ForeignApi | None:
    return next((api for find in foreign if (api := find(scope)) is not None), None)


def routed(readiness: Callable[[], Readiness], context: RestContext) -> ASGIApp:
    """The routes of `assembled`, for requests with an identity."""
    app = assembled(readiness, context)
    return FastRoutes(app, app.routes)


def routes_of(package: ModuleType, context: RestContext) -> list[BaseRoute]:
    """The routes of all modules of a package, which each make theirs by `router(context)`.

    Routes that end with a parameter for any path come last: `/tools/{name:path}` would take `/tools/x/explain`, too.
    """
    modules = (import_module(f"{package.__name__}.{each.name}") for each in pkgutil.iter_modules(package.__path__))
    routes = [route for module in modules for route in module.router(context).routes]
    return sorted(routes, key=lambda route: route.path.endswith(":path}"))


def assembled(readiness: Callable[[], Readiness], context: RestContext) -> FastAPI:
    """`/healthz` answers while the process does, `/readyz` while it should get traffic; `/v1` is the REST API,
    described at `/openapi.json`. There is no page that would load scripts from elsewhere. Bodies
    are bounded by `bodies`.
    """
    app = FastAPI(
        title="Fairlead gateway", version=VERSION, description=_DESCRIPTION, openapi_tags=_TAGS,
        docs_url=None, redoc_url=None, max_body_size=None,
    )  # fmt: skip
    # not `include_router`, which goes through every router twice for each request
    app.router.routes.extend(routes_of(resources, context))
    queries.hold(app.routes)
    openapi.describe(app)
    handle_problems(app)

    @app.get(WELL_KNOWN, summary="Whom to ask for a token (RFC 9728)")
    @app.get(WELL_KNOWN + "{path:path}", include_in_schema=False)
    async def protected_resource(request: Request, path: str = "") -> Response:
        found = context.guard.resource.metadata(path, request.headers.get("host", ""))
        if found is None:
            raise Problem(NOT_FOUND, "no tokens are issued for this gateway")
        return answer(found)

    @app.get("/healthz", summary="Whether the process lives")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/readyz", summary="Whether it should get traffic")
    async def readyz(response: Response) -> dict[str, str | bool]:
        state = readiness()
        response.status_code = 200 if state.ready else 503
        return {"ready": state.ready, "reason": state.reason, "stale": state.stale}

    return app
