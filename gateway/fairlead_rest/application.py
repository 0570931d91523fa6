"""The REST API as an ASGI application. It reads what it is given and decides nothing.

It is the part that needs FastAPI, which with pydantic takes 15 MB: a gateway imports it with the first request for it.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module
from types import ModuleType
from typing import Final

from fastapi import FastAPI
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from fairlead_gateway.identity.resource import WELL_KNOWN
from fairlead_rest import openapi, queries, resources
from fairlead_rest.context import RestContext
from fairlead_rest.fast_routes import FastRoutes
from fairlead_rest.problem_handlers import handle_problems
from fairlead_tools.version import VERSION
from fairlead_web.guard import HEALTH, READY, PublicPages

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


def routed(pages: PublicPages, context: RestContext) -> ASGIApp:
    """The routes of `assembled`, for requests with an identity."""
    app = assemble(pages, context)
    return FastRoutes(app, app.routes)


def routes_of(package: ModuleType, context: RestContext) -> list[BaseRoute]:
    """The routes of all modules of a package, which each make theirs by `router(context)`.

    Routes that end with a parameter for any path come last: `/tools/{name:path}` would take `/tools/x/explain`, too.
    """
    modules = (import_module(f"{package.__name__}.{each.name}") for each in pkgutil.iter_modules(package.__path__))
    routes = [route for module in modules for route in module.router(context).routes]
    return sorted(routes, key=lambda route: route.path.endswith(":path}"))


def assemble(pages: PublicPages, context: RestContext) -> FastAPI:
    """`/v1` is the REST API, described at `/openapi.json` together with `pages`. There is no page that would load
    scripts from elsewhere. Bodies are bounded by `bodies`.
    """
    app = FastAPI(
        title="Fairlead gateway",
        version=VERSION,
        description=_DESCRIPTION,
        openapi_tags=_TAGS,
        docs_url=None,
        redoc_url=None,
        max_body_size=None,
    )
    # not `include_router`, which goes through every router twice for each request
    app.router.routes.extend(routes_of(resources, context))
    queries.hold(app.routes)
    openapi.describe(app)
    handle_problems(app)
    app.get(WELL_KNOWN, summary="Whom to ask for a token (RFC 9728)")(pages.protected_resource)
    app.get(HEALTH, summary="Whether the process lives", response_model=dict[str, str])(pages.healthz)
    app.get(READY, summary="Whether it should get traffic", response_model=dict[str, str | bool])(pages.readyz)
    return app
