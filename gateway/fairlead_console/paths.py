"""Recognizes requests for the console. This module does not import the pages, so that an unused console takes no
memory.
"""

from __future__ import annotations

from typing import Final

from starlette.types import Scope

ROOT: Final = "/console/"


def is_for_console(scope: Scope) -> bool:
    """Whether a request is for the console, or is a browser's request for `/`."""
    path: str = scope["path"]
    if path == "/":
        return scope["method"] == "GET" and "text/html" in header(scope, b"accept")
    return path == ROOT[:-1] or path.startswith(ROOT)


def header(scope: Scope, name: bytes) -> str:
    """Return the values of a header, joined by `; ` as for `Cookie`. `name` is in lower case."""
    return "; ".join(value.decode("latin-1") for key, value in scope["headers"] if key == name)
