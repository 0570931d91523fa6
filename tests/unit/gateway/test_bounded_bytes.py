"""What peers send and the gateway keeps is bounded in bytes, where a number of things alone would bound nothing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from msgspec import UNSET, Raw

from fairlead_gateway.audit.auditor import MAX_NAME, Auditor
from fairlead_gateway.audit.entry import AuditEntry
from fairlead_gateway.audit.writer import CAPACITY_BYTES, Writer
from fairlead_gateway.calls.bridge import MAX_PARKED_BYTES, Bridge, Bridged, Relay
from fairlead_gateway.calls.live import MAX_ID, MAX_SESSION, Live, LiveRequest, offers
from fairlead_gateway.calls.watches import MAX_EVENT, MAX_URI, Watches, watchable
from fairlead_gateway.core.identity import ANONYMOUS
from fairlead_gateway.core.quota import Caps
from fairlead_gateway.endpoint.resumable import KEPT_BYTES, STREAM_BYTES, Threads
from fairlead_gateway.endpoint.sessions import Sessions
from fairlead_gateway.limits.limiter import Limiter
from fairlead_gateway.upstream.inquiry import Counterpart, Inquiry
from fairlead_mcp.eras import Client
from fairlead_mcp.messages import Message

MIB = 1 << 20
ASKING = Counterpart(b"session", b'{"sampling":{}}')


class Disk:
    """A disk that takes its time."""

    def __init__(self) -> None:
        self.free = threading.Event()
        self.written = b""

    def write(self, data: bytes) -> None:
        self.free.wait()
        self.written += data

    def close(self) -> None:
        """Nothing to close."""


class Asked:
    identity = ANONYMOUS
    address = "127.0.0.1"
    headers: ClassVar[dict[bytes, bytes]] = {}


def test_the_audit_log_keeps_no_more_bytes_than_it_may_while_its_disk_is_slow() -> None:
    disk = Disk()
    writer = Writer(disk, lambda entry: b"line\n", lambda: 0.0)
    auditor = Auditor(writer, "all", "full")
    arguments = Raw(b'"' + b"x" * MIB + b'"')
    for _ in range(2 * CAPACITY_BYTES // MIB):
        auditor.denied(Asked(), "tools/call", "x" * MIB, "-32602", "no", {"arguments": arguments, "_meta": Raw(b"{}")})
    try:
        assert writer.buffered <= CAPACITY_BYTES // MIB
        assert writer.overflowed >= CAPACITY_BYTES // MIB
        kept = AuditEntry(0.0, "denied", ANONYMOUS, "", "", tool="x" * MAX_NAME, arguments=arguments)
        assert kept.weight == MAX_NAME + len(arguments)
    finally:
        disk.free.set()
        writer.close()
    assert disk.written.count(b"\n") <= CAPACITY_BYTES // MIB + 1
    auditor.denied(Asked(), "tools/call", "y", "-32602", "no")
    assert writer.buffered == 1


def test_an_entry_of_the_audit_log_keeps_a_part_of_a_request_and_not_the_whole() -> None:
    writer = Writer(Disk(), lambda entry: b"", lambda: 0.0)
    put: list[AuditEntry] = []
    writer.put = put.append  # type: ignore[assignment, method-assign]  # what is put in, before it is written
    whole = b"x" * MIB
    part = Raw(memoryview(whole)[:10])
    Auditor(writer, "all", "full").denied(Asked(), "tools/call", "t", "-32602", "no", {"arguments": part})
    assert put[0].arguments is not part
    assert bytes(put[0].arguments or b"") == bytes(part)


def test_levels_are_remembered_for_sessions_with_ids_as_they_are_made_here() -> None:
    live = Live(Sessions(b"key"))
    long, usual = b"x" * (MAX_SESSION + 1), b"x" * MAX_SESSION
    assert live.set_level(long, "debug")
    assert live.set_level(usual, "debug")
    assert (live.level(long), live.level(usual)) == (None, "debug")
    everything = b'{"elicitation":{"form":{},"url":{}},"roots":{},"sampling":{"context":{},"tools":{}}}'
    session = Sessions(b"key").issue("2025-11-25", everything, "o" * 18)
    assert len(session) <= MAX_SESSION


@pytest.mark.parametrize(("size", "passed"), [(MAX_ID, True), (MAX_ID + 1, False)])
def test_a_question_under_an_id_without_end_is_not_passed_on(size: int, passed: bool) -> None:
    message = Message(id=Raw(b'"' + b"x" * (size - 2) + b'"'), method="sampling/createMessage")
    assert offers(ASKING, message) is passed


def test_a_uri_without_end_is_not_watched() -> None:
    class Offers:
        def resource(self, uri: str) -> Any:
            raise AssertionError(uri[:10])

    assert watchable(Offers(), "x" * (MAX_URI + 1)) is None  # type: ignore[arg-type]


def bridged(work: Coroutine[Any, Any, tuple[Raw, bool]]) -> Bridged:
    live: LiveRequest = object()  # type: ignore[assignment]  # nobody is told of anything here
    return Bridged(Relay(live, ASKING), "of", 1e9, work)


async def never() -> tuple[Raw, bool]:
    await asyncio.Event().wait()
    raise AssertionError


async def test_questions_that_wait_for_their_clients_are_bounded_in_bytes_and_the_oldest_go() -> None:
    bridge = Bridge(lambda: 0.0)
    question = Message(id=Raw(b"1"), method="sampling/createMessage", params=Raw(b'"' + b"x" * MIB + b'"'))
    calls = [bridged(never()) for _ in range(2 * MAX_PARKED_BYTES // MIB)]
    for call in calls:
        call.relay.on_request(question, lambda answer: None)
        bridge.park(call)
    assert len(bridge) < MAX_PARKED_BYTES // MIB
    await asyncio.gather(*(call.task for call in calls[:5]), return_exceptions=True)
    assert calls[0].task.cancelled()
    assert not calls[-1].task.done()
    for _ in range(MAX_PARKED_BYTES // MIB + 1):
        calls[-1].relay.on_request(question, lambda answer: None)
    assert len(bridge) == 0
    await bridge.aclose()
    await asyncio.gather(*(call.task for call in calls), return_exceptions=True)


async def test_results_that_wait_for_their_clients_are_bounded_in_bytes() -> None:
    bridge, go = Bridge(lambda: 0.0), asyncio.Event()

    async def result() -> tuple[Raw, bool]:
        await go.wait()
        return Raw(b"x" * MIB), False

    calls = [bridged(result()) for _ in range(2 * MAX_PARKED_BYTES // MIB)]
    for call in calls:
        bridge.park(call)
    assert len(bridge) == len(calls)
    go.set()
    await asyncio.gather(*(call.task for call in calls), return_exceptions=True)
    await asyncio.sleep(0)
    assert 0 < len(bridge) <= MAX_PARKED_BYTES // MIB
    await bridge.aclose()


def test_streams_that_say_nothing_are_counted_too() -> None:
    class Outlet:
        def write(self, chunk: bytes) -> bool:
            return True

        def end(self, *chunks: bytes) -> None:
            """Nobody reads."""

    threads = Threads(lambda: 0.0)
    for _ in range(KEPT_BYTES // STREAM_BYTES + 100):
        threads.new(b"s").prime(Outlet())
    assert len(threads) <= KEPT_BYTES // STREAM_BYTES


def test_an_agent_with_a_long_name_is_kept_under_a_short_one() -> None:
    limiter = Limiter(Caps(concurrency=1))
    names = ["x" * 8000 + end for end in "ab"]
    assert [bool(limiter.admit(name)) for name in names] == [True, True]
    assert all(len(key) < 100 for key in limiter._accounts)


def test_an_unset_id_is_no_question() -> None:
    assert not offers(ASKING, Message(id=UNSET, method="sampling/createMessage"))


async def test_what_a_server_says_about_a_watch_is_small() -> None:
    asked: asyncio.Queue[Inquiry] = asyncio.Queue()

    class Upstream:
        def next_id(self) -> bytes:
            return b"1"

        async def era(self, client: Counterpart | None, deadline: float) -> bool:
            return True

        async def ask(self, inquiry: Inquiry) -> Raw:
            asked.put_nowait(inquiry)
            await asyncio.Event().wait()
            raise AssertionError

    reach: Any = SimpleNamespace(
        upstream=Upstream(), max_bytes=16 * MIB, timeout=1.0, server=SimpleNamespace(key="default/demo")
    )
    watches = Watches(Client(), lambda: 0.0)
    watches.hold("holder", reach, ["file:///a"], lambda params: None)
    assert (await asked.get()).max_bytes == MAX_EVENT
    await watches.aclose()
