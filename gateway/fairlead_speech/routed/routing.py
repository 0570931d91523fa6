"""Session of OpenAI Realtime whose slow turns a cascaded engine answers in the provider's place.

The provider is configured not to create responses to speech. Once a turn is transcribed, its tier decides who answers:
the provider, by a `response.create`, or the engine, whose answer the provider then gets as an item of the conversation.
So each turn has one answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from fairlead_formats.messages.call import ModelCall
from fairlead_offers.offer.offers import ToolOffer
from fairlead_speech.cascaded.answering import TRANSCRIPT_SECONDS, TurnAnswerer
from fairlead_speech.cascaded.conversation import spoken_text
from fairlead_speech.messages import MessageReader, UnreadableMessage
from fairlead_speech.metrics import ERROR, SpeechMetrics
from fairlead_speech.realtime import events
from fairlead_speech.realtime.events import CLIENT_MESSAGES, PROVIDER_MESSAGES, Event, member, text
from fairlead_speech.realtime.session import RealtimeSession
from fairlead_speech.routed.config import TRANSCRIPTION, RoutedConfig, member_change
from fairlead_speech.routed.items import RoutedItems
from fairlead_speech.session import MessageSink
from fairlead_speech.tiers import UnknownTier

_ITEM_EVENTS: Final = frozenset(
    {"conversation.item.truncate", "conversation.item.delete", "conversation.item.retrieve"}
)
_encode: Final = msgspec.json.encode
log = logging.getLogger(__name__)


class RoutedSession:
    """Routed session: between the bridge and the session of the provider."""

    client_messages: MessageReader = CLIENT_MESSAGES
    provider_messages: MessageReader = PROVIDER_MESSAGES

    def __init__(
        self,
        session: RealtimeSession,
        answerer: TurnAnswerer,
        is_slow: Callable[[str | None], bool],
        transcription: str,
        metrics: SpeechMetrics,
        provider: MessageSink,
    ) -> None:
        """`is_slow`: whether the engine answers turns of a tier. `transcription`: the provider's model for transcripts,
        where the client asks for none.
        """
        self._session = session
        self.end = session.end
        self._answerer = answerer
        self._is_slow = is_slow
        self._metrics = metrics
        self._provider = provider
        self._config = RoutedConfig(transcription)
        self._routing_updates: dict[str, str] = {}
        """Members of `audio.input` that routing changes, by `event_id` of the update."""
        self._unanswered = False
        """Whether the user's last turn has no response requested."""
        self._engine_has_words = False
        """Whether the engine's conversation has the words of the last turn."""
        self._speech_stopped = False
        """Whether the provider detected the end of the turn that is committed next."""
        self._untranscribed: str | None = None
        """Item of the last turn of speech, while it has no transcript."""
        self._pending_request: bytes | None = None
        """The client's `response.create` that waits for the transcript; empty: the turn is answered without one."""
        self._engine_request: bytes = b""
        """The client's `response.create` that the engine answers; empty: there is none."""
        self._deadline: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._items = RoutedItems(session, answerer)

    @property
    def responding(self) -> bool:
        """Whether the model is in the middle of an answer, or owes one."""
        return self._session.responding

    async def set_tools(self, offer: ToolOffer) -> None:
        """Offer these tools."""
        await self._session.set_tools(offer)

    async def send_result(self, call: ModelCall, result: Mapping[str, Any]) -> None:
        """Send the result of a call to the provider."""
        await self._session.send_result(call, result)

    async def announce_drain(self, seconds: float) -> None:
        """Do nothing: the wire format has no such event."""

    async def aclose(self) -> None:
        """Cancel the tasks of the session."""
        self._cancel_deadline()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._answerer.aclose()
        await self._session.aclose()

    # Events of the client

    async def from_client(self, payload: bytes) -> bytes | None:
        """Event of the client in the form for the provider; None: nothing is forwarded."""
        kind = events.event_type(payload)
        event = {} if kind == events.APPEND else events.read(payload)  # it may be large: not decoded again
        if kind == "session.update":
            forwarded = await self._session.from_client(_encode(self._config.for_provider(event)))
            if forwarded is not None:
                self._config.add_update(text(events.read(forwarded), "event_id"), member(event, "session"))
            return forwarded
        if kind == "response.create":
            return await self._client_response_create(payload, event)
        if kind == "response.cancel" and self._cancels_engine(event):
            await self._answerer.interrupt("client_cancelled")
            return None
        if self._concerns_engine(kind, event):
            await self._answerer.take_client_event(event)
            if kind == "conversation.item.truncate":
                await self._items.truncate(text(event, "item_id"))
            elif kind == "conversation.item.delete":
                await self._items.delete(text(event, "item_id"))
            return None
        if kind == "conversation.item.create":
            return await self._client_item_create(event)
        if kind == "conversation.item.delete":
            await self._items.delete(text(event, "item_id"))
        return await self._session.from_client(payload)

    def refusal(self, error: UnreadableMessage) -> bytes | None:
        """Event `error`: the session goes on."""
        return self._session.refusal(error)

    async def _client_item_create(self, event: Event) -> bytes | None:
        event = self._items.for_provider(event)
        forwarded = await self._session.from_client(_encode(event))
        item = member(event, "item")
        if item.get("role") == "user":
            self._unanswered = True
            self._engine_has_words = bool(spoken_text(item))
        if item.get("type") == "message" and spoken_text(item):
            self._items.copy_to_engine(text(item, "id"), text(item, "role"), spoken_text(item))
        return forwarded

    async def _client_response_create(self, payload: bytes, event: Event) -> bytes | None:
        request, answerer = member(event, "response"), self._answerer
        if request.get("conversation") == "none":
            return await self._session.from_client(payload)
        if answerer.active:
            await answerer.take_client_event(
                event
            )  # the engine goes on after results of the client's tools, or refuses it
            return None
        if self._untranscribed is not None and self._config.routes:
            if self._pending_request is None:
                self._start_deadline()
            self._pending_request = (
                payload  # in place of the response that the provider would have created: a turn has one
            )
            await self._session.hold(elsewhere=True)
            return None
        fresh, self._unanswered = self._unanswered, False
        if fresh and not self._session.responding and self._for_engine(request):
            await self._answer_by_engine(payload)
            return None
        return await self._session.from_client(payload)

    def _concerns_engine(self, kind: str, event: Event) -> bool:
        """Whether an event of the client is about an item or a call of the engine."""
        relay = self._answerer.relay
        if kind == "conversation.item.create":
            call = text(member(event, "item"), "call_id")
            return call in relay.made_calls or call in relay.open_calls
        return kind in _ITEM_EVENTS and text(event, "item_id") in relay

    def _cancels_engine(self, event: Event) -> bool:
        """Whether a `response.cancel` is for the engine's response: by its id, or without any id."""
        wanted = text(event, "response_id")
        return self._answerer.active and (not wanted or wanted == self._answerer.relay.response)

    # Events of the provider

    async def from_provider(self, payload: bytes) -> bytes | None:
        """Event of the provider in the form for the client; None: nothing is forwarded."""
        kind = events.event_type(payload)
        event = events.read(payload)
        if kind == "session.created":
            return await self._on_session_created(payload, event)
        if kind == "input_audio_buffer.speech_stopped":
            self._speech_stopped = True
        elif kind == "input_audio_buffer.committed":
            await self._on_committed(event)
        forwarded = await self._session.from_provider(payload)
        if kind == "input_audio_buffer.speech_started":
            if self._answerer.active and self._config.interrupts:
                await self._answerer.interrupt("turn_detected")
        elif kind == "input_audio_buffer.committed" and not self._config.routes:
            await self._decide()
        elif kind == "error":
            await self._on_error(member(event, "error"))
        elif kind.startswith("response."):
            self._items.on_response_event(kind, event)
        elif kind == "conversation.item.added" and forwarded is not None:
            self._answerer.relay.last_item = text(member(event, "item"), "id") or None
        elif kind == "session.updated" and forwarded is not None:
            self._config.accept_update()
            return _encode(self._config.for_client(events.read(forwarded)))
        elif kind.startswith(events.TRANSCRIPT):
            await self._on_transcription(kind, event)
            return forwarded if self._config.input_config.get(TRANSCRIPTION) else None
        return forwarded

    async def _on_session_created(self, payload: bytes, event: Event) -> bytes | None:
        updates = self._config.begin(member(event, "session"))
        forwarded = await self._session.from_provider(payload)
        for name, wanted in updates:
            self._routing_updates[await self._session.update_session(wanted)] = name
        return forwarded

    async def _on_error(self, error: Event) -> None:
        """Take an `error`. Where it refuses what routing needs, the provider answers all turns from now on."""
        self._config.refuse_update(text(error, "event_id"))
        name = self._routing_updates.pop(text(error, "event_id"), "")
        if not name or not self._config.routes:
            return
        log.warning(
            "No turn of this session goes to an engine: the provider refused %s: %.200s", name, text(error, "message")
        )
        self._config.routes = False
        for other in self._routing_updates.values():
            await self._session.update_session(member_change(self._config.input_config, other))
        await self._decide()

    async def _on_committed(self, event: Event) -> None:
        by_provider, self._speech_stopped = self._speech_stopped, False
        self._untranscribed = text(event, "item_id")
        self._unanswered = True
        self._engine_has_words = False
        if by_provider and self._config.answers_speech and not self._session.creates_response:
            self._pending_request = b""
            self._start_deadline()
            await self._session.hold(elsewhere=True)

    async def _on_transcription(self, kind: str, event: Event) -> None:
        """Take a transcript: the tier of the turn decides who answers."""
        ended = kind.endswith(("completed", "failed"))
        last = text(event, "item_id") == self._untranscribed
        if kind.endswith("completed") and text(event, "transcript").strip():
            self._items.copy_to_engine(text(event, "item_id"), "user", text(event, "transcript"))
            self._engine_has_words = self._engine_has_words or last
        if ended and last:
            await self._session.wait_for_texts()
            await self._decide()

    # Inside

    def _start_deadline(self) -> None:
        """Decide without a transcript after TRANSCRIPT_SECONDS."""
        self._cancel_deadline()
        self._deadline = asyncio.get_running_loop().call_later(TRANSCRIPT_SECONDS, self._spawn_decision)

    def _spawn_decision(self) -> None:
        task = asyncio.create_task(self._decide(), name="turn without a transcript")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    async def _decide(self) -> None:
        """Have the turn answered that waited for its transcript."""
        self._cancel_deadline()
        self._unanswered = self._unanswered and self._pending_request is None
        owed, self._pending_request, self._untranscribed = self._pending_request, None, None
        if owed is None:
            return
        if self._answerer.active:  # of a client whose speech does not interrupt responses
            await self._answerer.interrupt("turn_detected")
        if self._session.speaking:  # answered together with the turn in progress
            await self._session.hold(elsewhere=False)
        elif self._for_engine(member(_response_request(owed), "response")):
            await self._answer_by_engine(owed)
        else:
            await self._answer_by_provider(owed)

    def _for_engine(self, request: Event) -> bool:
        """Whether the engine answers the last turn. A request with its own `input` is about other things; words that
        are not transcribed are left to the provider, which has their sound.
        """
        wanted = self._config.routes and self._engine_has_words and "input" not in request
        return wanted and self._is_slow(self._session.tier)

    async def _answer_by_provider(self, payload: bytes) -> None:
        """Have the provider answer, by the client's `response.create`; empty: by one of the gateway."""
        if not payload:
            await self._session.request_response()
            return
        await self._session.hold(elsewhere=False)
        forwarded = await self._session.from_client(payload)
        if forwarded is not None:
            await self._provider.send(forwarded)

    async def _answer_by_engine(self, payload: bytes) -> None:
        """Have the engine answer, by the client's `response.create`; empty: there is none."""
        self._engine_request = payload
        request = member(_response_request(payload), "response")
        await self._session.hold(elsewhere=True)
        try:
            await self._answerer.answer(self._session.tier, self._config.for_engine, request, self._on_engine_done)
        except UnknownTier:
            await self._answer_by_provider(payload)

    async def _on_engine_done(self, outcome: str, messages: Sequence[tuple[str, str]]) -> None:
        """Return the conversation to the provider, with the engine's messages; it answers where the engine failed
        without one.
        """
        self._metrics.routed[outcome] += 1
        await self._items.copy_to_provider(messages)
        if outcome == ERROR and not messages:  # a filler does not answer
            await self._answer_by_provider(self._engine_request)
        else:
            await self._session.hold(elsewhere=False)


def _response_request(payload: bytes) -> Event:
    """Event of a client's `response.create`; empty where there is none."""
    return events.read(payload) if payload else {}
