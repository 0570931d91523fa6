"""The ASGI application behind every path that is no MCP endpoint.

Made by `app`. It reads what it is given and decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from fastapi import FastAPI, Response

from fairlead_gateway.about import VERSION


class Readiness(msgspec.Struct, frozen=True):
    """Whether this gateway should get traffic, and why not."""

    ready: bool
    reason: str
    stale: bool = False
    """The catalog is served from the last snapshot; the source is away. Ready all the same."""


def application(readiness: Callable[[], Readiness]) -> FastAPI:
    """`/healthz` answers while the process does, `/readyz` while it should get traffic."""
    app = FastAPI(title="Fairlead gateway", version=VERSION)

    @app.get("/healthz", summary="Whether the process lives")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/readyz", summary="Whether it should get traffic")
    async def readyz(response: Response) -> dict[str, str | bool]:
        state = readiness()
        response.status_code = 200 if state.ready else 503
        return {"ready": state.ready, "reason": state.reason, "stale": state.stale}

    return app
