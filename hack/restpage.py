"""Writes the table of REST routes into docs/reference/rest.md, from the routes.

python hack/restpage.py [--check] FILE
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

from fastapi.routing import APIRoute

from fairlead_rest import resources
from fairlead_rest.application import routes_of
from generatedpage import run

MARK = "<!-- What follows is written by hack/gen. -->\n"


def rows(package: ModuleType) -> Iterator[str]:
    """A row of the table for each route, by path and method."""
    nowhere: Any = SimpleNamespace(services=None)  # route classes read their context only during requests
    api_routes = [route for route in routes_of(package, nowhere) if isinstance(route, APIRoute)]
    for route in sorted(api_routes, key=lambda route: (route.path, sorted(route.methods or ()))):
        module = route.endpoint.__module__.removeprefix(f"{package.__name__}.")
        path = route.path.replace(":path}", "}")
        yield f"| `{' '.join(sorted(route.methods or ()))} {path}` | {route.summary} | `{module}` |\n"


def page(before: str) -> str:
    """The page; the part before the mark is written by hand."""
    return f"{before}{MARK}\n| route | what it does | module |\n|---|---|---|\n{''.join(rows(resources))}"


if __name__ == "__main__":
    sys.exit(run(lambda there: page(there.split(MARK)[0])))
