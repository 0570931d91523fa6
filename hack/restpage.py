"""Writes the table of REST routes into docs/reference/rest.md, from the routes.

python hack/restpage.py [--check] FILE
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from fastapi.routing import APIRoute

from fairlead_rest import resources
from fairlead_rest.application import routes_of

MARK = "<!-- What follows is written by hack/gen. -->\n"


def rows(package: ModuleType) -> Iterator[str]:
    """A line of the table for each route, by path and verb."""
    nowhere: Any = None  # a route asks its context with its first request
    found = [route for route in routes_of(package, nowhere) if isinstance(route, APIRoute)]
    for route in sorted(found, key=lambda route: (route.path, sorted(route.methods or ()))):
        module = route.endpoint.__module__.removeprefix(f"{package.__name__}.")
        path = route.path.replace(":path}", "}")
        yield f"| `{' '.join(sorted(route.methods or ()))} {path}` | {route.summary} | `{module}` |\n"


def page(before: str) -> str:
    """The page, whose part before the mark is written by hand."""
    return f"{before}{MARK}\n| route | what it does | module |\n|---|---|---|\n{''.join(rows(resources))}"


def main() -> int:
    """Write or check; 0 fine, 1 out of date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("file", type=Path)
    options = parser.parse_args()
    held = options.file.read_text()
    text = page(held.split(MARK)[0])
    if not options.check:
        options.file.write_text(text)
    elif held != text:
        print(f"{options.file} is not as generated; run hack/gen", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
