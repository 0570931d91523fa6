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
from fairlead_speech.cascaded.answering import HEARING_SECONDS, TurnAnswerer
from fairlead_speech.cascaded.conversation import spoken_text
from fairlead_speech.messages import FrameReader, UnreadableFrame
from fairlead_speech.metrics import ERROR, SpeechMetrics
from fairlead_speech.realtime import events
from fairlead_speech.realtime.events import CLIENT_FRAMES, PROVIDER_FRAMES, Event, member, text
from fairlead_speech.realtime.session import RealtimeSession
from fairlead_speech.routed.config import TRANSCRIPTION, RoutedConfig, change
from fairlead_speech.routed.items import RoutedItems
from fairlead_speech.session import FrameSink
from fairlead_speech.tiers import UnknownTier

_OF_ITEM: Final = frozenset({"conversation.item.truncate", "conversation.item.delete", "conversation.item.retrieve"})
_encode: Final = msgspec.json.encode
log = logging.getLogger(__name__)


class RoutedSession:
    """One session: between the bridge and the session that it looks into."""

    client_frames: FrameReader = CLIENT_FRAMES
    provider_frames: FrameReader = PROVIDER_FRAMES

    def __init__(
        self,
        session: RealtimeSession,
        answerer: TurnAnswerer,
        is_slow: Callable[[str | None], bool],
        transcription: str,
        metrics: SpeechMetrics,
        provider: FrameSink,
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
        self._needed: dict[str, str] = {}
        """Ids of updates that routing needs, with the members that they set."""
        self._fresh = False
        """Whether the user has said something that nobody was asked to answer."""
        self._known = False
        """Whether the engine has the words that the user said last."""
        self._stopped = False
        """Whether the turn that is committed next was found by the provider."""
        self._unheard: str | None = None
        """Item of the last turn of speech, while its transcript is not there."""
        self._owed: bytes | None = None
        """Request of the client's that waits for the transcript; empty: the provider would have answered by itself."""
        self._routed: bytes = b""
        """Request of the client's that the engine answers; empty: there is none."""
        self._late: asyncio.TimerHandle | None = None
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

    async def retire(self, seconds: float) -> None:
        """Do nothing: the format has no word for it."""

    async def aclose(self) -> None:
        """Cancel all that goes on for it."""
        self._waited()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._answerer.aclose()
        await self._session.aclose()

    # Frames of the client

    async def from_client(self, frame: bytes) -> bytes | None:
        """The frame as the provider gets it; None where it gets none."""
        kind = events.kind_of(frame)
        event = {} if kind == events.APPEND else events.read(frame)  # a large one: it is not decoded again
        if kind == "session.update":
            passed = await self._session.from_client(_encode(self._config.outgoing(event)))
            if passed is not None:
                self._config.sent(text(events.read(passed), "event_id"), member(event, "session"))
            return passed
        if kind == "response.create":
            return await self._client_asks(frame, event)
        if kind == "response.cancel" and self._cancels_engine(event):
            await self._answerer.interrupt("client_cancelled")
            return None
        if self._is_of_engine(kind, event):
            await self._answerer.take(event)
            if kind == "conversation.item.truncate":
                await self._items.cut(text(event, "item_id"))
            elif kind == "conversation.item.delete":
                await self._items.deleted(text(event, "item_id"))
            return None
        if kind == "conversation.item.create":
            return await self._client_says(event)
        if kind == "conversation.item.delete":
            await self._items.deleted(text(event, "item_id"))
        return await self._session.from_client(frame)

    def refusal(self, error: UnreadableFrame) -> bytes | None:
        """An event `error`: the session goes on."""
        return self._session.refusal(error)

    async def _client_says(self, event: Event) -> bytes | None:
        event = self._items.placed(event)
        passed = await self._session.from_client(_encode(event))
        item = member(event, "item")
        if item.get("role") == "user":
            self._fresh = True
            self._known = bool(spoken_text(item))
        if item.get("type") == "message" and spoken_text(item):
            self._items.known(text(item, "id"), text(item, "role"), spoken_text(item))
        return passed

    async def _client_asks(self, frame: bytes, event: Event) -> bytes | None:
        asked, answerer = member(event, "response"), self._answerer
        if asked.get("conversation") == "none":
            return await self._session.from_client(frame)
        if answerer.active:
            await answerer.take(event)  # it goes on behind results of the client's tools, or refuses
            return None
        if self._unheard is not None and self._config.routes:
            if self._owed is None:
                self._wait()
            self._owed = frame  # it comes before what the provider would do by itself: the turn has one answer
            await self._session.hold(elsewhere=True)
            return None
        fresh, self._fresh = self._fresh, False
        if fresh and not self._session.responding and self._for_engine(asked):
            await self._route(frame)
            return None
        return await self._session.from_client(frame)

    def _is_of_engine(self, kind: str, event: Event) -> bool:
        """Whether an event of the client's is about an item of the engine, or a call that it made."""
        relay = self._answerer.relay
        if kind == "conversation.item.create":
            call = text(member(event, "item"), "call_id")
            return call in relay.made or call in relay.calls
        return kind in _OF_ITEM and text(event, "item_id") in relay

    def _cancels_engine(self, event: Event) -> bool:
        """Whether a `response.cancel` is of what the engine says: by its id, or by none."""
        wanted = text(event, "response_id")
        return self._answerer.active and (not wanted or wanted == self._answerer.relay.response)

    # Frames of the provider

    async def from_provider(self, frame: bytes) -> bytes | None:
        """The frame as the client gets it; None where it gets none."""
        kind = events.kind_of(frame)
        event = events.read(frame)
        if kind == "session.created":
            return await self._begin(frame, event)
        if kind == "input_audio_buffer.speech_stopped":
            self._stopped = True
        elif kind == "input_audio_buffer.committed":
            await self._committed(event)
        passed = await self._session.from_provider(frame)
        if kind == "input_audio_buffer.speech_started":
            if self._answerer.active and self._config.interrupts:
                await self._answerer.interrupt("turn_detected")
        elif kind == "input_audio_buffer.committed" and not self._config.routes:
            await self._decide()
        elif kind == "error":
            await self._refused(member(event, "error"))
        elif kind.startswith("response."):
            self._items.responding(kind, event)
        elif kind == "conversation.item.added" and passed is not None:
            self._answerer.relay.last_item = text(member(event, "item"), "id") or None
        elif kind == "session.updated" and passed is not None:
            self._config.accepted()
            return _encode(self._config.shown(events.read(passed)))
        elif kind.startswith(events.TRANSCRIPT):
            await self._heard(kind, event)
            return passed if self._config.heard.get(TRANSCRIPTION) else None
        return passed

    async def _begin(self, frame: bytes, event: Event) -> bytes | None:
        needed = self._config.began(member(event, "session"))
        passed = await self._session.from_provider(frame)
        for name, wanted in needed:
            self._needed[await self._session.change(wanted)] = name
        return passed

    async def _refused(self, error: Event) -> None:
        """Take a refusal. Where it is of what routing needs, the provider answers all turns, as if there were none."""
        self._config.refused(text(error, "event_id"))
        name = self._needed.pop(text(error, "event_id"), "")
        if not name or not self._config.routes:
            return
        log.warning(
            "No turn of this session goes to an engine: the provider refused %s: %.200s", name, text(error, "message")
        )
        self._config.routes = False
        for other in self._needed.values():
            await self._session.change(change(self._config.heard, other))
        await self._decide()

    async def _committed(self, event: Event) -> None:
        found, self._stopped = self._stopped, False
        self._unheard = text(event, "item_id")
        self._fresh = True
        self._known = False
        if found and self._config.answers_speech and not self._session.answers_speech:
            self._owed = b""
            self._wait()
            await self._session.hold(elsewhere=True)

    async def _heard(self, kind: str, event: Event) -> None:
        """Take a transcript: the turn's tier says who answers."""
        ended = kind.endswith(("completed", "failed"))
        last = text(event, "item_id") == self._unheard
        if kind.endswith("completed") and text(event, "transcript").strip():
            self._items.known(text(event, "item_id"), "user", text(event, "transcript"))
            self._known = self._known or last
        if ended and last:
            await self._session.all_heard()
            await self._decide()

    # Inside

    def _wait(self) -> None:
        """Wait for a transcript, but not for ever."""
        self._waited()
        self._late = asyncio.get_running_loop().call_later(HEARING_SECONDS, self._spawn_decision)

    def _spawn_decision(self) -> None:
        task = asyncio.create_task(self._decide(), name="turn without a transcript")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _waited(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    async def _decide(self) -> None:
        """Have the turn answered that waited for its transcript."""
        self._waited()
        self._fresh = self._fresh and self._owed is None
        owed, self._owed, self._unheard = self._owed, None, None
        if owed is None:
            return
        if self._answerer.active:  # of a client that is not interrupted while it hears an answer
            await self._answerer.interrupt("turn_detected")
        if self._session.speaking:  # it is answered with what the user is saying
            await self._session.hold(elsewhere=False)
        elif self._for_engine(member(_asked(owed), "response")):
            await self._route(owed)
        else:
            await self._have_provider_answer(owed)

    def _for_engine(self, asked: Event) -> bool:
        """Whether the engine answers what the user said last, asked so. A request with its own `input` is about other
        things, and words that nobody has heard are the provider's alone, which has their sound.
        """
        wanted = self._config.routes and self._known and "input" not in asked
        return wanted and self._is_slow(self._session.tier)

    async def _have_provider_answer(self, frame: bytes) -> None:
        """Have the provider answer the turn, as the client asks for it; empty: by itself."""
        if not frame:
            await self._session.ask()
            return
        await self._session.hold(elsewhere=False)
        passed = await self._session.from_client(frame)
        if passed is not None:
            await self._provider.send(passed)

    async def _route(self, frame: bytes) -> None:
        """Have the engine answer the turn, as the client asks for it; empty: by itself."""
        self._routed = frame
        asked = member(_asked(frame), "response")
        await self._session.hold(elsewhere=True)
        try:
            await self._answerer.answer(self._session.tier, self._config.for_engine, asked, self._over)
        except UnknownTier:
            await self._have_provider_answer(frame)

    async def _over(self, outcome: str, said: Sequence[tuple[str, str]]) -> None:
        """Hand the conversation back to the provider, with what was said; where nothing could be, it answers itself."""
        self._metrics.routed[outcome] += 1
        await self._items.tell(said)
        if outcome == ERROR and not said:  # a filler is no answer
            await self._have_provider_answer(self._routed)
        else:
            await self._session.hold(elsewhere=False)


def _asked(frame: bytes) -> Event:
    """A client's request for a response; empty: it made none."""
    return events.read(frame) if frame else {}
