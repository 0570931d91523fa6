"""Costs of tool policies: a decision on the path of a call, and the first view of a rule set.

10,000 tools of 100 servers in one namespace, ten policies of ten rules each that are about all of them: exact names,
prefixes, globs with text in the middle and at the end, tags, annotations. The decision consists of the lookups after
the caller is identified: the rule set, the view, the tool. The first view is made as in the gateway, in slices between
which the loop runs; a call can have to wait for the longest slice. For a second rule set, the globs are already
matched.

Before that the rules arrive: the snapshot with them is compiled in a thread beside the loop, as the gateway does it.
The figure is the processor time of the whole process between two turns of the loop. It includes work of the thread that
blocks the loop, and excludes other work of the machine.
"""

from __future__ import annotations

import asyncio
import gc
import json
import random
import time
from collections.abc import Callable, Generator
from typing import Any, Final, Self

from msgspec import Raw

from fairlead_api.documents.catalog import Catalog, ToolEntry
from fairlead_api.documents.codec import Document
from fairlead_api.documents.rules import Policy, Rule, Rules, Subject, Tier
from fairlead_gateway.catalog.model import build, build_in_slices
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.endpoint.view_builds import ViewBuilds
from fairlead_gateway.heap import Heap
from fairlead_gateway.policy.selection import Selection
from fairlead_gateway.policy.view import MERGED
from fairlead_gateway.yielding import in_turns
from gatewayworld import catalog
from rig.harness import Goal, Report, Sample, Settings
from rig.processes import become_realtime
from selections import Upstreams, build_selection, select

SERVERS: Final = 100
TOOLS: Final = 100
POLICIES: Final = 10
RULES: Final = 10
VERBS: Final = ("get", "list", "find", "make", "drop", "read", "write", "send", "query", "sum")
NOUNS: Final = ("stock", "file", "issue", "page", "user", "order", "ship", "note", "mail", "row")
DECISION_US: Final = 2.0
VIEW_MS: Final = 30.0
SLICE_MS: Final = 5.0


def server(number: int, rng: random.Random) -> Catalog:
    """A server with a hundred tools, whose definitions have half a kilobyte each."""
    entries = []
    for index in range(TOOLS):
        name = f"{rng.choice(VERBS)}_{rng.choice(NOUNS)}_{index}"
        definition = {
            "name": name,
            "description": "x" * 300,
            "annotations": {"readOnlyHint": index % 2 == 0},
            "inputSchema": {"type": "object", "properties": {"q": {"type": "string"}}},
        }
        raw = Raw(json.dumps(definition).encode())
        entries.append(ToolEntry(name=name, definition=raw, hash="", search_hash="", tags=(rng.choice("abc"),)))
    return catalog(f"server{number}", "http://127.0.0.1:9/mcp", entries, trust_annotations=True)


def rule(number: int, rng: random.Random) -> Rule:
    """A rule of one of five kinds."""
    action = "Deny" if number % 4 == 0 else "Allow"
    verb, noun = rng.choice(VERBS), rng.choice(NOUNS)
    kinds: list[dict[str, Any]] = [
        {"tools": (f"{verb}_*_{number}*",)},
        {"tools": (f"{verb}_{noun}_{number}", f"read_{noun[:2]}*")},
        {"tools": (f"*{noun}_{number % 10}*",)},
        {"tools": (f"{verb}_*",), "tags": (rng.choice("abc"),)},
        {"tools": (f"*_{number}", f"g?t_*{number}"), "annotations": {"readOnlyHint": True}},
    ]
    return Rule(action=action, **kinds[number % len(kinds)])


def documents() -> tuple[dict[str, Document], Rules]:
    """Policy documents. All of them apply to the subject `one`, and every second one also to `other`."""
    rng = random.Random(20261121)
    policies = tuple(
        Policy(
            namespace="default",
            name=f"p{index}",
            every=True,
            subjects=tuple(Subject(kind="Agent", name=name) for name in ("one", "other")[: 1 + index % 2]),
            rules=tuple(rule(RULES * index + number, rng) for number in range(RULES)),
        )
        for index in range(POLICIES)
    )
    tiers = (Tier(name="fast", max_latency_ms=500, default=True), Tier(name="deep", max_latency_ms=4000))
    return {str(number): server(number, rng) for number in range(SERVERS)}, Rules(policies=policies, tiers=tiers)


