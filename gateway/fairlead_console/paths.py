"""Which requests are the console's. Loads no pages: a gateway whose console nobody opens does without them."""

from __future__ import annotations

from typing import Final

from starlette.types import Scope

ROOT: Final = "/console/"


def is_for_console(scope: Scope) -> bool:
    """Whether a request is for the console, or one for `/` by a browser."""
    path: str = scope["path"]
    if path == "/":
        return scope["method"] == "GET" and "text/html" in header(scope, b"accept")
    return path == ROOT[:-1] or path.startswith(ROOT)


def header(scope: Scope, name: bytes) -> str:
    """Values of the header with this name, which is in lower case, joined as those of `Cookie` are."""
    return "; ".join(value.decode("latin-1") for key, value in scope["headers"] if key == name)
