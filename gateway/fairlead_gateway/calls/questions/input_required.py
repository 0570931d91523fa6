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
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import UNSET, Raw

from fairlead_api.reports import NEUTRAL
from fairlead_gateway.calls.path.attempts import GuardedRequest
from fairlead_gateway.calls.path.outgoing import upstream_request
from fairlead_gateway.calls.questions.message_relay import CANCELLED, MessageRelay, cancelled_id, offers
from fairlead_gateway.calls.sealed.client_capabilities import normalized
from fairlead_gateway.calls.translation.errors import ANSWER_ERRORS
from fairlead_gateway.core.client_peer import AnswerServer, ClientPeer
from fairlead_gateway.core.request import McpRequest
from fairlead_gateway.core.route import Route
from fairlead_gateway.core.share_counts import ShareCounts
from fairlead_gateway.core.upstream_request import UpstreamRequest
from fairlead_gateway.limits.shares import oldest_of_largest
from fairlead_gateway.reports.outcomes import outcome_of_result
from fairlead_mcp import eras, jsonrpc
from fairlead_mcp.errors import RpcError, Timeout
from fairlead_mcp.messages import Message, ResultMembers

if TYPE_CHECKING:
    from fairlead_gateway.calls.path.call import ToolCall
    from fairlead_gateway.calls.path.context import CallContext

MAX_PARKED: Final = 1024
KEPT_SECONDS: Final = 60.0
"""How long what became of a call is kept after its time, for a client that is late."""
MAX_PARKED_BYTES: Final = 16 << 20
"""Bytes of questions and results of all parked calls; beyond it the oldest of the agent with most are
cancelled."""
MAX_QUESTIONS: Final = 64
_PREFIX: Final = "fairlead-call."
_WORDS: Final = (b'"elicitation"', b'"sampling"', b'"roots"')

_decode_responses = msgspec.json.Decoder(dict[str, Raw]).decode


def features_of(request: McpRequest) -> bytes | None:
    """Capabilities that a modern client declares with a request, normalized raw JSON; None for none."""
    meta = bytes(request.params["_meta"]) if request.modern and "_meta" in request.params else b""
    if not any(word in meta for word in _WORDS):
        return None
    try:
        said = normalized(jsonrpc.decode_object(meta)[eras.META_CAPABILITIES])
    except (*jsonrpc.UNREADABLE, KeyError):
        return None
    return None if said is None else said.encode()