def asker(name: str) -> Identity:
    """An agent with an API key, as the caller."""
    return Identity(kind="apiKey", principal=name, agent=name)


class Turns:
    """Measures by a clock how long an event loop is blocked while a piece of work runs."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.longest = 0.0
        """Longest block, in seconds."""
        self._clock = clock
        self._ticker: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._ticker = asyncio.create_task(self._ticking(), name="ticking")
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._ticker is not None
        self._ticker.cancel()
        await asyncio.wait([self._ticker])

    async def _ticking(self) -> None:
        last = self._clock()
        while True:
            await asyncio.sleep(0)
            now = self._clock()
            self.longest, last = max(self.longest, now - last), now


async def first_view(selection: Selection, who: Identity) -> tuple[float, float]:
    """Milliseconds of processor time for making the view and its bytes, and for the longest turn of the loop
    meanwhile.
    """
    async with Turns(time.thread_time) as turns:
        begun = time.thread_time()
        await ViewBuilds().wait_until_built(selection, who, MERGED)
        view = selection.seen_by(who)[MERGED]
        size = sum(map(len, view.listing))
        took = time.thread_time() - begun
        await asyncio.sleep(0)
    assert len(view.routes) > 100
    assert size > 100 * 300
    return took * 1000, turns.longest * 1000


async def arrival(servers: dict[str, Document], rules: Rules) -> tuple[Selection, float]:
    """The policy selection after new rules arrived, and milliseconds of the longest turn meanwhile."""
    upstreams = Upstreams()
    before = select(build(dict(servers)), upstreams)
    gc.collect()
    gc.freeze()

    def work() -> Generator[None, None, Selection]:
        snapshot = yield from build_in_slices({**servers, "rules": rules}, before.snapshot)
        made = yield from build_selection(snapshot, upstreams, before)
        yield from made.prepare_in_slices(before)
        return made

    async with Turns(time.process_time) as turns:
        with Heap(owner=False).pause_collection():
            selection = await in_turns(work())
    return selection, turns.longest * 1000


def decisions(selection: Selection, who: Identity, times: int) -> float:
    """Microseconds of one decision."""
    name = next(iter(selection.seen_by(who)[MERGED].routes))
    begun = time.thread_time()
    for _ in range(times):
        if selection.is_built(who, MERGED):
            selection.seen_by(who)[MERGED].routes.get(name)
    return (time.thread_time() - begun) / times * 1e6


def run(settings: Settings) -> Report:
    """Measure processor time, which other work on the machine does not change, and compare it with goals."""
    if settings.realtime:
        become_realtime()
    times = 20_000 if settings.quick else 200_000
    parts: dict[str, list[float]] = {}
    for _ in range(settings.rounds):
        selection, waited = asyncio.run(arrival(*documents()))
        parts.setdefault("the rules arrive: longest turn, ms", []).append(waited)
        gc.collect()
        gc.freeze()
        first, other = asker("one"), asker("other")
        for name, who in (("first rule set", first), ("second rule set", other)):
            took, longest = asyncio.run(first_view(selection, who))
            parts.setdefault(f"{name}: its first view, ms", []).append(took)
            parts.setdefault(f"{name}: longest turn, ms", []).append(longest)
        parts.setdefault("a decision, µs", []).append(decisions(selection, first, times))
    report = Report("policies")
    for name, sample in parts.items():
        cost = Sample.of(sample)
        report.rows.append({"part": name, "cost": cost})
        most, unit = (DECISION_US, "µs") if "decision" in name else (SLICE_MS if "turn" in name else VIEW_MS, "ms")
        report.goals.append(Goal(name, cost.median, unit, at_most=most))
    return report
