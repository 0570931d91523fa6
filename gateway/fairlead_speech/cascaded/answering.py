"""Answers individual turns of a provider's speech session by a cascaded engine (speech to text, a model, text to
speech).

The engine has a session of its own, the *inner session*, in which it calls tools. Its events are forwarded to the
client of the provider's session, which this module calls the *other session*.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import msgspec

from fairlead_speech.bridge import PROVIDER_CLOSED
from fairlead_speech.cascaded.conversation import spoken_text
from fairlead_speech.cascaded.session import CascadedSession
from fairlead_speech.metrics import CANCELLED, ERROR, OK
from fairlead_speech.realtime import events
from fairlead_speech.realtime.events import Event, member, members, text
from fairlead_speech.realtime.session import RealtimeSession
from fairlead_speech.session import MessageSink
from fairlead_speech.sockets import Closing
from fairlead_speech.tiers import SpokenTier

TRANSCRIPT_SECONDS: Final = 3.0
"""Seconds to wait for the transcript of a turn. Without a transcript, the provider of the other session answers the
turn.
"""
MAX_REMEMBERED: Final = 2048
"""Maximum number of ids that are stored, for the engine's items and for its calls each."""
MAX_CALL_ID: Final = 256
"""Maximum number of characters of a call id that stays stored after the call has got its result."""
_SHARED_SETTINGS: Final = ("instructions", "tools", "tool_choice", "output_modalities")
_SPEECH_STARTED: Final = b'{"type":"input_audio_buffer.speech_started"}'
_BUFFER_CLEARED: Final = b'{"type":"input_audio_buffer.cleared"}'
"""Events in the form in which a provider sends them. The first makes the inner session stop requesting responses, the
second makes it continue.
"""
OnTurnEnd = Callable[[str, Sequence[tuple[str, str]]], Awaitable[None]]
"""Function that is called at the end of a turn, with the outcome and the (id, text) of each message of the engine."""
_encode: Final = msgspec.json.encode
log = logging.getLogger(__name__)


class RelayedEvents:
    """Forwards the engine's events to the client of the other session, and records the ids of its items and calls."""

    def __init__(self, client: MessageSink) -> None:
        self._client = client
        self._created_event: bytes | None = None
        """Event `response.created`, which is held back until the response has output."""
        self.last_item: str | None = None
        """Id of the last item of the other session that the client has received."""
        self._engine_items: dict[str, None] = {}
        self.response: str | None = None
        """Id of the response in progress; None: there is none."""
        self.made_calls: dict[str, None] = {}
        """Ids of the engine's calls of the client's tools. They remain after the result, so that a repeated result is
        recognized.
        """
        self.open_calls: set[str] = set()
        """Ids of the engine's calls of the client's tools that have no result yet."""

    def __contains__(self, item: str) -> bool:
        """Whether an item was made by the engine."""
        return item in self._engine_items

    async def send_audio(self, payload: bytes) -> None:
        """Forward an event with audio, or with the transcript of audio, of an item in progress."""
        await self._client.send(payload)

    async def send(self, payload: bytes) -> None:
        """Forward an event about a response or an item, an `error`, or an event of the gateway. Drop other events."""
        kind = events.event_type(payload)
        if not kind.startswith(("response.", "conversation.item.", "error", "fairlead.")):
            return
        if kind == "response.created":
            self.response = text(member(events.read(payload), "response"), "id")
            self._created_event = payload
            return
        event = events.read(payload)
        if kind == "response.done":
            self.response = None
        self._remember(kind, event)
        created_event, self._created_event = self._created_event, None
        if (
            created_event is not None
            and kind == "response.done"
            and member(event, "response").get("status") == "failed"
        ):
            return  # the client does not see a response that failed without output
        if created_event is not None:
            await self._client.send(created_event)
        await self._client.send(self._with_visible_predecessor(event) if "previous_item_id" in event else payload)

    def _remember(self, kind: str, event: Event) -> None:
        item = member(event, "item")
        if kind == "conversation.item.added":
            _add_bounded(self._engine_items, text(item, "id"))
        elif kind == "response.output_item.done" and item.get("type") == "function_call":
            self.open_calls.add(text(item, "call_id"))
            if len(text(item, "call_id")) <= MAX_CALL_ID:
                _add_bounded(self.made_calls, text(item, "call_id"))

    def _with_visible_predecessor(self, event: Event) -> bytes:
        """Encode an event. If the client never received the item that `previous_item_id` names, replace that id with
        the id of the last item that the client received.
        """
        previous_id = event["previous_item_id"]
        return _encode(
            {**event, "previous_item_id": previous_id if previous_id in self._engine_items else self.last_item}
        )


