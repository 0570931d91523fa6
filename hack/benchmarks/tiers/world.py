"""World of a live trace: tools behind real HTTP servers, and Fairlead in front of them as it ships.

Where measurements count, that is `fairlead up` in a process of its own, which discovers the servers, probes their tools
and decides; its configuration are the manifests that a person would write. Where they do not, a gateway in this process
serves what the tools declare, and no operator asks it for anything.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from fairlead_api.documents.catalog import DeclaredLatency
from fairlead_api.documents.rules import Rules, Tier
from gatewayworld import MODERN, catalog, entry, running
from rawserver import Reply, Request, raw_server
from tiers.replay import FAST, MAX_DURATION_MS, Policy
from tiers.traces import Draw, Subject
from toolservers import answer_modern
from upprocess import fairlead_up

Clock = Callable[[], float]


@dataclass(frozen=True)
class Served:
    """Where the agent finds the tools."""

    port: int


class Tools:
    """A server. Each call of the agent names its index in the trace, which determines its duration. Probes name none;
    their duration is drawn at random for that moment.
    """

    def __init__(self, subjects: Sequence[Subject], draws: Sequence[Draw], clock: Clock) -> None:
        """`clock` returns the seconds since the beginning of the trace."""
        self._durations = {subject.name: subject.duration for subject in subjects}
        self._draws = draws
        self._clock = clock
        self._rng = random.Random("probes")
        self._definitions = [definition(subject) for subject in subjects]
        self.probes = 0

    async def __call__(self, request: Request, reply: Reply) -> None:
        """Answer after the duration in the trace, or not at all."""
        if request.method == "tools/call":
            number = request.params.get("arguments", {}).get("n")
            ms, answered = self._durations[request.params["name"]].draw(*self._chance(number))
            self.probes += number is None
            await asyncio.sleep(ms / 1000 if answered else MAX_DURATION_MS)
        answer_modern(request, reply, self._definitions)

    def _chance(self, number: int | None) -> tuple[float, float, float]:
        if number is None:
            return self._clock(), self._rng.gauss(0, 1), self._rng.random()
        draw = self._draws[number]
        return draw.at, draw.spread, draw.side


def definition(subject: Subject) -> dict[str, Any]:
    """The definition as the tool's author writes it."""
    return {
        "name": subject.name,
        "inputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": True},
        "_meta": {"estimated_duration_ms": subject.declared_ms, "max_duration_ms": MAX_DURATION_MS},
    }


@contextlib.asynccontextmanager
async def served(
    folder: Path, subjects: Sequence[Subject], draws: Sequence[Draw], policy: Policy, clock: Clock
) -> AsyncIterator[Served]:
    """Run the misbehaving tools on one server, the others on another, and Fairlead in front of them."""
    async with contextlib.AsyncExitStack() as stack:
        urls = {}
        for server, misbehaves in (("ill", True), ("well", False)):
            tools = [subject for subject in subjects if subject.misbehaves is misbehaves]
            raw = await stack.enter_async_context(raw_server(Tools(tools, draws, clock)))
            urls[server] = (raw.url, tools)
        if policy.quantile is not None:
            (folder / "all.yaml").write_text(_manifests(urls, policy))
            up = await stack.enter_async_context(fairlead_up(folder / "all.yaml", cwd=folder))
            drain = asyncio.create_task(_read(up.process.stdout), name="events of fairlead up")
            stack.callback(drain.cancel)
            yield Served(urlsplit(up.url).port or 80)
            return
        catalogs = [
            catalog(name, url, [_entry(tool) for tool in tools], version=MODERN) for name, (url, tools) in urls.items()
        ]
        tiers = policy.tiers() if policy.declared else (Tier(name=FAST, default=True),)
        gateway = await stack.enter_async_context(running(folder, *catalogs, Rules(tiers=tiers)))
        yield Served(gateway.port)


async def _read(stream: asyncio.StreamReader | None) -> None:
    """Read and drop the events: a full pipe would block the process."""
    while stream is not None and await stream.read(1 << 16):
        pass


def _entry(subject: Subject) -> Any:
    latency = DeclaredLatency(estimated_duration_ms=subject.declared_ms, max_duration_ms=MAX_DURATION_MS)
    return entry(definition(subject), latency=latency)


def _manifests(servers: dict[str, tuple[str, list[Subject]]], policy: Policy) -> str:
    documents = []
    for name, (url, tools) in servers.items():
        declared = [{"name": tool.name, "probe": {"arguments": {}}} for tool in tools] if policy.probed else []
        documents.append(_manifest("McpServer", name, {"url": url, "tools": declared}))
    documents += [
        _manifest(
            "LatencyTier",
            tier.name,
            {"maxLatency": f"{tier.max_latency_ms}ms", "quantile": tier.quantile, "default": tier.default},
        )
        for tier in policy.tiers()
    ]
    return "---\n".join(f"{json.dumps(document)}\n" for document in documents)


def _manifest(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "fairlead.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


STARTUP_S: Final = 60.0
"""Maximum seconds until all tools are listed, on a busy machine."""
