"""Plays the session of `playscript` over an engine, through a gateway, and records a trace.

trace = await play(engine, world)
check(trace)
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from playengines import PlayEngine, PlayTalk, Table
from playscript import STEPS, Step, turns
from playworld import PlayWorld
from voicetables import flat
from waiting import until_async

SECONDS: Final = 60.0
"""Timeout of one step."""
WORD_BYTES: Final = 1920
"""Bytes of audio for a word of a scripted model."""
ANSWERED = "answered"
REFUSED = "refused"
CANCELLED = "cancelled"


@dataclass(frozen=True)
class PlayedCall:
    """One call of the model. Times are seconds since the session began."""

    step: str
    name: str
    began: float
    ended: float
    outcome: str
    text: str
    """Result that the model received; empty if there was none."""
    shown: bool
    """Whether the model had received the tool."""


@dataclass
class PlayTrace:
    """Record of a session: speech, shown tools and calls. Times are seconds since it began."""

    engine: str
    steps: list[tuple[float, str]] = field(default_factory=list)
    shown: list[tuple[float, str, frozenset[str]]] = field(default_factory=list)
    """Each time at which the model received functions, with the tier that has exactly these functions (empty without
    such a tier) and the functions.
    """
    waited: dict[str, float] = field(default_factory=dict)
    """Seconds that a step waited for its tier's tools after they were requested."""
    calls: list[PlayedCall] = field(default_factory=list)
    images: list[tuple[str, str]] = field(default_factory=list)
    images_drawn: int | None = None
    """Number of generated images; None if they are not counted."""
    transcript: str = ""
    scripted: str = ""
    """All text that the script lets the model say."""
    spoken_bytes: tuple[int, int] = (0, 0)
    heard_bytes: int = 0
    ended: float = 0.0

    @property
    def tiers(self) -> list[str]:
        """Tiers in order."""
        names: list[str] = []
        for _, tier, _ in self.shown:
            if not names or names[-1] != tier:
                names.append(tier)
        return names


def cancellable(world: PlayWorld) -> list[Step]:
    """Steps that a world can play: without endpoints, no call lasts long enough to be interrupted."""
    return [step for step in STEPS if step.end != "cancelled" or world.endpoints is not None]


async def play(engine: PlayEngine, world: PlayWorld) -> PlayTrace:
    """Play all steps. Fails if one takes too long, or if the model receives other tools than the tier's."""
    drawn_before = world.endpoints.images_drawn if world.endpoints else 0
    steps = cancellable(world)
    trace = PlayTrace(engine.name)
    at: dict[str, str] = {}
    async with engine.talk(world.base, world.keys[engine.agent]) as talk:
        began = time.monotonic()
        player = _Player(engine, talk, world, trace, began)
        for step in steps:
            at |= dict.fromkeys((call.id for call in step.calls), step.name)
            async with asyncio.timeout(SECONDS):
                await player.step(step)
        trace.ended = time.monotonic() - began
        _tell(trace, talk, engine.table, at, began)
    trace.images_drawn = None if world.endpoints is None else world.endpoints.images_drawn - drawn_before
    return trace


