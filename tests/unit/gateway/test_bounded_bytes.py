"""The gateway bounds the number of bytes that it stores of clients' and servers' data, because limits on the number of
objects do not bound memory.
"""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from msgspec import UNSET, Raw

from fairlead_gateway.audit.auditor import MAX_NAME, Auditor
from fairlead_gateway.audit.entry import AuditedCall, AuditEntry
from fairlead_gateway.audit.writer import CAPACITY_BYTES, Writer
from fairlead_gateway.calls.path.bridged_call import BridgedCall
from fairlead_gateway.calls.path.context import CallContext, CallServices, Introduction
from fairlead_gateway.calls.questions.input_required import MAX_PARKED, MAX_PARKED_BYTES, Bridge
from fairlead_gateway.calls.questions.message_relay import MAX_ID, supports_request
from fairlead_gateway.calls.questions.server_requests import MAX_SESSION, ServerRequests
from fairlead_gateway.calls.routes.routing import request_route
from fairlead_gateway.calls.sealed.sessions import SessionIds
from fairlead_gateway.calls.subscriptions.resource_subscriptions import (
    MAX_EVENT,
    MAX_URI,
    ResourceSubscriptions,
    Subscriber,
    subscription_target,
)
from fairlead_gateway.core.client_peer import ClientPeer
from fairlead_gateway.core.identity import ANONYMOUS
from fairlead_gateway.core.ports import Pending, Upstream
from fairlead_gateway.core.quota import Caps
from fairlead_gateway.core.server_binding import ServerBinding
from fairlead_gateway.core.share_counts import ShareCounts
from fairlead_gateway.core.upstream_request import ResponseSink, UpstreamRequest
from fairlead_gateway.endpoint.event_store import MAX_STORED_BYTES, STREAM_BYTES, EventStore
from fairlead_gateway.limits.limiter import Limiter
from fairlead_gateway.sending import NO_OP_PENDING
from fairlead_gateway.telemetry import MetricsRegistry
from fairlead_gateway.upstream.guard import Guard, Timing
from fairlead_gateway.upstream.server_facts import AdmissionLimits
from fairlead_mcp.eras import Client
from fairlead_mcp.messages import Message

MIB = 1 << 20
SAMPLING_CLIENT = ClientPeer(b"session", b'{"sampling":{}}')


class Disk:
    """A sink on a slow disk."""

    def __init__(self) -> None:
        self.free = threading.Event()
        self.written = b""

    def write(self, data: bytes) -> None:
        self.free.wait()
        self.written += data

    def close(self) -> None:
        """Do nothing."""


class FakeRequest:
    """Request as the auditor needs it."""

    identity = ANONYMOUS
    address = "127.0.0.1"
    headers: ClassVar[dict[bytes, bytes]] = {}


