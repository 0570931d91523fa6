"""Upstreams that wrap other upstreams: every member of the interface reaches them, also one that is added later."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from fairlead_gateway.core.client_peer import ClientPeer
from fairlead_gateway.core.ports import Gauges, Pending, Upstream
from fairlead_gateway.core.upstream_request import RelaySink, ResponseSink, UpstreamRequest
from fairlead_gateway.sending import NO_OP_PENDING, RelayUpstream
from fairlead_gateway.upstream.capability_gated import GatedUpstream

GATEWAY: Final = Path(__file__).parents[3] / "gateway/fairlead_gateway"


def members(kind: type) -> set[str]:
    """Names of the public members that a class defines itself."""
    return {name for name in vars(kind) if not name.startswith("_")}


class Recorded(Upstream):
    """Upstream that records which of its members are used."""

    def __init__(self, gauges: Gauges = Gauges()) -> None:  # noqa: B008 - immutable
        self.used: list[str] = []
        self._gauges = gauges

    def __getattribute__(self, name: str) -> Any:
        if name in members(Upstream):
            self.used.append(name)
        return super().__getattribute__(name)

    @property
    def modern(self) -> bool:
        return True

    def next_id(self) -> bytes:
        return b"7"

    def send(self, request: UpstreamRequest, sink: ResponseSink) -> Pending:
        return NO_OP_PENDING

    def has_sessions_of(self, person: bytes) -> bool:
        return person == b"alice"

    def gauges(self) -> Gauges:
        return self._gauges


REQUEST: Final = UpstreamRequest(b"1", "ping", b"{}", 0.0, 0)
USES: Final[Mapping[str, Callable[[Upstream], Any]]] = {
    "modern": lambda upstream: upstream.modern,
    "accepts_tasks": lambda upstream: upstream.accepts_tasks,
    "next_id": lambda upstream: upstream.next_id(),
    "modern_for": lambda upstream: upstream.modern_for(None),
    "negotiate": lambda upstream: upstream.negotiate(None, 0.0),
    "send": lambda upstream: upstream.send(REQUEST, ResponseSink()),
    "end_session": lambda upstream: upstream.end_session(b"s"),
    "has_sessions_of": lambda upstream: upstream.has_sessions_of(b"alice"),
    "end_sessions_of": lambda upstream: upstream.end_sessions_of(b"alice"),
    "gauges": lambda upstream: upstream.gauges(),
    "aclose": lambda upstream: upstream.aclose(0.0),
}
"""A use of each member of the interface."""
ENDING: Final = ["aclose", "end_session", "end_sessions_of"]
"""Members without an answer: each ends something."""


async def use(name: str, upstream: Upstream) -> Any:
    answer = USES[name](upstream)
    return await answer if inspect.isawaitable(answer) else answer


def test_uses_are_those_of_every_member_of_the_interface() -> None:
    assert set(USES) == members(Upstream)


@pytest.mark.parametrize("name", sorted(members(Upstream)))
async def test_a_relay_forwards_each_member_of_the_interface(name: str) -> None:
    upstream = Recorded(Gauges(busy=3))
    expected = await use(name, upstream)
    upstream.used.clear()
    assert await use(name, RelayUpstream(upstream)) == expected
    assert upstream.used[:1] == [name]


def test_ending_members_are_those_that_return_nothing() -> None:
    source = GATEWAY / "core/ports.py"  # a compiled class has no annotations
    (interface,) = re.findall(r"^class Upstream:.*?(?=^\S|\Z)", source.read_text(), re.DOTALL | re.MULTILINE)
    assert sorted(re.findall(r"def (\w+)\([^)]*\) -> None:", interface)) == ENDING


@pytest.mark.parametrize("name", ENDING)
async def test_all_that_ends_something_reaches_the_shared_upstream_and_those_of_clients(name: str) -> None:
    shared, per_client = Recorded(), Recorded()
    await use(name, GatedUpstream(shared, per_client))
    assert (shared.used, per_client.used) == ([name], [name])


def test_numbers_of_the_shared_upstream_and_of_those_of_clients_are_added_up() -> None:
    gated = GatedUpstream(Recorded(Gauges(busy=1, waiting=2)), Recorded(Gauges(busy=3, idle=4)))
    assert gated.gauges() == Gauges(busy=4, idle=4, waiting=2)


def test_a_relaying_sink_forwards_each_member_of_the_interface() -> None:
    assert members(RelaySink) - {"sink"} == members(ResponseSink)


OF_OTHER_TYPES: Final[Mapping[str, object]] = {
    "affinity_tag": b"a",
    "client": ClientPeer(b"c", b"{}"),
    "counter": object(),
    "level": "debug",
    "session": b"s",
}
"""Values of the attributes that are None in a new request."""


def test_a_copy_of_a_request_has_every_attribute_but_the_id() -> None:
    source = (GATEWAY / "core/upstream_request.py").read_text()  # a compiled class has no __slots__
    (slots,) = re.findall(r"^class UpstreamRequest:.*?__slots__ = \((.*?)\)", source, re.DOTALL | re.MULTILINE)
    names = re.findall(r"\w+", slots)
    request = UpstreamRequest(b"1", "tools/call", b"{}", 1.0, 1)
    for name in names:
        match getattr(request, name):
            case None:
                setattr(request, name, OF_OTHER_TYPES[name])
            case bytes():
                setattr(request, name, name.encode())
            case False:
                setattr(request, name, True)
    copy = request.with_id(b"2")
    assert copy.id == b"2"
    copy.id = request.id
    assert [name for name in names if getattr(copy, name) != getattr(request, name)] == []
