"""A proxy for a real API server that a test can block at one request, to test what happens if a writer dies there.

async with ApiProxy(plane) as proxy:
    proxy.hold(lambda method, path: method == "PATCH" and path.endswith("-2"))
    ...                             # a process that uses proxy.kubeconfig
    await proxy.held.wait()         # that request came and will never be passed on
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import aiohttp
import yaml
from aiohttp import web

from controlplane import ControlPlane
from fairlead_api.meta import GROUP
from ports import free_port

DECLARED: Final = f"/apis/{GROUP}/"
"""Path of the custom resources' API group."""
_HOP: Final = {"connection", "content-length", "host", "keep-alive", "transfer-encoding"}
EXPIRED: Final = (
    b'{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
    b'"message":"too old resource version","reason":"Expired","code":410}}\n'
)
EVENTS: Final = ("ADDED", "MODIFIED", "DELETED")
Wanted = Callable[[str, str], bool]
ACCEPTING: Final = 4
"""Passes of the event loop between the acceptance of a connection and the creation of its protocol."""


class ApiProxy:
    """Plain HTTP in front of a control plane, with administrator's rights. `passed` contains the forwarded requests."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.kubeconfig = folder / "proxy.kubeconfig"
        self.held = asyncio.Event()
        self.passed: list[tuple[str, str]] = []
        self._plane = plane
        self._wanted: Wanted | None = None
        self._refused: Wanted | None = None
        self._loses: Callable[[], bool] | None = None
        self._watches: set[asyncio.Task[None]] = set()
        self._expiries = 0
        self._port = free_port()

    def hold(self, wanted: Wanted | None) -> None:
        """From now on, block each request that is `wanted` by method and path; None ends this."""
        self._wanted = wanted

    def refuse(self, wanted: Wanted | None) -> None:
        """From now on, answer each request that is `wanted` with status 500; None ends this."""
        self._refused = wanted

    def report_loss(self, loses: Callable[[], bool]) -> None:
        """From now on, drop each event of a custom resource for which `loses` returns True. Bookmarks are forwarded."""
        self._loses = loses

    @property
    def watch_count(self) -> int:
        """Number of open watches of custom resources."""
        return sum(watch.get_name().startswith(DECLARED) for watch in self._watches)

    def expire(self, expiries: int) -> None:
        """Break every watch, and answer the next `expiries` watches with 410: their resource version is too old."""
        self._expiries = expiries
        for watch in self._watches:
            watch.cancel()

    async def __aenter__(self) -> Self:
        tls = ssl.create_default_context(cafile=str(self._plane.folder / "pki/ca.crt"))
        tls.load_cert_chain(self._plane.folder / "pki/user-admin.crt", self._plane.folder / "pki/user-admin.key")
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=tls, limit=0),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
        )
        await self.appear()
        self.kubeconfig.write_text(yaml.safe_dump(_plain_config(f"http://127.0.0.1:{self._port}")))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.vanish()
        await self._session.close()

    async def appear(self) -> None:
        """Listen (again) on the same port as before."""
        app = web.Application(client_max_size=16 << 20)
        app.router.add_route("*", "/{path:.*}", self._pass_on)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        self._listener = socket.create_server(("127.0.0.1", self._port))
        await web.SockSite(self._runner, self._listener).start()

    async def vanish(self) -> None:
        """Break every connection and stop listening, like an API server that is down."""
        if self._listener.fileno() >= 0:
            # when asyncio's server is closed in the same pass in which it accepts a connection, it leaves this
            # connection open
            asyncio.get_running_loop().remove_reader(self._listener)
            for _ in range(ACCEPTING):
                await asyncio.sleep(0)
        await self._runner.cleanup()

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        if self._wanted is not None and self._wanted(request.method, request.path):
            self.held.set()
            await asyncio.Event().wait()
        if self._refused is not None and self._refused(request.method, request.path):
            return web.Response(status=500)
        self.passed.append((request.method, request.path))
        watches = "watch" in request.query
        if watches and self._expiries > 0:
            self._expiries -= 1
            return web.Response(body=EXPIRED, content_type="application/json")
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP}
        url = f"{self._plane.server}{request.path_qs}"
        async with self._session.request(request.method, url, data=body or None, headers=headers) as answer:
            passed_headers = {name: value for name, value in answer.headers.items() if name.lower() not in _HOP}
            response = web.StreamResponse(status=answer.status, headers=passed_headers)
            loses = self._loses if watches and request.path.startswith(DECLARED) else None
            chunks = answer.content.iter_any() if loses is None else _without_lost(answer.content.iter_any(), loses)
            passing = asyncio.create_task(_pass_back(request, chunks, response), name=request.path)
            if watches:
                self._watches.add(passing)
                passing.add_done_callback(self._watches.discard)
            try:
                await asyncio.wait([passing])
            finally:
                passing.cancel()
            if passing.cancelled() and request.transport is not None:
                request.transport.abort()
            return response


async def _pass_back(request: web.Request, chunks: AsyncIterator[bytes], response: web.StreamResponse) -> None:
    with contextlib.suppress(ConnectionError):  # the client has disconnected
        await response.prepare(request)
        async for chunk in chunks:
            await response.write(chunk)
        await response.write_eof()


async def _without_lost(chunks: AsyncIterator[bytes], loses: Callable[[], bool]) -> AsyncIterator[bytes]:
    """The lines of a watch, one per event, without each event of an object for which `loses` returns True."""
    rest = b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if json.loads(line)["type"] not in EVENTS or not loses():
                yield line + b"\n"


def _plain_config(server: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "proxy", "cluster": {"server": server}}],
        "users": [{"name": "proxy", "user": {}}],
        "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}],
        "current-context": "proxy",
    }
