"""Session of OpenAI Realtime whose slow turns a cascaded engine answers in the provider's place.

The provider is told not to answer speech by itself. When a turn was heard, its tier says who answers it: the provider,
which is asked to, or the engine, whose answer the provider then gets as an item of the conversation. So each turn has
one answer.
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
    """One session: between the bridge and the session that it looks into."""

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
        """`is_slow`: whether turns of a tier are the engine's. `transcription`: the provider's model for transcripts,
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
        """Ids of updates that routing needs, with the members that they set."""
        self._unanswered = False
        """Whether the user has said something that nobody was asked to answer."""
        self._engine_has_words = False
        """Whether the engine has the words that the user said last."""
        self._speech_stopped = False
        """Whether the turn that is committed next was found by the provider."""
        self._untranscribed: str | None = None
        """Item of the last turn of speech, while its transcript is not there."""
        self._pending_request: bytes | None = None
        """Request of the client's that waits for the transcript; empty: the provider would have answered by itself."""
        self._engine_request: bytes = b""
        """Request of the client's that the engine answers; empty: there is none."""
        self._deadline: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._items = RoutedItems(session, answerer)

    @property
    def responding(self) -> bool:
        """Whether the model is in the middle of an answer, or owes one."""
        return self._session.responding

    async def set_tools(self, offer: ToolOffer) -> None:
        """Show these tools."""
        await self._session.set_tools(offer)

    async def send_result(self, call: ModelCall, result: Mapping[str, Any]) -> None:
        """Give the model a result."""
        await self._session.send_result(call, result)

    async def announce_drain(self, seconds: float) -> None:
        """Do nothing: the format has no word for it."""

    async def aclose(self) -> None:
        """Cancel all that goes on for it."""
        self._cancel_deadline()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._answerer.aclose()
        await self._session.aclose()

    # Frames of the client

    async def from_client(self, payload: bytes) -> bytes | None:
        """The frame as the provider gets it; None where it gets none."""
        kind = events.event_type(payload)
        event = {} if kind == events.APPEND else events.read(payload)  # a large one: it is not decoded again
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
        """An event `error`: the session goes on."""
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
            await answerer.take_client_event(event)  # it goes on behind results of the client's tools, or refuses
            return None
        if self._untranscribed is not None and self._config.routes:
            if self._pending_request is None:
                self._start_deadline()
            self._pending_request = (
                payload  # it comes before what the provider would do by itself: the turn has one answer
            )
            await self._session.hold(elsewhere=True)
            return None
        fresh, self._unanswered = self._unanswered, False
        if fresh and not self._session.responding and self._for_engine(request):
            await self._answer_by_engine(payload)
            return None
        return await self._session.from_client(payload)

    def _concerns_engine(self, kind: str, event: Event) -> bool:
        """Whether an event of the client's is about an item of the engine, or a call that it made."""
        relay = self._answerer.relay
        if kind == "conversation.item.create":
            call = text(member(event, "item"), "call_id")
            return call in relay.made_calls or call in relay.open_calls
        return kind in _ITEM_EVENTS and text(event, "item_id") in relay

    def _cancels_engine(self, event: Event) -> bool:
        """Whether a `response.cancel` is of what the engine says: by its id, or by none."""
        wanted = text(event, "response_id")
        return self._answerer.active and (not wanted or wanted == self._answerer.relay.response)

    # Frames of the provider

    async def from_provider(self, payload: bytes) -> bytes | None:
        """The frame as the client gets it; None where it gets none."""
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
        """Take a refusal. Where it is of what routing needs, the provider answers all turns, as if there were none."""
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
        """Take a transcript: the turn's tier says who answers."""
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
        """Wait for a transcript, but not for ever."""
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
        if self._answerer.active:  # of a client that is not interrupted while it hears an answer
            await self._answerer.interrupt("turn_detected")
        if self._session.speaking:  # it is answered with what the user is saying
            await self._session.hold(elsewhere=False)
        elif self._for_engine(member(_response_request(owed), "response")):
            await self._answer_by_engine(owed)
        else:
            await self._answer_by_provider(owed)

    def _for_engine(self, request: Event) -> bool:
        """Whether the engine answers what the user said last, asked so. A request with its own `input` is about other
        things, and words that nobody has heard are the provider's alone, which has their sound.
        """
        wanted = self._config.routes and self._engine_has_words and "input" not in request
        return wanted and self._is_slow(self._session.tier)

    async def _answer_by_provider(self, payload: bytes) -> None:
        """Have the provider answer the turn, as the client asks for it; empty: by itself."""
        if not payload:
            await self._session.request_response()
            return
        await self._session.hold(elsewhere=False)
        forwarded = await self._session.from_client(payload)
        if forwarded is not None:
            await self._provider.send(forwarded)

    async def _answer_by_engine(self, payload: bytes) -> None:
        """Have the engine answer the turn, as the client asks for it; empty: by itself."""
        self._engine_request = payload
        request = member(_response_request(payload), "response")
        await self._session.hold(elsewhere=True)
        try:
            await self._answerer.answer(self._session.tier, self._config.for_engine, request, self._on_engine_done)
        except UnknownTier:
            await self._answer_by_provider(payload)

    async def _on_engine_done(self, outcome: str, messages: Sequence[tuple[str, str]]) -> None:
        """Hand the conversation back to the provider, with what was said; where nothing could be, it answers itself."""
        self._metrics.routed[outcome] += 1
        await self._items.copy_to_provider(messages)
        if outcome == ERROR and not messages:  # a filler is no answer
            await self._answer_by_provider(self._engine_request)
        else:
            await self._session.hold(elsewhere=False)


def _response_request(payload: bytes) -> Event:
    """A client's request for a response; empty: it made none."""
    return events.read(payload) if payload else {}
