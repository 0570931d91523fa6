"""Hosts and origins for which the operator's port for metrics and probes answers."""

from __future__ import annotations

import asyncio
import socket
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import pytest

from fairlead_operator.app import Operator
from fairlead_operator.probes import serve
from fairlead_operator.telemetry import Telemetry
from prometheus import lint


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/metrics", {"Host": "evil.example"}, 421),
        ("/metrics", {"Host": "127.0.0.1:1", "Origin": "https://evil.example"}, 403),
        ("/metrics", {"Host": "10.1.2.3:9464"}, 200),
        ("/metrics", {"Host": "fairlead-operator.fairlead-system.svc:9464"}, 200),
        ("/healthz", {"Host": "evil.example"}, 200),
    ],
)
async def test_a_web_page_that_made_a_browser_ask_learns_nothing(
    path: str, headers: dict[str, str], status: int
) -> None:
    operator: Any = SimpleNamespace(telemetry=Telemetry(), controller=None)
    async with (
        serve(cast("Operator", operator), "127.0.0.1", 0) as port,
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}{path}", headers=headers) as answer,
    ):
        assert answer.status == status


async def test_the_operator_has_metrics_of_its_process_that_promtool_takes() -> None:
    operator: Any = SimpleNamespace(telemetry=Telemetry(), controller=None)
    async with (
        serve(cast("Operator", operator), "127.0.0.1", 0) as port,
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}/metrics") as answer,
    ):
        text = await answer.read()
    names = {line.split()[2] for line in text.decode().splitlines() if line.startswith("# TYPE ")}
    assert {
        "process_resident_memory_bytes",
        "process_cpu_seconds_total",
        "process_start_time_seconds",
        "python_info",
        "python_gc_collections_total",
    } <= names
    assert await asyncio.to_thread(lint, text) == ""


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this kernel has no IPv6")
async def test_every_address_answers_probes_of_ipv6_and_of_ipv4() -> None:
    operator: Any = SimpleNamespace(telemetry=Telemetry(), controller=None)
    async with serve(cast("Operator", operator), "::", 0) as port, aiohttp.ClientSession() as session:
        for host in ("127.0.0.1", "[::1]"):
            async with session.get(f"http://{host}:{port}/metrics") as answer:
                assert answer.status == 200, host
