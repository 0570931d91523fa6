"""Latency fields in `_meta` of lists: present only if the installation enables them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fairlead_api.documents.catalog import DeclaredLatency
from fairlead_api.documents.rules import Rules, Tier
from fairlead_api.documents.state import Quantiles, ServerState, State, ToolState
from fairlead_app.gateway import Gateway
from gatewayworld import ask, catalog, entry, modern, publish, running, wait_for_snapshots
from restworld import get

TIERS = Rules(tiers=(Tier(name="fast", max_latency_ms=500, default=True),))
RAW = b'{"name":"knot", "x-unknown": 1e2,"inputSchema":{"type" : "object"},"_meta":{"theirs":[1, 2]}}'
SHOP = catalog(
    "shop",
    "http://127.0.0.1:9/mcp",
    [entry(RAW, latency=DeclaredLatency(estimated_duration_ms=40, max_duration_ms=900, cacheable_seconds=0))],
)


def state(p50: float, p99: float) -> State:
    figures = Quantiles(p50_ms=p50, p90_ms=p99, p95_ms=p99, p99_ms=p99, samples=100)
    tool = ToolState(name="knot", quantiles=figures, tiers=("fast",))
    return State(servers=(ServerState(namespace="default", name="shop", tools=(tool,)),))


async def list_body(gateway: Gateway, target: str = "/mcp") -> bytes:
    return (await ask(gateway, modern("tools/list").to(target))).body


def definition(body: bytes) -> Any:
    (only,) = json.loads(body)["result"]["tools"]
    return only


async def test_without_being_asked_for_measurements_change_no_byte_of_a_list(tmp_path: Path) -> None:
    async with running(tmp_path, SHOP, TIERS) as gateway:
        before = await list_body(gateway), await list_body(gateway, "/servers/default/shop/mcp")
        publish(tmp_path / "documents", state(12.0, 31.0))
        await wait_for_snapshots(gateway, 2)
        assert (await list_body(gateway), await list_body(gateway, "/servers/default/shop/mcp")) == before
        assert RAW in before[1], "byte for byte"


@pytest.mark.parametrize("target", ["/mcp", "/mcp/fast", "/servers/default/shop/mcp"])
async def test_latency_fields_are_in_meta_where_the_installation_asks_and_the_rest_of_the_definition_as_it_was(
    tmp_path: Path, target: str
) -> None:
    async with running(tmp_path, SHOP, TIERS, state(12.3, 31.0), meta_latency=True) as gateway:
        body = await list_body(gateway, target)
        described = definition(body)
        rest = (await get(gateway, "/v1/tools")).message["tools"][0]
    meta = described["_meta"]
    assert meta == {
        "theirs": [1, 2],
        "fairlead.dev/estimated_duration_ms": 40,
        "fairlead.dev/max_duration_ms": 900,
        "fairlead.dev/measured_duration_ms": 12,
        "fairlead.dev/measured_p99_ms": 31,
        "fairlead.dev/idempotent": False,
        "fairlead.dev/cacheable_seconds": 0,
    }
    shown = {f"fairlead.dev/{name}": value for name, value in rest["latency"].items() if name != "measured_at"}
    assert shown == {key: value for key, value in meta.items() if key != "theirs"}
    assert b'"x-unknown":1e2,"inputSchema":{"type" : "object"},"_meta":{"theirs":[1, 2],' in body
    assert "fairlead.dev/idempotent" not in json.dumps(rest["definition"])


async def test_a_measured_figure_in_meta_follows_the_latest_state_and_is_left_out_while_unknown(tmp_path: Path) -> None:
    async with running(tmp_path, SHOP, TIERS, meta_latency=True) as gateway:
        assert "fairlead.dev/measured_p99_ms" not in definition(await list_body(gateway))["_meta"]
        publish(tmp_path / "documents", state(12.0, 31.0))
        await wait_for_snapshots(gateway, 2)
        assert definition(await list_body(gateway))["_meta"]["fairlead.dev/measured_p99_ms"] == 31
