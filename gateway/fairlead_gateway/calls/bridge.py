"""A legacy server asks in mid-call, a modern client is asked by a result: the one put in place of the other.

Used by `calls.forward`. The call at the server goes on while its client has the question: it waits here, under an id
that nobody can guess, which the client brings back as `requestState` together with its answers (MCP 2026-07-28, "Multi
Round-Trip Requests"). It is this process that has the call, so a retry that reaches another replica is refused; so is
one that comes after the call's time. Sessions at servers declare what the client of the call offers, and carry one call
at a time, for a question need not say which call it belongs to.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw

from fairlead_gateway.calls.live import CANCELLED, LiveRequest, cancelled_id, offers
from fairlead_gateway.endpoint.request import Request
from fairlead_gateway.endpoint.sessions import normalized
from fairlead_gateway.upstream.inquiry import AnswerServer, Counterpart, Listener
from fairlead_mcp import eras, jsonrpc
from fairlead_mcp.errors import RpcError
from fairlead_mcp.messages import Message

MAX_PARKED: Final = 1024
KEPT_SECONDS: Final = 60.0
"""How long what became of a call is kept after its time, for a client that is late."""
MAX_PARKED_BYTES: Final = 16 << 20
"""Bytes of questions and results of all parked calls; beyond it the oldest are cancelled."""
MAX_QUESTIONS: Final = 64
_PREFIX: Final = "fairlead-call."
_WORDS: Final = (b'"elicitation"', b'"sampling"', b'"roots"')

_decode_responses = msgspec.json.Decoder(dict[str, Raw]).decode


def features_of(request: Request) -> bytes | None:
    """What a modern client offers to servers, normalized; None for nothing."""
    meta = bytes(request.params["_meta"]) if request.modern and "_meta" in request.params else b""
    if not any(word in meta for word in _WORDS):
        return None
    try:
        said = normalized(jsonrpc.decode_object(meta)[eras.META_CAPABILITIES])
    except (*jsonrpc.UNREADABLE, KeyError):
        return None
    return None if said is None else said.encode()


class Relay:
    """Stands where the one request of a call would: passes on to whichever request the client waits for now."""

    def __init__(self, live: LiveRequest, client: Counterpart) -> None:
        self.client: Counterpart | None = client
        self.asked = asyncio.Event()
        self.questions: dict[str, tuple[Message, AnswerServer]] = {}
        self._live: LiveRequest | None = live
        self.grown: Callable[[], None] = _nothing
        """Told of each question more."""
        self._ours = b""
        self._count = itertools.count(1).__next__

    def token(self, ours: bytes) -> bytes | None:
        self._ours = ours
        return None if self._live is None else self._live.token(ours)

    @property
    def size(self) -> int:
        """Bytes of the questions."""
        return sum(len(message.params) for message, _ in self.questions.values() if isinstance(message.params, Raw))

    @property
    def level(self) -> str | None:
        return None if self._live is None else self._live.level

    @property
    def listener(self) -> Listener:
        return self

    @property
    def congested(self) -> bool:
        return self._live is not None and self._live.listener.congested

    def when_clear(self, go_on: Callable[[], None]) -> None:
        if self._live is None:
            go_on()
        else:
            self._live.listener.when_clear(go_on)

    def log_level(self, to_modern: bool) -> bytes | None:
        return None if self._live is None else self._live.log_level(to_modern)

    def notify(self, message: Message) -> None:
        if message.method == CANCELLED and isinstance(message.params, Raw):
            given_up = cancelled_id(message.params)
            kept = {key: asked for key, asked in self.questions.items() if bytes(_id_of(asked[0])) != given_up}
            self.questions = kept
            self._settle()
        elif self._live is not None:
            self._live.notify(message)

    def on_request(self, message: Message, answer: AnswerServer) -> None:
        """The server asks: the client is told with the next result that it gets."""
        if not offers(self.client, message) or len(self.questions) >= MAX_QUESTIONS:
            answer(jsonrpc.reply_to_server(message))
            return
        self.questions[f"q{self._count()}"] = message, answer
        self.asked.set()
        self.grown()

    def attach(self, live: LiveRequest) -> None:
        self._live = live
        live.token(self._ours)

    def detach(self) -> None:
        self._live = None

    def give(self, responses: dict[str, Raw]) -> None:
        """Answers of the client; what it leaves out is asked again."""
        for key, response in responses.items():
            found = self.questions.pop(key, None)
            if found is not None:
                message, answer = found
                answer(jsonrpc.result(_id_of(message), response))
        self._settle()

    def _settle(self) -> None:
        if not self.questions:
            self.asked.clear()

    def as_result(self, state: str) -> bytes:
        """The questions as the result of a modern call."""
        asked = {key: _question(message) for key, (message, _) in self.questions.items()}
        return jsonrpc.encode({"resultType": "input_required", "inputRequests": asked, "requestState": state})


def _id_of(message: Message) -> Raw:
    assert isinstance(message.id, Raw)
    return message.id


def _question(message: Message) -> dict[str, object]:
    said: dict[str, object] = {"method": message.method}
    if message.params is not UNSET:
        said["params"] = message.params
    return said


class Bridged:
    """One call at a legacy server, over all its rounds. `of` says what it is, so that no other call goes on with it."""

    def __init__(self, relay: Relay, of: object, until: float, work: Coroutine[Any, Any, tuple[Raw, bool]]) -> None:
        self.relay = relay
        self.of = of
        self.until = until
        self.task = asyncio.get_running_loop().create_task(work, name="call over rounds")
        self.task.add_done_callback(_seen)

    @property
    def size(self) -> int:
        """Bytes that are kept for its client."""
        if not self.task.done():
            return self.relay.size
        return 0 if self.task.cancelled() or self.task.exception() is not None else len(self.task.result()[0])

    async def next(self) -> Raw | None:
        """The result; None when the server asks something first. Canceling it cancels the call. Raises McpError."""
        asked = asyncio.ensure_future(self.relay.asked.wait())
        try:
            await asyncio.wait([self.task, asked], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self.task.cancel()
            raise
        finally:
            asked.cancel()
        return self.task.result()[0] if self.task.done() else None


def _seen(task: asyncio.Task[Any]) -> None:
    """Its client may never come back, which is no reason for a complaint."""
    if not task.cancelled():
        task.exception()


def _nothing() -> None:
    pass


class Bridge:
    """The calls that wait for their clients. `clock` as of the dispatcher."""

    def __init__(
        self, clock: Callable[[], float], new_id: Callable[[], str] = lambda: secrets.token_urlsafe(24)
    ) -> None:
        self._clock = clock
        self._new_id = new_id
        self._parked: OrderedDict[str, Bridged] = OrderedDict()
        self._free: dict[bytes, list[Counterpart]] = {}
        self._count = itertools.count(1).__next__

    def __len__(self) -> int:
        return len(self._parked)

    def lease(self, features: bytes) -> Counterpart:
        """A client of our own to open a session for; given back by `release`, and used by one call at a time."""
        free = self._free.get(features)
        return free.pop() if free else Counterpart(b"modern-%d" % self._count(), features, passing=True)

    def release(self, client: Counterpart) -> None:
        self._free.setdefault(client.features, []).append(client)

    def park(self, call: Bridged) -> bytes:
        """Keep a call for its client, and put its questions into a result."""
        state = _PREFIX + self._new_id()
        self._parked[state] = call
        call.task.add_done_callback(lambda _: self._make_room())
        call.relay.grown = self._make_room
        self._make_room()
        seconds = max(call.until - self._clock(), 0) + KEPT_SECONDS
        asyncio.get_running_loop().call_later(seconds, self._forget, state)
        return call.relay.as_result(state)

    def resume(self, request: Request, of: object) -> Bridged | None:
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
        call.relay.give(responses)
        return call

    async def aclose(self) -> None:
        """Cancel the calls that wait for their clients."""
        tasks = [call.task for call in self._parked.values()]
        self._parked.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _make_room(self) -> None:
        """Cancel the oldest calls that are one too many, or that have no room for what they keep."""
        kept = sum(call.size for call in self._parked.values())
        while self._parked and (len(self._parked) > MAX_PARKED or kept > MAX_PARKED_BYTES):
            _, oldest = self._parked.popitem(last=False)
            kept -= oldest.size
            oldest.task.cancel()

    def _forget(self, state: str) -> None:
        call = self._parked.pop(state, None)
        if call is not None:
            call.task.cancel()
