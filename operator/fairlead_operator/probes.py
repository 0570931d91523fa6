"""/healthz, /readyz and /metrics of the operator. Started by `__main__`.

Healthy: the process answers. Ready: it leads and has begun to work, or it waits for its turn with an API server that it
can reach. A replica that waits for another one of its release is ready, or a rollout of two would never end. One that
waits for another release is not: nobody does its work, which `helm --wait` and `kubectl get pods` then tell.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from fairlead_mcp.addresses import EVERY_ADDRESS, AllowList
from fairlead_mcp.listening import every_address_socket
from fairlead_operator.app import Operator

PROBES: Final = frozenset({"/healthz", "/readyz"})


def routes(operator: Operator, host: str) -> web.Application:
    """The HTTP application, for an address that it is bound to."""
    allow = AllowList.for_operations(host)

    @web.middleware
    async def refuse_web_pages(request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse what a web page from elsewhere may have made a browser of this machine ask (DNS rebinding)."""
        hosts = ", ".join(request.headers.getall("Host", ())).encode("utf-8", "surrogateescape")
        origin = request.headers.get("Origin")
        if request.path not in PROBES and not allow.host(hosts or None):
            return web.Response(status=421, text="Host is not one that this port answers for\n")
        if not allow.origin(None if origin is None else origin.encode("utf-8", "surrogateescape")):
            return web.Response(status=403, text="Origin is not allowed\n")
        return await handler(request)

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        if operator.controller is not None:
            return web.Response(text="leading\n")
        if operator.lease.waiting:
            return web.Response(text="waiting for the lease\n")
        if operator.watched_lease.waiting:
            return web.Response(status=503, text=f"not ready: {operator.watched_lease.explanation}\n")
        return web.Response(status=503, text="not ready\n")

    async def metrics(_: web.Request) -> web.Response:
        body = generate_latest(operator.telemetry.registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    application = web.Application(middlewares=[refuse_web_pages])
    application.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", metrics)])
    return application


@asynccontextmanager
async def serve(operator: Operator, host: str, port: int) -> AsyncIterator[int]:
    """Serve while in the context; gives the port. Raises OSError when it is taken."""
    runner = web.AppRunner(routes(operator, host), access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = (
            web.SockSite(runner, every_address_socket(port))
            if host == EVERY_ADDRESS
            else web.TCPSite(runner, host, port)
        )
        await site.start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
