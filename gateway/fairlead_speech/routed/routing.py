"""Routed OpenAI Realtime session: a cascaded engine (speech to text, a model, text to speech) answers the turns in slow
latency tiers, the provider answers all other turns.

The provider is configured not to create responses to speech by itself. When a turn has been transcribed, its tier
decides who answers: the provider, which then gets a `response.create`, or the engine, whose answer is afterwards added
to the provider's conversation as an item. So each turn has one answer.
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
    """Routed session. It sits between the bridge and the session with the provider."""

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
        """`is_slow`: whether a tier is slow, so that the engine answers its turns. `transcription`: the provider's
        transcription model for sessions whose client requests no transcripts.
        """
        self._session = session
        self.end = session.end
        self._answerer = answerer
        self._is_slow = is_slow
        self._metrics = metrics
        self._provider = provider
        self._config = RoutedConfig(transcription)
        self._routing_updates: dict[str, str] = {}
        """By `event_id` of the update: the member of `audio.input` that the gateway changed for routing."""
        self._has_unanswered_turn = False
        """Whether no response to the user's last turn has been requested."""
        self._engine_has_words = False
        """Whether the engine's conversation contains the words of the last turn."""
        self._speech_stopped = False
        """Whether the provider's detection, not the client, ended the turn that is committed next."""
        self._untranscribed_item: str | None = None
        """Id of the item of the last turn of speech while its transcript is missing; else None."""
        self._pending_request: bytes | None = None
        """The client's `response.create` that waits for the transcript; empty if a response without such a request
        waits; None if no response waits.
        """
        self._engine_request: bytes = b""
        """The client's `response.create` that the engine answers; empty if the client sent none."""
        self._deadline_timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._items = RoutedItems(session, answerer)

    @property
    def responding(self) -> bool:
        """Whether the provider's model is responding, or will respond after a tool call that is running."""
        return self._session.responding

    async def set_tools(self, offer: ToolOffer) -> None:
        """Set the tools of the provider's model."""
        await self._session.set_tools(offer)

    async def send_result(self, call: ModelCall, result: Mapping[str, Any]) -> None:
        """Send the result of a call to the provider."""
        await self._session.send_result(call, result)

    async def announce_drain(self, seconds: float) -> None:
        """Do nothing: Realtime has no event that announces the end of a session."""

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
        """Translate an event of the client for the provider. Returns None if nothing is forwarded."""
        kind = events.event_type(payload)
        event = {} if kind == events.APPEND else events.read(payload)  # audio may be large: it is not decoded again
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
        """Event `error` about a client's message that cannot be read. The session continues."""
        return self._session.refusal(error)

    async def _client_item_create(self, event: Event) -> bytes | None:
        event = self._items.for_provider(event)
        forwarded = await self._session.from_client(_encode(event))
        item = member(event, "item")
        if item.get("role") == "user":
            self._has_unanswered_turn = True
            self._engine_has_words = bool(spoken_text(item))
        if item.get("type") == "message" and spoken_text(item):
            self._items.copy_to_engine(text(item, "id"), text(item, "role"), spoken_text(item))
        return forwarded

    async def _client_response_create(self, payload: bytes, event: Event) -> bytes | None:
        request, answerer = member(event, "response"), self._answerer
        if request.get("conversation") == "none":
            return await self._session.from_client(payload)
        if answerer.active:
            # the engine continues when it gets the results of the client's tools, and refuses other requests during its
            # answer
            await answerer.take_client_event(event)
            return None
        if self._untranscribed_item is not None and self._config.routes:
            if self._pending_request is None:
                self._start_deadline()
            # the request takes the place of the response that the end of speech would have created, because a turn has
            # one response
            self._pending_request = payload
            await self._session.hold(engine_answers=True)
            return None
        was_unanswered, self._has_unanswered_turn = self._has_unanswered_turn, False
        if was_unanswered and not self._session.responding and self._engine_answers(request):
            await self._answer_by_engine(payload)
            return None
        return await self._session.from_client(payload)

    def _concerns_engine(self, kind: str, event: Event) -> bool:
        """Whether an event of the client concerns an item or a call of the engine."""
        relay = self._answerer.relay
        if kind == "conversation.item.create":
            call = text(member(event, "item"), "call_id")
            return call in relay.made_calls or call in relay.open_calls
        return kind in _ITEM_EVENTS and text(event, "item_id") in relay

    def _cancels_engine(self, event: Event) -> bool:
        """Whether a `response.cancel` is for the engine's response: it has the id of that response, or no id."""
        response_id = text(event, "response_id")
        return self._answerer.active and (not response_id or response_id == self._answerer.relay.response)

    # Events of the provider

    async def from_provider(self, payload: bytes) -> bytes | None:
        """Translate an event of the provider for the client. Returns None if nothing is forwarded."""
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
        for name, update in updates:
            self._routing_updates[await self._session.update_session(update)] = name
        return forwarded

    async def _on_error(self, error: Event) -> None:
        """Handle an `error` of the provider. If the provider refused a setting that routing needs, the provider answers
        all turns from now on.
        """
        self._config.refuse_update(text(error, "event_id"))
        name = self._routing_updates.pop(text(error, "event_id"), "")
        if not name or not self._config.routes:
            return
        log.warning(
            "Routing to the cascaded engine is off for this session, and the provider answers all turns: the provider "
            "refused audio.input.%s, which routing needs: %.200s",
            name,
            text(error, "message"),
        )
        self._config.routes = False
        for other_name in self._routing_updates.values():
            await self._session.update_session(member_change(self._config.input_config, other_name))
        await self._decide()

    async def _on_committed(self, event: Event) -> None:
        ended_by_provider, self._speech_stopped = self._speech_stopped, False
        self._untranscribed_item = text(event, "item_id")
        self._has_unanswered_turn = True
        self._engine_has_words = False
        if ended_by_provider and self._config.answers_speech and not self._session.creates_response:
            self._pending_request = b""
            self._start_deadline()
            await self._session.hold(engine_answers=True)

    async def _on_transcription(self, kind: str, event: Event) -> None:
        """Handle an event about a transcript. The words decide the turn's tier, and the tier decides who answers."""
        has_ended = kind.endswith(("completed", "failed"))
        is_last_turn = text(event, "item_id") == self._untranscribed_item
        if kind.endswith("completed") and text(event, "transcript").strip():
            self._items.copy_to_engine(text(event, "item_id"), "user", text(event, "transcript"))
            self._engine_has_words = self._engine_has_words or is_last_turn
        if has_ended and is_last_turn:
            await self._session.wait_for_texts()
            await self._decide()

    # Internals

    def _start_deadline(self) -> None:
        """After TRANSCRIPT_SECONDS without a transcript, decide without it."""
        self._cancel_deadline()
        self._deadline_timer = asyncio.get_running_loop().call_later(TRANSCRIPT_SECONDS, self._spawn_decision)

    def _spawn_decision(self) -> None:
        task = asyncio.create_task(self._decide(), name="turn without a transcript")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _cancel_deadline(self) -> None:
        if self._deadline_timer is not None:
            self._deadline_timer.cancel()
            self._deadline_timer = None

    async def _decide(self) -> None:
        """Decide whether the engine or the provider answers the turn that waited for its transcript, and request the
        answer.
        """
        self._cancel_deadline()
        self._has_unanswered_turn = self._has_unanswered_turn and self._pending_request is None
        request, self._pending_request, self._untranscribed_item = self._pending_request, None, None
        if request is None:
            return
        if self._answerer.active:  # by the client's settings, speech does not interrupt an answer
            await self._answerer.interrupt("turn_detected")
        if self._session.speaking:  # the next turn's answer covers this turn too
            await self._session.hold(engine_answers=False)
        elif self._engine_answers(member(_response_request(request), "response")):
            await self._answer_by_engine(request)
        else:
            await self._answer_by_provider(request)

    def _engine_answers(self, request: Event) -> bool:
        """Whether the engine answers the last turn. The provider answers turns without a transcript, because it has the
        audio of these turns. It also answers requests with an `input` of their own, because such requests do not
        concern the turn.
        """
        engine_can_answer = self._config.routes and self._engine_has_words and "input" not in request
        return engine_can_answer and self._is_slow(self._session.tier)

    async def _answer_by_provider(self, payload: bytes) -> None:
        """Request the provider's answer. `payload`: the client's `response.create`; if it is empty, the gateway sends a
        `response.create` of its own.
        """
        if not payload:
            await self._session.request_response()
            return
        await self._session.hold(engine_answers=False)
        forwarded = await self._session.from_client(payload)
        if forwarded is not None:
            await self._provider.send(forwarded)

    async def _answer_by_engine(self, payload: bytes) -> None:
        """Request the engine's answer. `payload`: the client's `response.create`; empty if the client sent none."""
        self._engine_request = payload
        request = member(_response_request(payload), "response")
        await self._session.hold(engine_answers=True)
        try:
            await self._answerer.answer(self._session.tier, self._config.for_engine, request, self._on_engine_done)
        except UnknownTier:
            await self._answer_by_provider(payload)

    async def _on_engine_done(self, outcome: str, messages: Sequence[tuple[str, str]]) -> None:
        """Copy the engine's messages to the provider, and let the provider's session request responses again. If the
        engine failed without a message, let the provider answer the turn.
        """
        self._metrics.routed[outcome] += 1
        await self._items.copy_to_provider(messages)
        if outcome == ERROR and not messages:  # a spoken filler phrase is not an answer
            await self._answer_by_provider(self._engine_request)
        else:
            await self._session.hold(engine_answers=False)


def _response_request(payload: bytes) -> Event:
    """Decoded event of a client's `response.create`; empty if the client sent none."""
    return events.read(payload) if payload else {}
