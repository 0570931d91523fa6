"""Look-ups of host names by the operator's open streams."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead_api.documents.catalog import Credential, EventsEndpoint, TcpEndpoint
from fairlead_api.meta import ServerKey
from fairlead_mcp.http.dial import Address
from fairlead_operator.discovery.connector import NetworkConnector

HOST = "demo.team.svc"
PEER = ("10.0.0.1", 8080)


@pytest.mark.parametrize(
    "endpoint", [TcpEndpoint(host=HOST, port=8080), EventsEndpoint(url=f"http://{HOST}:8080/sse")], ids=["stdio", "sse"]
)
async def test_streams_to_one_host_look_its_pods_up_together(endpoint: Any) -> None:
    queries: list[str] = []

    async def resolve(host: str, port: int) -> list[Address]:
        queries.append(host)
        return [PEER]

    connector = NetworkConnector(resolve=resolve)
    for _ in range(20):
        link = connector._process_link(ServerKey("team", "demo"), endpoint, Credential(), None, None)
        opener: Any = link._opener
        assert await opener._peers.is_current(PEER)
    assert queries == [HOST]
