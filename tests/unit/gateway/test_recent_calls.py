"""The ring buffer of ended calls, and the phases of a call: limits in number and bytes, stable numbers, no gaps."""

from __future__ import annotations

import asyncio
import time
import tracemalloc
from collections.abc import Callable

import pytest
from msgspec import Raw

from fairlead_api.meta import ServerKey
from fairlead_gateway.audit.arguments import MAX_ARGUMENTS, argument_renderer
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.recent.ended_call import MAX_NAME, NOBODY, CallRefusal, PackedCall, StoredCaller
from fairlead_gateway.recent.phases import (
    ATTEMPT,
    BACKOFF,
    CHECKS,
    MAX_PHASES,
    NEVER,
    QUEUE,
    TRANSLATION,
    CallPhase,
    CallTrail,
    timeline,
)
from fairlead_gateway.recent.ring import MAX_CHARACTER_BYTES, MIN_BYTES, PHASE_BYTES, PLAIN_BYTES, RecentCalls

SHOP = ServerKey("default", "shop")
FULL = argument_renderer("full", b"", ())


def packed_call(
    name: str = "buy",
    arguments: bytes | None = None,
    caller: StoredCaller = NOBODY,
    why: CallRefusal | None = None,
    trail: tuple[CallPhase, ...] = (),
) -> PackedCall:
    """A packed call with times and sizes of its own."""
    began = time.monotonic()
    return (
        began,
        began + 0.5,
        began + 0.1,
        began + 0.4,
        "tools/call",
        name,
        SHOP,
        "",
        caller,
        "127.0.0.1",
        None,
        "",
        1000,
        2000,
        arguments,
        why,
        trail,
    )


def largest(number: int) -> tuple[PackedCall, int]:
    """A call with unshared strings of maximum length in the widest characters, and its size in bytes."""
    wide = "\U0001f600"
    mark = f"{number:08}"
    name = wide * (MAX_NAME - 8) + mark
    why = CallRefusal.cut(wide * 292 + mark, mark + wide * 292)
    arguments = b'{"a":"%b"}' % (b"x" * (MAX_ARGUMENTS - 20) + mark.encode())
    caller = StoredCaller.of(Identity(kind="jwt", principal=mark + name, agent=name[::-1]))
    more = MAX_CHARACTER_BYTES * (len(name) + caller.characters) + why.weight + len(arguments)
    trail = tuple(CallPhase(QUEUE, number + 0.1, number + 0.2, mark) for _ in range(MAX_PHASES))
    return packed_call(name, arguments, caller, why, trail), more + PHASE_BYTES * MAX_PHASES


