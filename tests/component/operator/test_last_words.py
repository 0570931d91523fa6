"""The last output of a stdio server that ends at each start, read from the container log by the API server."""

from __future__ import annotations

import base64
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from certificates import Authority
from gated_stdio_server import gated
from operatorworld import World, running

PASSWORD = "swordfish-of-the-database"
ENV = [{"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "database", "key": "password"}}}]
SPEC: dict[str, Any] = {
    "image": {"name": "registry.example/demo:1", "transport": "stdio", "command": ["demo"], "port": 9000},
    "env": ENV,
}
LOG = f"starting\nTraceback (most recent call last):\nRuntimeError: no database for {PASSWORD} at db:5432\n"


@asynccontextmanager
async def kubelet(world: World, node: str, log: str, folder: Path) -> AsyncIterator[list[str]]:
    """A node whose kubelet returns this log for each container. Yields the queries for logs."""
    queries: list[str] = []

    async def logs(request: web.Request) -> web.Response:
        queries.append(request.path_qs)
        return web.Response(text=log)

    application = web.Application()
    application.add_routes([web.get("/containerLogs/{namespace}/{pod}/{container}", logs)])
    runner = web.AppRunner(application, shutdown_timeout=1.0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=Authority().server_context(folder))
    await site.start()
    code, answer = world.request("POST", "/api/v1/nodes", {"metadata": {"name": node}})
    assert code == 201, answer
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": runner.addresses[0][1]}},
    }
    merge = "application/merge-patch+json"
    code, answer = world.request("PATCH", f"/api/v1/nodes/{node}/status", {"status": status}, content_type=merge)
    assert code == 200, answer
    try:
        yield queries
    finally:
        world.request("DELETE", f"/api/v1/nodes/{node}")
        await runner.cleanup()


async def test_a_stdio_server_that_ends_at_once_is_told_with_its_last_words_and_without_its_secrets(
    world: World, tmp_path: Path
) -> None:
    data = {"password": base64.b64encode(PASSWORD.encode()).decode()}
    labelled = {"name": "database", "labels": {"fairlead.dev/credential": "true"}}
    world.request("POST", world.path("secrets"), {"metadata": labelled, "data": data})
    async with kubelet(world, f"node-of-{world.namespace}", LOG, tmp_path) as queries, running(world, pod_logs=True):
        world.create("demo", SPEC)
        await world.until("a Deployment", lambda: world.get(world.path("deployments", "demo")))
        deployment = world.get(world.path("deployments", "demo"))
        assert deployment is not None
        template = deployment["spec"]["template"]
        pod = {
            "metadata": {"name": "demo-1", "labels": template["metadata"]["labels"]},
            "spec": {**template["spec"], "nodeName": f"node-of-{world.namespace}"},
        }
        code, answer = world.request("POST", world.path("pods"), pod)
        assert code == 201, answer
        (token,) = world.tokens()
        async with gated(sys.executable, "-c", "raise SystemExit(1)", token=token) as server:
            world.hosts.ports[f"demo.{world.namespace}.svc"] = server.port
            world.pods_are("demo", 1)
            await world.until("StartFailed", lambda: world.is_("demo", "Ready", "False", "StartFailed"), seconds=30)
        message = world.condition("demo", "Verified")["message"]
    assert "last line in the server's log: RuntimeError: no database for [credential] at db:5432" in message
    assert PASSWORD not in str(world.server("demo")["status"])
    assert all(f"/containerLogs/{world.namespace}/demo-1/server?" in query for query in queries)
    assert all("limitBytes=16384" in query and "tailLines=100" in query for query in queries)