class _Player:
    def __init__(self, engine: PlayEngine, talk: PlayTalk, world: PlayWorld, trace: PlayTrace, began: float) -> None:
        self._engine = engine
        self._talk = talk
        self._world = world
        self._trace = trace
        self._began = began

    async def step(self, step: Step) -> None:
        """Speak the step's words, and wait for the end of the step."""
        await self._turns(step)
        if self._engine.asked_with_tools:
            assert {*self._talk.provider_tools} == flat(self._engine.table, step.tier), step.name

    async def _turns(self, step: Step) -> None:
        engine = self._engine
        talk = self._talk
        self._trace.steps.append((time.monotonic() - self._began, step.name))
        if step.wish:
            await talk.wish(step.wish)
            await self._wait_for_tools(step)
        for turn in turns(step, late=not engine.hears_first):
            await talk.begin(turn.spoken)
            if engine.hears_first and engine.hears_partials:
                await self._wait_for_tools(step)
            await talk.finish()
            if engine.hears_first and not engine.hears_partials:
                await self._wait_for_tools(step)
            await talk.ask()
            if step.end == "cancelled":
                assert self._world.endpoints is not None
                await self._world.endpoints.held.wait()
                self._world.endpoints.held.clear()
                return
            wanted = turn.answer.split()[0] if step.end == "interrupted" else turn.answer
            self._trace.scripted += f"{wanted} "
            await self._until(
                lambda: talk.transcript() == self._trace.scripted and (talk.over or step.end == "interrupted")
            )
            if not engine.hears_first and step.end == "answered":
                await self._wait_for_tools(step)  # at the end of the turn

    async def _wait_for_tools(self, step: Step) -> None:
        """Wait for the tools of a step, if the model gets them before its request."""
        if self._engine.asked_with_tools:
            return
        began = time.monotonic()
        expected = flat(self._engine.table, step.tier)
        await self._until(lambda: {*self._talk.provider_tools} == expected)
        took = max(self._talk.tool_changes()[-1][0] - began, self._trace.waited.get(step.name, 0.0))
        self._trace.waited[step.name] = took

    async def _until(self, so: Callable[[], bool]) -> None:
        async def look() -> bool:
            return so()

        await until_async("the next thing of the session", look, seconds=SECONDS)


def _tell(trace: PlayTrace, talk: PlayTalk, table: Table, at: dict[str, str], began: float) -> None:
    """Add the session's results to the trace."""
    tiers = {frozenset(flat(table, tier)): tier for tier in table}
    shown = talk.tool_changes()
    trace.shown = [(max(when - began, 0.0), tiers.get(tools, ""), tools) for when, tools in shown]
    results = talk.results()
    for ident, call in talk.calls_by_id().items():
        when, text = results.get(ident, (0.0, ""))
        had = [tools for shown_at, tools in shown if shown_at <= call.at]
        outcome = CANCELLED if not text or "cancelled" in text else REFUSED if "nknown tool" in text else ANSWERED
        ended = when if when else _interruption_time(trace, at[ident], began)
        trace.calls.append(
            PlayedCall(
                at[ident], call.name, call.at - began, ended - began, outcome, text, bool(had) and call.name in had[-1]
            )
        )
    trace.images = talk.images()
    trace.transcript = talk.transcript()
    trace.heard_bytes = talk.heard_bytes
    trace.spoken_bytes = talk.spoken_bytes


def _interruption_time(trace: PlayTrace, step: str, began: float) -> float:
    """Beginning of the step after this one: the provider sends nothing more about a call that it cancelled."""
    names = [name for _, name in trace.steps]
    return trace.steps[names.index(step) + 1][0] + began


def check(trace: PlayTrace, steps: Sequence[Step]) -> None:
    """Raise AssertionError if a session differs from the script."""
    assert all(tier for _, tier, _ in trace.shown), "the tools of some tier, at any time"
    by_step: dict[str, list[PlayedCall]] = {}
    for call in trace.calls:
        by_step.setdefault(call.step, []).append(call)
    for step in steps:
        outcome = REFUSED if step.refused else CANCELLED if step.end == "cancelled" else ANSWERED
        outcomes = [(call.name, call.outcome) for call in by_step.get(step.name, [])]
        assert outcomes == [(call.name, outcome) for call in step.calls], (trace.engine, step.name, outcomes)
        assert all(call.shown is not step.refused for call in by_step.get(step.name, [])), (trace.engine, step.name)
    assert {call.name.partition("__")[0] for call in trace.calls if call.outcome == ANSWERED} == {*_servers(steps)}
    assert trace.images == [("call_draw", "image/png")]
    assert trace.images_drawn in (None, 1), "what was refused made no picture"
    assert trace.transcript == trace.scripted, "nothing is said twice, and nothing is lost"
    words = trace.transcript.split()
    assert trace.heard_bytes == WORD_BYTES * len(words), "a piece of audio for each word"
    assert trace.spoken_bytes[0] == trace.spoken_bytes[1], "all that the user said was heard, once"


def _servers(steps: Sequence[Step]) -> set[str]:
    return {call.name.partition("__")[0] for step in steps for call in step.calls}
