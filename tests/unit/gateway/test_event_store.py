"""The store of events: which streams clients may resume, and for how long."""

from __future__ import annotations

import re

from fairlead_gateway.endpoint import event_store
from fairlead_gateway.endpoint.event_store import (
    KEEP_SECONDS,
    MAX_STORED_BYTES,
    MAX_STREAM_EVENTS,
    STREAM_BYTES,
    EventStore,
    ResumableStream,
    StreamNames,
)
from virtualtime import HandClock

SESSION = b"s"
NAME = b"n" * 24


class Paper:
    """An outlet that records what is written."""

    def __init__(self) -> None:
        self.written = b""
        self.ended = False

    def write(self, chunk: bytes) -> bool:
        self.written += chunk
        return True

    def end(self, *chunks: bytes) -> None:
        self.written += b"".join(chunks)
        self.ended = True


def thread_of(threads: EventStore, outlet: Paper | None = None) -> ResumableStream:
    thread = threads.new(SESSION, "agent")
    thread.prime(outlet or Paper())
    return thread


def test_a_stream_that_was_never_begun_is_not_kept() -> None:
    threads = EventStore()
    threads.new(SESSION, "agent")
    assert len(threads) == 0


def test_events_after_the_last_event_id_alone_are_sent_again() -> None:
    threads = EventStore(new_name=lambda: NAME)
    thread = thread_of(threads)
    for message in (b"1", b"2", b"3"):
        thread.push(message)
    thread.finish(b"4")
    sent_again = threads.find(SESSION, b"%b.3" % NAME)
    assert sent_again is not None
    paper = Paper()
    sent_again[0].attach(paper, sent_again[1])
    assert [line for line in paper.written.split(b"\n") if line.startswith(b"data")] == [b"data: 3", b"data: 4"]
    assert paper.ended


def test_a_client_that_comes_back_takes_the_stream_over() -> None:
    threads = EventStore()
    first = Paper()
    second = Paper()
    thread = thread_of(threads, first)
    thread.attach(second, 1)
    assert first.ended
    thread.detach(first)
    thread.push(b"more")
    assert b"more" in second.written
    assert b"more" not in first.written


def test_finished_streams_are_forgotten_after_a_while() -> None:
    clock = HandClock()
    threads = EventStore(clock)
    running = thread_of(threads)
    done = thread_of(threads)
    done.finish(b"answer")
    clock.now = KEEP_SECONDS - 1
    threads.sweep()
    assert len(threads) == 2
    clock.now = KEEP_SECONDS
    threads.sweep()
    assert len(threads) == 1
    running.push(b"goes on")


def test_the_oldest_streams_make_room_and_go_on_for_those_who_listen() -> None:
    threads = EventStore()
    paper = Paper()
    oldest = thread_of(threads, paper)
    oldest.push(b"a" * 3000)
    thread_of(threads).push(b"b" * (MAX_STORED_BYTES - 2 * STREAM_BYTES - 600))
    assert len(threads) == 1
    oldest.finish(b"the end")
    assert b"the end" in paper.written
    thread_of(threads)
    assert len(threads) == 2, "what is forgotten takes no room"


def test_of_a_long_stream_the_latest_events_are_kept() -> None:
    threads = EventStore()
    thread = thread_of(threads)
    for number in range(MAX_STREAM_EVENTS + 50):
        thread.push(b"%d" % number)
    paper = Paper()
    thread.attach(paper, 1)
    assert paper.written.count(b"data: ") == MAX_STREAM_EVENTS
    assert thread.size == STREAM_BYTES + len(thread.session) + len(paper.written)


def test_an_event_id_of_another_shape_is_nobodys() -> None:
    threads = EventStore()
    for ident in (b"", b"1", b"%b" % NAME, b"%b.x" % NAME, b"%b.1" % NAME):
        assert threads.find(SESSION, ident) is None
    assert event_store.FIRST_REVISION == "2025-11-25"


class Call:
    """A call that records whether it was cancelled."""

    cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


def abandoned_call(threads: EventStore) -> Call:
    """The call of a stream whose client has just gone."""
    paper = Paper()
    thread = thread_of(threads, paper)
    thread.call = call = Call()
    thread.detach(paper)
    return call


def test_a_call_goes_on_without_its_client_unless_a_setting_says_otherwise() -> None:
    clock = HandClock()
    threads = EventStore(clock)
    call = abandoned_call(threads)
    clock.now = 10 * KEEP_SECONDS
    threads.sweep()
    assert not call.cancelled


def test_a_call_is_cancelled_where_its_client_does_not_come_back_in_time() -> None:
    clock = HandClock()
    threads = EventStore(clock, cancels_abandoned=True)
    call = abandoned_call(threads)
    clock.now = KEEP_SECONDS - 1
    threads.sweep()
    assert not call.cancelled
    clock.now = KEEP_SECONDS
    threads.sweep()
    assert call.cancelled


def test_a_stream_that_its_server_paused_is_given_up_like_one_that_broke() -> None:
    clock = HandClock()
    threads = EventStore(clock, cancels_abandoned=True)
    thread = thread_of(threads)
    thread.call = call = Call()
    thread.pause()
    clock.now = KEEP_SECONDS - 1
    thread.attach(Paper(), 1)
    clock.now = 2 * KEEP_SECONDS
    threads.sweep()
    assert not call.cancelled
    thread.finish(b"answer")
    assert thread.call is None


def test_no_name_of_a_stream_comes_twice() -> None:
    names = StreamNames()
    drawn = [names.new() for _ in range(1000)]
    assert len(set(drawn)) == 1000
    assert all(re.fullmatch(rb"[0-9A-Za-z_-]{24}", name) for name in drawn)