class TurnAnswerer:
    """Answers turns of another session by one cascaded engine, one turn at a time. Its owner calls `aclose` at the
    end.
    """

    def __init__(
        self, engine: CascadedSession, session: RealtimeSession, relay: RelayedEvents, tier: SpokenTier
    ) -> None:
        """`session`: the inner session, between the relay and the engine. `tier`: the tier of the inner session."""
        self.engine = engine
        self.relay = relay
        self._idle = asyncio.Event()
        self._idle.set()
        self._session = session
        self._tier = tier
        self._on_end: OnTurnEnd | None = None
        self._earlier_items: set[str] = set()
        """Ids of the engine's items before the turn; items that are not among them belong to the answer."""
        self._cancelled = False
        self._turn = 0
        """Number of the turn. An interruption increases it too, so that an `answer` that was suspended notices the
        interruption.
        """
        self._request_id = ""
        """`event_id` of the turn's first `response.create`."""
        self._session_config: Event = {}
        self._opened = asyncio.Event()
        """Set when the inner session is open or has ended."""
        self._pump_task = asyncio.create_task(self._pump(), name="cascaded engine of a routed speech session")

    @property
    def active(self) -> bool:
        """Whether the engine is answering a turn."""
        return not self._idle.is_set()

    async def answer(self, tier: str | None, session: Event, response: Event, on_end: OnTurnEnd) -> None:
        """Answer the last turn. Raises UnknownTier.

        `session`: instructions, tools and modalities of the client's session. `response`: the member of the client's
        `response.create`. `on_end`: called at the end of the turn.
        """
        self._tier.select(tier)
        self._idle.clear()
        self._on_end = on_end
        self._cancelled = False
        self._turn += 1
        turn = self._turn
        self._earlier_items = {item.id for item in self.engine.state.conversation.items()}
        await self._opened.wait()
        if turn != self._turn or self._pump_task.done():
            return
        await self._session.from_provider(_BUFFER_CLEARED)
        self.engine.state.end_turn()
        if session != self._session_config:
            self._session_config = session
            update = {"type": "session.update", "event_id": events.new_id()}
            await self._send({**update, "session": {"type": "realtime", **session}})
        if turn == self._turn:
            await self._session.offer_tools()
        if turn == self._turn:  # after an interruption, nothing would cancel the response
            self._request_id = events.new_id()
            await self._send(
                {"type": "response.create", "event_id": self._request_id, "response": _functions_only(response)}
            )

    async def wait(self) -> None:
        """Wait until the engine is not answering a turn."""
        await self._idle.wait()

    def add_message(self, role: str, words: str) -> str:
        """Add a message of the other session to the engine's conversation. Returns the id of its item."""
        self.engine.add_message(role, words)
        return self.engine.state.conversation.last or ""

    async def take_client_event(self, event: Event) -> None:
        """Handle an event of the client that concerns an item or a call of the engine."""
        if event.get("type") == "conversation.item.create":
            self.relay.open_calls.discard(text(member(event, "item"), "call_id"))
        await self._send(event)

    async def finish_client_calls(self) -> None:
        """Let the engine continue after the results of the client's tools, for APIs whose clients do not send
        `response.create`.
        """
        await self._session.finish_client_calls()

    async def interrupt(self, reason: str) -> None:
        """Interrupt the answer. Calls of read-only tools are cancelled; the results of other calls are used in the next
        turn.
        """
        self._cancelled = True
        self._turn += 1
        await self._session.from_provider(_SPEECH_STARTED)
        if not await self.engine.interrupt(reason):
            await self._finish(CANCELLED)
        await self._idle.wait()

    async def aclose(self) -> None:
        """Close the inner session and the engine."""
        self._on_end = None
        self._idle.set()
        self._pump_task.cancel()
        await asyncio.gather(self._pump_task, return_exceptions=True)
        await self._session.aclose()  # before the engine, which would respond to a late result
        await self.engine.close(Closing(1000))

    async def _send(self, event: Event) -> None:
        payload = await self._session.from_client(_encode(event))
        if payload is not None:
            await self.engine.send(payload)

    async def _pump(self) -> None:
        reader = self._session.provider_messages
        while not isinstance(received := await self.engine.receive(), Closing):
            try:
                if reader.is_audio(received):
                    await self.relay.send_audio(received)
                    continue
                forwarded = await self._session.from_provider(received)
                refused_event_id = _refused_event_id(received)
                if refused_event_id:
                    await self._on_error(refused_event_id)
                elif forwarded is not None:
                    await self.relay.send(forwarded)
                self._opened.set()
                if events.event_type(received) == "response.done":
                    await self._on_response_done(member(events.read(received), "response"))
            except Exception:
                log.exception("A cascaded engine failed to answer a turn of a speech session")
                await self._finish(ERROR)
        log.info("The cascaded engine of a speech session closed: %s", received.reason)
        self._session.end.request(PROVIDER_CLOSED, received.for_other_side())
        self._opened.set()
        await self._finish(ERROR)

    async def _on_error(self, event_id: str) -> None:
        """Handle the engine's refusal of an event of the gateway. The turn ends if that event was its first
        `response.create`.
        """
        log.info("A cascaded engine refused an event of the gateway")
        if event_id == self._request_id:
            await self._finish(ERROR)

    async def _on_response_done(self, response: Event) -> None:
        """Finish the turn if this was the turn's last response."""
        status = response.get("status")
        if self._cancelled or status == "cancelled":
            await self._finish(CANCELLED)
        elif status == "failed":
            await self._finish(ERROR)
        elif not self._session.responding and not self.relay.open_calls:
            await self._finish(OK)

    async def _finish(self, outcome: str) -> None:
        on_end, self._on_end = self._on_end, None
        self.relay.open_calls.clear()
        if on_end is None:
            self._idle.set()
            return
        messages = [
            (item.id, spoken_text(item.wire))
            for item in self.engine.state.conversation.items()
            if item.id in self.relay
            and item.id not in self._earlier_items
            and not item.filler
            and item.wire.get("role") == "assistant"
        ]
        try:
            await on_end(outcome, [(item_id, words) for item_id, words in messages if words])
        finally:
            self._idle.set()


def shared_config(session: dict[str, Any]) -> Event:
    """Members of a client's session that also apply to answers of the engine."""
    return _functions_only({name: session[name] for name in _SHARED_SETTINGS if name in session})


def _functions_only(config: Event) -> Event:
    """Remove the tools that are not of type `function` from a configuration, because an engine cannot call them."""
    if "tools" not in config:
        return config
    return {**config, "tools": [tool for tool in members(config, "tools") if tool.get("type") == "function"]}


def _add_bounded(ids: dict[str, None], ident: str) -> None:
    """Add an id, and drop the oldest if there are more than MAX_REMEMBERED."""
    ids[ident] = None
    if len(ids) > MAX_REMEMBERED:
        del ids[next(iter(ids))]


def _refused_event_id(payload: bytes) -> str:
    """`event_id` of the gateway's event that the engine refuses by an event `error`; empty for events of other
    types.
    """
    if events.event_type(payload) != "error":
        return ""
    event_id = text(member(events.read(payload), "error"), "event_id")
    return event_id if event_id.startswith(events.ID_PREFIX) else ""
