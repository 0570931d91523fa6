"""REST API as an ASGI application.

Only the REST API needs FastAPI, which takes 15 MB of memory together with pydantic. Therefore a gateway imports this
module at the first request to the REST API.
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
    "Tools of MCP servers for any model: lists tools in the format of a provider, runs a model's calls, and plans "
    "which tools fit a context window. Errors are problem documents (RFC 9457)."
)
_TAGS: Final = [
    {"name": "tools", "description": "Tools that may be called."},
    {"name": "servers", "description": "Servers that provide the tools."},
    {"name": "tiers", "description": "Latency tiers, with the tools that fit them."},
    {"name": "scores", "description": "Latency of tools, measured and declared."},
    {"name": "formats", "description": "Conversion of definitions between formats of providers."},
    {"name": "calls", "description": "Execution of the tool calls in a model's message."},
    {"name": "budgets", "description": "Plans of tools that fit a model's context window."},
]


def make_application(pages: PublicPages, context: RestContext) -> ASGIApp:
    """Make the ASGI application of the REST API, for requests that the guard has authenticated."""
    app = assemble(pages, context)
    return FastRoutes(app, app.routes)


def routes_of(package: ModuleType, context: RestContext) -> list[BaseRoute]:
    """Routes of all modules of a package; each module has a function `router(context)` that makes its routes.

    Routes that end with a path parameter are last, because `/tools/{name:path}` would also match `/tools/x/explain`.
    """
    modules = (import_module(f"{package.__name__}.{each.name}") for each in pkgutil.iter_modules(package.__path__))
    routes = [route for module in modules for route in module.router(context).routes]
    return sorted(routes, key=lambda route: route.path.endswith(":path}"))


def assemble(pages: PublicPages, context: RestContext) -> FastAPI:
    """Make the FastAPI application with the REST API at `/v1` and the public `pages`, described at `/openapi.json`.
    FastAPI's documentation pages are turned off, as they load scripts from other hosts. The size of bodies is limited
    by `fairlead_web.bodies`.
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
    # not `include_router`, which searches all routers twice for each request
    app.router.routes.extend(routes_of(resources, context))
    queries.check_routes(app.routes)
    openapi.describe(app)
    handle_problems(app)
    app.get(WELL_KNOWN, summary="Show the authorization servers for tokens (RFC 9728)")(pages.protected_resource)
    app.get(HEALTH, summary="Show whether the process is alive", response_model=dict[str, str])(pages.healthz)
    app.get(READY, summary="Show whether the process is ready for traffic", response_model=dict[str, str | bool])(
        pages.readyz
    )
    return app
