"""/healthz, /readyz and /metrics of the operator.

The operator is healthy if the process answers. It is ready if it leads and has begun to work, or if it reaches the API
server and waits for another replica of its release; otherwise a rollout of two replicas would never end. A replica that
waits for another release is not ready, because no replica of its release leads; `helm --wait` and `kubectl get pods`
show that.
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
    """The HTTP application, for the address `host` that it listens on."""
    allow = AllowList.for_operations(host)

    @web.middleware
    async def refuse_web_pages(request: web.Request, handler: Handler) -> web.StreamResponse:
        """Reject requests that a foreign web page may have sent through a browser on this machine (DNS rebinding)."""
        hosts = ", ".join(request.headers.getall("Host", ())).encode("utf-8", "surrogateescape")
        origin = request.headers.get("Origin")
        if request.path not in PROBES and not allow.allows_host(hosts or None):
            return web.Response(
                status=421, text="the name in the header Host is not allowed: use the IP address of the pod\n"
            )
        if not allow.allows_origin(None if origin is None else origin.encode("utf-8", "surrogateescape")):
            return web.Response(status=403, text="web pages may not read this port: the request has a header Origin\n")
        return await handler(request)

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        if operator.controller is not None:
            return web.Response(text="leading\n")
        if operator.lease.waiting:
            return web.Response(text="this replica waits for the Lease\n")
        if operator.watched_lease.waiting:
            return web.Response(status=503, text=f"not ready: {operator.watched_lease.explanation}\n")
        return web.Response(status=503, text="not ready: this replica does not lead and has not read the Lease yet\n")

    async def metrics(_: web.Request) -> web.Response:
        body = generate_latest(operator.telemetry.registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    application = web.Application(middlewares=[refuse_web_pages])
    application.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", metrics)])
    return application


@asynccontextmanager
async def serve(operator: Operator, host: str, port: int) -> AsyncIterator[int]:
    """Serve inside the context, which yields the port. Raises OSError if the port is in use."""
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
