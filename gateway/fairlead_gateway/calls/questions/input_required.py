"""Bridge for requests of a legacy server during a call: a modern client gets them as an `input_required` result.

The call at the server stays open while the client answers. The call is parked here under a random id, which the client
sends back as `requestState` with its answers (MCP 2026-07-28, "Multi Round-Trip Requests"). Parked calls are in the
memory of this process: answers that reach another replica, or arrive too late, are refused. The session with the server
declares the capabilities of the client. It has one call at a time, because a server's request need not say to which
call it belongs.
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
"""Limit on parked calls. Beyond it, the oldest calls of the agent with the most calls are cancelled."""
LATE_SECONDS: Final = 60.0
"""Seconds after the deadline of a call for which its outcome stays available to the client."""
MAX_PARKED_BYTES: Final = 16 << 20
"""Limit on the bytes of questions and results of all parked calls. Beyond it, the oldest calls of the agent with the
most bytes are cancelled."""
_PREFIX: Final = "fairlead-call."

_decode_responses = msgspec.json.Decoder(dict[str, Raw]).decode


class ParkedCall(Protocol):
    """A call that waits for its client's answers."""

    call_key: object
    """Key of the call; only a request with an equal key continues the call."""

    @property
    def agent(self) -> str:
        """Agent that the call is counted for."""
        ...

    @property
    def deadline(self) -> float:
        """Deadline in seconds of the bridge's clock."""
        ...

    @property
    def size(self) -> int:
        """Bytes stored for the client."""
        ...

    def take_answers(self, responses: dict[str, Raw]) -> None:
        """Send the client's answers to the server."""
        ...

    def as_result(self, state: str) -> bytes:
        """The questions as an `input_required` result with that `requestState`."""
        ...

    def cancel(self) -> None:
        """Cancel the call; no-op once the call has ended."""
        ...


CallT = TypeVar("CallT", bound=ParkedCall)


class Bridge(Generic[CallT]):
    """Parked calls of one gateway.

    `clock` is the clock of the calls' deadlines, in seconds. `counts` counts the calls that `enforce_bounds` cancelled.
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
        self._parked_calls: OrderedDict[str, CallT] = OrderedDict()
        """Parked calls by `requestState`, oldest first."""
        self._unused_peers: dict[tuple[bytes, bytes], list[ClientPeer]] = {}
        """Peers without a call, by their capabilities and user."""
        self._next_number = itertools.count(1).__next__

    def __len__(self) -> int:
        return len(self._parked_calls)

    def lease(self, features: bytes, person: bytes = b"") -> ClientPeer:
        """A peer with these capabilities, for one call at a time: `release` makes it available to other calls.

        `person` is the outbound user of the call, at a server that can tie its sessions to users.
        """
        unused_peers = self._unused_peers.get((features, person))
        if unused_peers:
            return unused_peers.pop()
        return ClientPeer(b"modern-%d" % self._next_number(), features, is_transient=True, person=person)

    def release(self, client: ClientPeer) -> None:
        key = client.features, client.person
        self._unused_peers.setdefault(key, []).append(client)
        if client.person and len(self._unused_peers) > MAX_PARKED:
            del self._unused_peers[next(iter(self._unused_peers))]

    def park(self, call: CallT) -> bytes:
        """Park a call. Returns its questions as an `input_required` result."""
        state = _PREFIX + self._new_id()
        self._parked_calls[state] = call
        self.enforce_bounds()
        seconds = max(call.deadline - self._clock(), 0) + LATE_SECONDS
        asyncio.get_running_loop().call_later(seconds, self._forget, state)
        return call.as_result(state)

    def resume(self, request: McpRequest, call_key: object) -> CallT | None:
        """The parked call that a request continues, after the request's answers were passed to the call.

        None if the request starts a call. Raises RpcError (-32602) if it continues an unknown call.
        """
        try:
            state = jsonrpc.decode_text(request.params["requestState"])
        except (*jsonrpc.UNREADABLE, KeyError):
            return None
        if not state.startswith(_PREFIX):
            return None
        call = self._parked_calls.get(state)
        if call is None or call.call_key != call_key:
            raise RpcError(
                jsonrpc.INVALID_PARAMS,
                "the call of this requestState has ended, or runs at another replica of the gateway: call "
                "the tool again",
                None,
            )
        try:
            responses = _decode_responses(request.params.get("inputResponses", Raw(b"{}")))
        except jsonrpc.UNREADABLE as error:
            raise RpcError(jsonrpc.INVALID_PARAMS, "params.inputResponses must be an object", None) from error
        del self._parked_calls[state]
        call.take_answers(responses)
        return call

    def close(self) -> None:
        """Cancel all parked calls."""
        calls = [*self._parked_calls.values()]
        self._parked_calls.clear()
        for call in calls:
            call.cancel()

    def enforce_bounds(self) -> None:
        """Apply MAX_PARKED_BYTES and MAX_PARKED: cancel the oldest calls of the agent with the most bytes or calls."""
        excess = sum(call.size for call in self._parked_calls.values()) - MAX_PARKED_BYTES
        if excess > 0:
            self._cancel_oldest(excess, lambda call: call.size)
        if len(self._parked_calls) > MAX_PARKED:
            self._cancel_oldest(len(self._parked_calls) - MAX_PARKED, lambda call: 1)

    def _cancel_oldest(self, excess: int, weight: Callable[[CallT], int]) -> None:
        entries = ((state, call.agent, weight(call)) for state, call in self._parked_calls.items())
        calls = [self._parked_calls.pop(state) for state in oldest_of_largest(entries, excess)]
        self._counts.count("calls_awaiting_input", "gave_way", len(calls))
        for call in calls:
            call.cancel()

    def _forget(self, state: str) -> None:
        call = self._parked_calls.pop(state, None)
        if call is not None:
            call.cancel()
