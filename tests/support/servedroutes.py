"""Routes of the REST API, and which of them need no credential."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from starlette.routing import BaseRoute, Route

PUBLIC = {"/healthz", "/readyz", "/.well-known/oauth-protected-resource"}


def every_route(routes: Iterable[BaseRoute]) -> Iterator[Route]:
    """All routes, including those of included routers, in both ways in which FastAPI includes them."""
    for route in routes:
        if isinstance(route, Route):
            yield route
        elif (inside := getattr(route, "original_router", None)) is not None:
            yield from every_route(inside.routes)
        else:
            raise AssertionError(f"this test does not know routes like {route!r}")
