"""Questions of a legacy server in the middle of a call, as `input_required` results of a modern client's requests.

The call at the server goes on while its client has the question. It is kept here under a random id, which the client
sends back as `requestState` together with its answers (MCP 2026-07-28, "Multi Round-Trip Requests"). It lives in this
process, so a retry that reaches another replica is refused; so is one after the call's time. Sessions at servers
declare the capabilities of the call's client, and carry one call at a time, for a question need not name its call.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

import msgspec
from msgspec import Raw

from fairlead_gateway.core.client_peer import ClientPeer
from fairlead_gateway.core.request import McpRequest
from fairlead_gateway.core.share_counts import ShareCounts
from fairlead_gateway.limits.shares import oldest_of_largest
from fairlead_mcp import jsonrpc
from fairlead_mcp.errors import RpcError

MAX_PARKED: Final = 1024
KEPT_SECONDS: Final = 60.0
"""How long what became of a call is kept after its time, for a client that is late."""
MAX_PARKED_BYTES: Final = 16 << 20
"""Bytes of questions and results of all parked calls; beyond it the oldest of the agent with most are
cancelled."""
_PREFIX: Final = "fairlead-call."

_decode_responses = msgspec.json.Decoder(dict[str, Raw]).decode


class ParkedCall(Protocol):
    """A call that goes on while its client has its questions. `of`: what it is, so that no other goes on with it."""

    of: object

    @property
    def agent(self) -> str:
        """Agent that it is made for."""
        ...

    @property
    def deadline(self) -> float:
        """Seconds of the bridge's clock."""
        ...

    @property
    def size(self) -> int:
        """Bytes that are kept for its client."""
        ...

    def give(self, responses: dict[str, Raw]) -> None:
        """Take answers of the client."""
        ...

    def as_result(self, state: str) -> bytes:
        """The questions as a result."""
        ...

    def cancel(self) -> None:
        """No-op once it is over."""
        ...


CallT = TypeVar("CallT", bound=ParkedCall)


class Bridge(Generic[CallT]):
    """Calls that wait for their clients. `clock`: seconds, the clock of deadlines; `counts` has the calls that were
    cancelled for want of room.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        new_id: Callable[[], str] = lambda: secrets.token_urlsafe(24),
        counts: ShareCounts | None = None,
    ) -> None:
        self._counts = counts or ShareCounts()
        self._clock = clock
        self._new_id = new_id
        self._parked: OrderedDict[str, CallT] = OrderedDict()
        self._free: dict[bytes, list[ClientPeer]] = {}
        self._count = itertools.count(1).__next__

    def __len__(self) -> int:
        return len(self._parked)

    def lease(self, features: bytes) -> ClientPeer:
        """Peer to open a session for, for one call at a time; to be given back by `release`."""
        free = self._free.get(features)
        return free.pop() if free else ClientPeer(b"modern-%d" % self._count(), features, passing=True)

    def release(self, client: ClientPeer) -> None:
        self._free.setdefault(client.features, []).append(client)

    def park(self, call: CallT) -> bytes:
        """Keep a call for its client, and put its questions into a result."""
        state = _PREFIX + self._new_id()
        self._parked[state] = call
        self.enforce_bounds()
        seconds = max(call.deadline - self._clock(), 0) + KEPT_SECONDS
        asyncio.get_running_loop().call_later(seconds, self._forget, state)
        return call.as_result(state)

    def resume(self, request: McpRequest, of: object) -> CallT | None:
        """The call that a request goes on with, with its answers; None where it begins one.

        Raises RpcError (-32602) for one that is not here.
        """
        try:
            state = jsonrpc.decode_text(request.params["requestState"])
        except (*jsonrpc.UNREADABLE, KeyError):
            return None
        if not state.startswith(_PREFIX):
            return None
        call = self._parked.get(state)
        if call is None or call.of != of:
            raise RpcError(
                jsonrpc.INVALID_PARAMS, "requestState: that call has ended, or runs at another replica", None
            )
        try:
            responses = _decode_responses(request.params.get("inputResponses", Raw(b"{}")))
        except jsonrpc.UNREADABLE as error:
            raise RpcError(jsonrpc.INVALID_PARAMS, "inputResponses must be an object", None) from error
        del self._parked[state]
        call.give(responses)
        return call

    def close(self) -> None:
        """Cancel the calls that wait for their clients."""
        calls = [*self._parked.values()]
        self._parked.clear()
        for call in calls:
            call.cancel()

    def enforce_bounds(self) -> None:
        """Cancel calls that are one too many, or that have no room for what they keep: the oldest of the agent that has
        most of them, or of what is kept.
        """
        excess = sum(call.size for call in self._parked.values()) - MAX_PARKED_BYTES
        if excess > 0:
            self._cancel_oldest(excess, lambda call: call.size)
        if len(self._parked) > MAX_PARKED:
            self._cancel_oldest(len(self._parked) - MAX_PARKED, lambda call: 1)

    def _cancel_oldest(self, excess: int, weight: Callable[[CallT], int]) -> None:
        entries = ((state, call.agent, weight(call)) for state, call in self._parked.items())
        calls = [self._parked.pop(state) for state in oldest_of_largest(entries, excess)]
        self._counts.count("calls_awaiting_input", "gave_way", len(calls))
        for call in calls:
            call.cancel()

    def _forget(self, state: str) -> None:
        call = self._parked.pop(state, None)
        if call is not None:
            call.cancel()