class BridgedCall(GuardedRequest):
    """One call at a legacy server, over all the requests of its modern client; the first makes it, each gets its
    questions or its outcome. `of` says what it is, so that no other call goes on with it.
    """

    __slots__ = (
        "_agent",
        "_bridge",
        "_call",
        "_count",
        "_flushing",
        "_ours",
        "_relay",
        "_request",
        "error",
        "of",
        "questions",
        "result",
    )

    def __init__(
        self,
        context: CallContext,
        bridge: Bridge,
        route: Route,
        agent: str,
        of: object,
        started: float,
        client: ClientPeer,
    ) -> None:
        super().__init__(context, route, started)
        self.client = client
        self.of = of
        self.questions: dict[str, tuple[Message, AnswerServer]] = {}
        """Questions of the server that the client has not answered, by the key that it gets them under."""
        self.result: Raw | None = None
        self.error: Exception | None = None
        """Its outcome, kept for the client."""
        self._agent = agent
        self._bridge = bridge
        self._call: ToolCall | None = None
        self._relay: MessageRelay | None = None
        self._request: McpRequest | None = None
        self._ours = b""
        self._count = itertools.count(1).__next__
        self._flushing = False

    @property
    def agent(self) -> str:
        return self._agent

    @property
    def size(self) -> int:
        """Bytes that are kept for its client."""
        if self.done:
            return 0 if self.result is None else len(self.result)
        return sum(len(message.params) for message, _ in self.questions.values() if isinstance(message.params, Raw))

    def attach(self, call: ToolCall, relay: MessageRelay) -> None:
        """Answer a request of the client with the outcome or with questions; the first request begins the call."""
        self._call = call
        self._relay = relay
        if not self._ours:
            self.span = call.span
            self.begin()
        elif self.done:
            self._deliver()
        else:
            relay.follow(self._ours)
            self._flush_soon()

    def cancel(self) -> None:
        """No-op once it is over."""
        if not self.done:
            self.stop()
            self._over()

    def give(self, responses: dict[str, Raw]) -> None:
        """Answers of the client; what it leaves out is asked again."""
        for key, response in responses.items():
            found = self.questions.pop(key, None)
            if found is not None:
                message, answer = found
                answer(jsonrpc.result(_id_of(message), response))

    def as_result(self, state: str) -> bytes:
        """The questions as the result of a modern call."""
        asked = {key: _question(message) for key, (message, _) in self.questions.items()}
        return jsonrpc.encode({"resultType": "input_required", "inputRequests": asked, "requestState": state})

    # Its request and what the server says to it

    def outgoing(self, modern: bool) -> UpstreamRequest | None:
        call = self._call
        assert call is not None
        deadline = self.deadline if call.request.token is None else self.watched_deadline()
        made = upstream_request(
            self.context,
            self.route,
            call.request,
            call.exchange,
            call.request.params,
            deadline,
            modern,
            call.level,
            self.client,
            traced=self.span is not None,
            continued=call.request.continued,
        )
        self._ours = made.id
        if self._relay is not None:
            self._relay.follow(made.id)
        return made

    def notify(self, message: Message) -> None:
        self.route.guard.responses_seen += 1
        if message.method == CANCELLED and isinstance(message.params, Raw):
            given_up = cancelled_id(message.params)
            kept = {key: asked for key, asked in self.questions.items() if bytes(_id_of(asked[0])) != given_up}
            self.questions = kept
        elif self._relay is not None and self._relay.notify(message):
            self.progressed()

    def ask(self, message: Message, answer: AnswerServer) -> None:
        """Keep a question of the server for the next result that the client gets."""
        self.route.guard.responses_seen += 1
        self.measure(NEUTRAL)
        if not offers(self.client, message) or len(self.questions) >= MAX_QUESTIONS:
            answer(jsonrpc.reply_to_server(message))
            return
        self.idempotent = False  # nobody is asked the same twice
        self.questions[f"q{self._count()}"] = message, answer
        self._bridge.grown()
        self._flush_soon()

    @property
    def congested(self) -> bool:
        return self._call is not None and self._call.congested

    def when_writable(self, go_on: Callable[[], None]) -> None:
        if self._call is None:
            go_on()
        else:
            self._call.when_writable(go_on)

    def succeeded(self, result: Raw, members: ResultMembers | None) -> None:
        self.measure(outcome_of_result(result))
        self.result = result
        self._over()

    def gave_up(self, error: Exception) -> None:
        self.error = error
        self._over()

    # Inside

    def _flush_soon(self) -> None:
        """Ask once the server has said all that it has to say now: several questions go together."""
        if self.questions and not self._flushing and self._call is not None:
            self._flushing = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        call = self._call
        if call is None or self.done or not self.questions:
            return
        self._call = self._relay = None
        try:
            call.asked(self._bridge.park(self))
        except ANSWER_ERRORS as error:
            call.answer_failed(error)
            self.cancel()  # its client does not know its state

    def _over(self) -> None:
        if self.done:
            return
        self.done = True
        self.unwatch()
        if self.client is not None:
            self._bridge.release(self.client)
        self._bridge.grown()
        if self._call is not None:
            self._deliver()

    def _deliver(self) -> None:
        call, self._call, self._relay = self._call, None, None
        if call is None or call.done:
            return
        if self.error is not None:
            call.gave_up(self.error)
        elif self.result is not None:
            try:
                call.finish(self.result, from_modern=False)
            except ANSWER_ERRORS as error:
                call.answer_failed(error)
        else:
            call.gave_up(Timeout("the call was given up while its client had its question", sent=True))


def _id_of(message: Message) -> Raw:
    assert isinstance(message.id, Raw)
    return message.id


def _question(message: Message) -> dict[str, object]:
    said: dict[str, object] = {"method": message.method}
    if message.params is not UNSET:
        said["params"] = message.params
    return said


class Bridge:
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
        self._parked: OrderedDict[str, BridgedCall] = OrderedDict()
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

    def park(self, call: BridgedCall) -> bytes:
        """Keep a call for its client, and put its questions into a result."""
        state = _PREFIX + self._new_id()
        self._parked[state] = call
        self.grown()
        seconds = max(call.deadline - self._clock(), 0) + KEPT_SECONDS
        asyncio.get_running_loop().call_later(seconds, self._forget, state)
        return call.as_result(state)

    def resume(self, request: McpRequest, of: object) -> BridgedCall | None:
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

    def grown(self) -> None:
        """Cancel calls that are one too many, or that have no room for what they keep: the oldest of the agent that has
        most of them, or of what is kept.
        """
        excess = sum(call.size for call in self._parked.values()) - MAX_PARKED_BYTES
        if excess > 0:
            self._cancel_oldest(excess, lambda call: call.size)
        if len(self._parked) > MAX_PARKED:
            self._cancel_oldest(len(self._parked) - MAX_PARKED, lambda call: 1)

    def _cancel_oldest(self, excess: int, weight: Callable[[BridgedCall], int]) -> None:
        entries = ((state, call.agent, weight(call)) for state, call in self._parked.items())
        calls = [self._parked.pop(state) for state in oldest_of_largest(entries, excess)]
        self._counts.count("calls_awaiting_input", "gave_way", len(calls))
        for call in calls:
            call.cancel()

    def _forget(self, state: str) -> None:
        call = self._parked.pop(state, None)
        if call is not None:
            call.cancel()
