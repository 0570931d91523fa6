"""An HTTP API whose operations need different security schemes, and its OpenAPI document.

async with schemed_api() as server:
    ... document_of(server), CREDENTIALS, sent_to(server, "/both") ...
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any, Final

from rawserver import RawServer, Reply, Request, raw_server

SCHEMES: Final = {
    "application": {"type": "apiKey", "in": "query", "name": "app_key"},
    "browser": {"type": "apiKey", "in": "cookie", "name": "sid"},
    "partner": {"type": "apiKey", "in": "header", "name": "X-Partner"},
    "staff": {"type": "http", "scheme": "bearer"},
}
VALUES: Final = {name: f"hush of {name}".replace(" ", "-") for name in SCHEMES}
"""Values of the Secret `api` by key."""
CREDENTIALS: Final[dict[str, Any]] = {
    "application": {"query": {"name": "app_key", "secretRef": {"name": "api", "key": "application"}}},
    "browser": {"cookie": {"name": "sid", "secretRef": {"name": "api", "key": "browser"}}},
    "partner": {"header": {"name": "X-Partner", "secretRef": {"name": "api", "key": "partner"}}},
    "staff": {"bearer": {"secretRef": {"name": "api", "key": "staff"}}},
}
"""`spec.openapi.credentials`."""
_OPERATIONS: Final[dict[str, list[dict[str, list[str]]]]] = {
    "both": [{"application": [], "staff": []}],
    "either": [{"unknown": []}, {"browser": [], "partner": []}],
    "open": [],
}


def document_of(server: RawServer) -> dict[str, Any]:
    """The document, with the address of the running API."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "Schemes", "version": "1"},
        "servers": [{"url": base_url(server)}],
        "components": {"securitySchemes": SCHEMES},
        "paths": {
            f"/{name}": {"get": {"operationId": name, "security": security, "responses": {"200": {"description": ""}}}}
            for name, security in _OPERATIONS.items()
        },
    }


def base_url(server: RawServer) -> str:
    return f"http://127.0.0.1:{server.port}"


@contextlib.asynccontextmanager
async def schemed_api() -> AsyncIterator[RawServer]:
    """The API, which accepts any request. `seen` contains the requests."""

    async def handle(request: Request, reply: Reply) -> None:
        reply.send(200, b"{}")

    async with raw_server(handle) as server:
        yield server


def credentials_sent_to(server: RawServer, name: str) -> dict[str, str]:
    """Credentials by scheme in the last request of an operation."""
    request = [each for each in server.seen if each.path.startswith(f"/{name}")][-1]
    query, cookie = request.path.partition("app_key=")[2], request.headers.get("cookie", "").partition("sid=")[2]
    parts = {
        "application": query,
        "browser": cookie,
        "partner": request.headers.get("x-partner", ""),
        "staff": request.headers.get("authorization", "").removeprefix("Bearer "),
    }
    return {scheme: value for scheme, value in parts.items() if value}