def bytes_used_by(work: Callable[[], None]) -> int:
    """Number of bytes that some work allocates and does not free."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        work()
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


def test_the_oldest_go_when_there_are_too_many() -> None:
    recent = RecentCalls(3, MIN_BYTES)
    for number in range(5):
        recent.put(packed_call(f"tool{number}"))
    stored = recent.snapshot()
    assert [(number, call.name) for number, call in stored.newest_first()] == [(5, "tool4"), (4, "tool3"), (3, "tool2")]
    assert (stored.first, stored.number, recent.number) == (3, 5, 5)
    assert stored.call(4).name == "tool3"
    with pytest.raises(IndexError):
        stored.call(2)


def test_huge_names_and_arguments_stay_within_the_bytes() -> None:
    recent = RecentCalls(100_000, MIN_BYTES, FULL)

    def work() -> None:
        for number in range(500):
            recent.put_large(*largest(number))
            assert recent.size <= MIN_BYTES

    assert bytes_used_by(work) <= MIN_BYTES
    assert 3 < len(recent.snapshot()) < 20


def test_plain_calls_take_no_more_bytes_than_they_are_counted_with() -> None:
    recent = RecentCalls(100_000, 4 << 20)

    def work() -> None:
        for number in range(5000):
            recent.put(packed_call(f"tool-{number:0130}"))

    assert bytes_used_by(work) <= len(recent.snapshot()) * PLAIN_BYTES <= 2 << 20
    assert recent.size == len(recent.snapshot()) * PLAIN_BYTES


def test_a_large_call_costs_the_oldest_and_leaves_the_numbers_right() -> None:
    recent = RecentCalls(10, MIN_BYTES, FULL)
    for number in range(8):
        recent.put(packed_call(f"tool{number}"))
    for number in range(40):
        recent.put_large(*largest(number))
        stored = recent.snapshot()
        assert (stored.number, recent.number) == (9 + number, 9 + number)
        assert stored.call(stored.number).arguments is not None
    for number in range(10):
        recent.put(packed_call(f"tool{number}"))
    assert recent.size == 10 * PLAIN_BYTES


def test_arguments_are_kept_where_they_may_be_told_and_are_not_too_large() -> None:
    some = Raw(b'{"a":1}')
    large = Raw(b'"%b"' % (b"x" * MAX_ARGUMENTS))
    telling = RecentCalls(1, MIN_BYTES, FULL)
    silent = RecentCalls(1, MIN_BYTES)
    assert [telling.arguments(raw) for raw in (some, large, None)] == [b'{"a":1}', b"", None]
    assert silent.arguments(some) is None


def test_ids_of_other_replicas_and_of_calls_to_come_are_not_taken() -> None:
    recent = RecentCalls(3, MIN_BYTES)
    recent.put(packed_call())
    assert recent.number_of(recent.ident(1)) == 1
    life = recent.ident(1).partition("-")[0]
    for ident in (recent.ident(2), "other-1", "1", "", f"{life}-²", f"{life}--1", f"{life}-{'9' * 5000}"):
        assert recent.number_of(ident) is None


async def test_followers_of_recent_calls_get_later_calls_and_end_with_the_ring() -> None:
    recent = RecentCalls(2, MIN_BYTES)
    waiting = asyncio.create_task(recent.wait_newer(0, 30))
    await asyncio.sleep(0)
    recent.put(packed_call("one"))
    assert await waiting
    assert [call.name for _, call in recent.snapshot().after(0).newest_first()] == ["one"]
    assert not await recent.wait_newer(1, 0.001)
    for name in ("two", "three", "four"):
        recent.put(packed_call(name))
    missed = recent.snapshot().after(1)
    assert [number for number, _ in missed.newest_first()] == [4, 3]
    assert missed.first == 3
    waiting = asyncio.create_task(recent.wait_newer(4, 30))
    await asyncio.sleep(0)
    recent.close()
    assert not await waiting


def kinds(*phases: CallPhase, sent: float = NEVER, answered: float = NEVER, seconds: float = 10.0) -> list[str]:
    return [phase.kind for phase in timeline(phases, sent, answered, 0.0, seconds)]


def test_a_plain_call_is_checks_attempt_and_translation() -> None:
    phases = [*timeline((), 101.0, 109.0, 100.0, 110.0)]
    assert phases == [CallPhase(CHECKS, 0, 1.0), CallPhase(ATTEMPT, 1.0, 9.0), CallPhase(TRANSLATION, 9.0, 10.0)]


def test_a_refused_call_is_checks_and_one_cut_off_ends_in_its_attempt() -> None:
    assert kinds() == [CHECKS]
    assert [*timeline((), 101.0, NEVER, 100.0, 110.0)][-1] == CallPhase(ATTEMPT, 1.0, 10.0)


def test_retries_stand_in_the_order_of_time_without_gaps() -> None:
    trail = CallTrail()
    trail.begin(QUEUE, 1.0)
    trail.end(2.0)
    trail.add(CallPhase(ATTEMPT, 2.0, 3.0, "ConnectionLost"))
    trail.begin(BACKOFF, 3.0)
    trail.end(4.0)
    phases = [*timeline(trail.phases, 4.0, 9.0, 0.0, 10.0)]
    assert [phase.kind for phase in phases] == [CHECKS, QUEUE, ATTEMPT, BACKOFF, ATTEMPT, TRANSLATION]
    assert [phase.begin for phase in phases[1:]] == [phase.end for phase in phases[:-1]]
    assert phases[2].error == "ConnectionLost"


@pytest.mark.parametrize("seconds", [0.0, 1e-9, 5.0])
def test_phases_never_leave_the_call(seconds: float) -> None:
    phases = [*timeline((CallPhase(QUEUE, -1.0, 99.0),), 3.0, 2.0, 0.0, seconds)]
    assert all(0 <= phase.begin <= phase.end <= seconds for phase in phases)


def test_a_call_that_asks_again_and_again_keeps_a_bounded_trail() -> None:
    trail = CallTrail()
    for at in range(1000):
        trail.begin(QUEUE, float(at))
    assert len(trail.phases) == MAX_PHASES
