"""Two replicas behind one address, which share sign-ins in Redis: one is killed while a client signs in."""

from __future__ import annotations

import base64
import contextlib
from pathlib import Path

from balancer import balancer
from dexworld import LOGIN, STAFF_ALONE, dex_for
from gatewayprocess import Process, started
from gatewayworld import catalog, publish
from redisserver import redis_server
from signedinclients import SdkClient

KEY = base64.b64encode(bytes(32)).decode()


async def test_client_signs_in_although_a_replica_is_killed_before_it_has_its_token(tmp_path: Path) -> None:
    publish(tmp_path / "documents", catalog("shop", "http://127.0.0.1:9/mcp", ["buy"]), STAFF_ALONE)
    async with contextlib.AsyncExitStack() as stack:
        front = await stack.enter_async_context(balancer())
        base = f"http://127.0.0.1:{front.port}"
        registration = {"redirectHosts": ["localhost"]}
        _, identity = await stack.enter_async_context(dex_for(tmp_path, base, registration=registration))
        redis = await stack.enter_async_context(redis_server(tmp_path))

        async def replica() -> Process:
            process = await stack.enter_async_context(
                started(
                    FAIRLEAD_DOCUMENTS=str(tmp_path / "documents"),
                    FAIRLEAD_IDENTITY=str(identity),
                    FAIRLEAD_PUBLIC_URL=base,
                    FAIRLEAD_SESSION_KEY=KEY,
                    FAIRLEAD_GRANTS="redis",
                    FAIRLEAD_GRANT_KEYS=f"one:{KEY}",
                    FAIRLEAD_REDIS=redis.url,
                )
            )
            process.port = int((await process.line(r"MCP on http://127\.0\.0\.1:(\d+)/mcp"))[1])
            return process

        first, second = await replica(), await replica()
        front.ports = [first.port, second.port]

        async def kill() -> None:
            first.process.kill()
            await first.process.wait()
            front.ports = [second.port]

        client = SdkClient(f"{base}/mcp", LOGIN, answered=kill)
        assert await client.tools() == ["shop__buy"]
        third = await replica()
        front.ports = [second.port, third.port]
        seen = len(client.pages)
        for _ in range(3):
            client.expire()
            assert await client.tools() == ["shop__buy"]
        assert len(client.pages) == seen