def test_the_audit_log_keeps_no_more_bytes_than_it_may_while_its_disk_is_slow() -> None:
    disk = Disk()
    writer = Writer(disk, lambda entry: b"line\n", lambda: 0.0)
    auditor = Auditor(writer, "all", "full")
    arguments = Raw(b'"' + b"x" * MIB + b'"')
    for _ in range(2 * CAPACITY_BYTES // MIB):
        params = {"arguments": arguments, "_meta": Raw(b"{}")}
        auditor.record_call(FakeRequest(), AuditedCall("tools/call", "x" * MAX_NAME, params, ""))
    try:
        assert writer.buffered <= CAPACITY_BYTES // MIB
        assert writer.overflowed >= CAPACITY_BYTES // MIB
        bounded = AuditEntry(0.0, "denied", ANONYMOUS, "", "", tool="x" * MAX_NAME, arguments=arguments)
        assert bounded.weight == MAX_NAME + len(arguments)
    finally:
        disk.free.set()
        writer.close()
    assert disk.written.count(b"\n") <= CAPACITY_BYTES // MIB + 1
    auditor.record_denial(FakeRequest(), AuditedCall("tools/call", "y", {}, "-32602"), "no")
    assert writer.buffered == 1


def test_an_entry_of_the_audit_log_keeps_a_part_of_a_request_and_not_the_whole() -> None:
    writer = Writer(Disk(), lambda entry: b"", lambda: 0.0)
    put: list[AuditEntry] = []
    writer.put = put.append  # type: ignore[assignment, method-assign]  # what is put in, before it is written
    whole = b"x" * MIB
    part = Raw(memoryview(whole)[:10])
    call = AuditedCall("tools/call", "x" * MIB, {"arguments": part}, "-32602")
    Auditor(writer, "all", "full").record_denial(FakeRequest(), call, "no")
    assert len(put[0].tool) == MAX_NAME
    assert put[0].arguments is not part
    assert bytes(put[0].arguments or b"") == bytes(part)


def test_log_levels_are_stored_only_for_session_ids_no_longer_than_the_gateways_own() -> None:
    server_requests = ServerRequests(SessionIds(b"key"), lambda session, params: False)
    long = b"x" * (MAX_SESSION + 1)
    usual = b"x" * MAX_SESSION
    assert server_requests.set_level(long, "debug", "agent")  # accepted, but not stored
    assert server_requests.set_level(usual, "debug", "agent")
    assert dict(server_requests.levels) == {usual: "debug"}
    all_capabilities = b'{"elicitation":{"form":{},"url":{}},"roots":{},"sampling":{"context":{},"tools":{}}}'
    session = SessionIds(b"key").issue("2025-11-25", all_capabilities, "o" * 18)
    assert len(session) <= MAX_SESSION


@pytest.mark.parametrize(("size", "forwarded"), [(MAX_ID, True), (MAX_ID + 1, False)])
def test_server_requests_are_forwarded_only_with_ids_up_to_the_limit(size: int, forwarded: bool) -> None:
    message = Message(id=Raw(b'"' + b"x" * (size - 2) + b'"'), method="sampling/createMessage")
    assert supports_request(SAMPLING_CLIENT, message) is forwarded


def test_an_overlong_uri_is_not_subscribed_to() -> None:
    class Offers:
        def resource(self, uri: str) -> Any:
            raise AssertionError(uri[:10])

    assert subscription_target(Offers(), "x" * (MAX_URI + 1)) is None  # type: ignore[arg-type]


class SilentUpstream(Upstream):
    """Peer that records requests and never answers."""

    modern = True

    def __init__(self) -> None:
        self.requests: asyncio.Queue[UpstreamRequest] = asyncio.Queue()

    def next_id(self) -> bytes:
        return b"1"

    def send(self, request: UpstreamRequest, sink: ResponseSink) -> Pending:
        self.requests.put_nowait(request)
        return NO_OP_PENDING  # a `Pending` whose `cancel` does nothing


def bind_server(upstream: Upstream) -> ServerBinding:
    server: Any = SimpleNamespace(key="default/demo", catalog=SimpleNamespace(session="Shared", online=True))
    guard = Guard("default/demo", AdmissionLimits(100), Timing(lambda seconds, then: None, lambda: 0.0))
    return ServerBinding(server, upstream, guard, timeout=1.0, max_bytes=16 * MIB, server_info=b"{}")


def bridge_call(bridge: Bridge[BridgedCall], agent: str = "agent") -> BridgedCall:
    registry = MetricsRegistry()
    client = Client()
    context = CallContext(
        registry,
        Introduction(client, b"{}"),
        ServerRequests(SessionIds(b"key"), lambda session, params: False),
        ResourceSubscriptions(client),
        bridge,
        CallServices(clock=lambda: 0.0),
    )
    recorder = registry.recorder("tools/call")
    route = request_route(bind_server(SilentUpstream()), "x", recorder, idempotent=False)
    return BridgedCall(context, route, agent, "call key", 0.0, SAMPLING_CLIENT)


async def test_questions_that_wait_for_their_clients_are_bounded_in_bytes_and_the_oldest_go() -> None:
    bridge: Bridge[BridgedCall] = Bridge(lambda: 0.0)
    question = Message(id=Raw(b"1"), method="sampling/createMessage", params=Raw(b'"' + b"x" * MIB + b'"'))
    calls = [bridge_call(bridge) for _ in range(2 * MAX_PARKED_BYTES // MIB)]
    for call in calls:
        call.ask(question, lambda answer: None)
        bridge.park(call)
    assert len(bridge) < MAX_PARKED_BYTES // MIB
    assert calls[0].done
    assert not calls[-1].done
    for _ in range(MAX_PARKED_BYTES // MIB + 1):
        calls[-1].ask(question, lambda answer: None)
    assert len(bridge) == 0
    assert all(call.done for call in calls)


@pytest.mark.parametrize("size", [1, MIB])
async def test_calls_of_an_agent_that_wait_for_their_client_do_not_cancel_those_of_others(size: int) -> None:
    counts = ShareCounts()
    bridge: Bridge[BridgedCall] = Bridge(lambda: 0.0, counts=counts)
    question = Message(id=Raw(b"1"), method="sampling/createMessage", params=Raw(b'"' + b"x" * size + b'"'))
    own = bridge_call(bridge, "alice")
    own.ask(question, lambda answer: None)
    bridge.park(own)
    crowd = [bridge_call(bridge, "mallory") for _ in range(MAX_PARKED + 10 if size == 1 else 40)]
    for call in crowd:
        call.ask(question, lambda answer: None)
        bridge.park(call)
    assert not own.done
    assert len(bridge) < len(crowd)
    assert crowd[0].done
    assert counts.outcomes["calls_awaiting_input", "gave_way"] == len(crowd) + 1 - len(bridge)
    bridge.close()


async def test_results_that_wait_for_their_clients_are_bounded_in_bytes() -> None:
    bridge: Bridge[BridgedCall] = Bridge(lambda: 0.0)
    calls = [bridge_call(bridge) for _ in range(2 * MAX_PARKED_BYTES // MIB)]
    for call in calls:
        bridge.park(call)
    assert len(bridge) == len(calls)
    for call in calls:
        call.attempts.take_result(Raw(b"x" * MIB))
    assert 0 < len(bridge) <= MAX_PARKED_BYTES // MIB
    bridge.close()


def test_streams_that_say_nothing_are_counted_too() -> None:
    class Outlet:
        def write(self, chunk: bytes) -> bool:
            return True

        def end(self, *chunks: bytes) -> None:
            """Do nothing, because nobody reads."""

    store = EventStore(lambda: 0.0)
    for _ in range(MAX_STORED_BYTES // STREAM_BYTES + 100):
        store.new(b"s", "agent").prime(Outlet())
    assert len(store) <= MAX_STORED_BYTES // STREAM_BYTES


def test_an_agent_with_a_long_name_is_kept_under_a_short_one() -> None:
    limiter = Limiter(Caps(concurrency=1))
    names = ["x" * 8000 + end for end in "ab"]
    assert [bool(limiter.admit(name)) for name in names] == [True, True]
    assert all(len(key) < 100 for key in limiter._accounts)


def test_a_message_without_an_id_is_not_a_server_request() -> None:
    assert not supports_request(SAMPLING_CLIENT, Message(id=UNSET, method="sampling/createMessage"))


async def test_responses_of_a_server_to_a_subscription_are_bounded() -> None:
    upstream = SilentUpstream()
    watches = ResourceSubscriptions(Client(), lambda: 0.0)
    watches.subscribe(
        "holder", Subscriber("agent", ANONYMOUS), bind_server(upstream), ["file:///a"], lambda params: None
    )
    assert (await upstream.requests.get()).max_bytes == MAX_EVENT
    await watches.aclose()
