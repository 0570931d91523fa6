"""Answers turns of another session by a cascaded engine: tools run as in a session of its own, and what is said goes to
the client of that other session.
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
from fairlead_speech.session import FrameSink
from fairlead_speech.sockets import Closing
from fairlead_speech.tiers import SpokenTier

HEARING_SECONDS: Final = 3.0
"""Time for the transcript of a turn; then the provider of the other session answers it."""
MOST_OWN: Final = 2048
"""Items of the engine that are remembered, and calls."""
MOST_ID: Final = 256
"""Characters of the id of a call that is remembered once nobody waits for its result."""
_CONFIGURED: Final = ("instructions", "tools", "tool_choice", "output_modalities")
_SPEAKS: Final = b'{"type":"input_audio_buffer.speech_started"}'
_DROPPED: Final = b'{"type":"input_audio_buffer.cleared"}'
"""Events by which the session between relay and engine knows that it is not its turn, and that it is."""
Over = Callable[[str, Sequence[tuple[str, str]]], Awaitable[None]]
"""Told of the end of a turn: the outcome, and ids and texts of what was said."""
_encode: Final = msgspec.json.encode
log = logging.getLogger(__name__)


class RelayedEvents:
    """Events of the engine on their way to the client of the other session."""

    def __init__(self, client: FrameSink) -> None:
        self._client = client
        self._created: bytes | None = None
        """Beginning of a response that has not said anything."""
        self.last_item: str | None = None
        """Last item that the client has of the other session."""
        self._own: dict[str, None] = {}
        self.response: str | None = None
        """Id of the response in progress."""
        self.made: dict[str, None] = {}
        """Ids of calls of the client's tools, whose results may come after an interruption."""
        self.calls: set[str] = set()
        """Ids of calls of the client's tools that wait for their results."""

    def __contains__(self, item: str) -> bool:
        """Whether an item is one of the engine's."""
        return item in self._own

    async def send_audio(self, frame: bytes) -> None:
        """Pass on audio, or its transcript, of an item that has begun."""
        await self._client.send(frame)

    async def send(self, frame: bytes) -> None:
        """Pass on what is about responses and items."""
        kind = events.kind_of(frame)
        if not kind.startswith(("response.", "conversation.item.", "error", "fairlead.")):
            return
        if kind == "response.created":
            self.response = text(member(events.read(frame), "response"), "id")
            self._created = frame
            return
        event = events.read(frame)
        if kind == "response.done":
            self.response = None
        self._note(kind, event)
        created, self._created = self._created, None
        if created is not None and kind == "response.done" and member(event, "response").get("status") == "failed":
            return  # it failed before anything was said: the client does not hear of it
        if created is not None:
            await self._client.send(created)
        await self._client.send(self._placed(event) if "previous_item_id" in event else frame)

    def _note(self, kind: str, event: Event) -> None:
        item = member(event, "item")
        if kind == "conversation.item.added":
            _keep(self._own, text(item, "id"))
        elif kind == "response.output_item.done" and item.get("type") == "function_call":
            self.calls.add(text(item, "call_id"))
            if len(text(item, "call_id")) <= MOST_ID:
                _keep(self.made, text(item, "call_id"))

    def _placed(self, event: Event) -> bytes:
        """The event behind an item that the client knows."""
        before = event["previous_item_id"]
        return _encode({**event, "previous_item_id": before if before in self._own else self.last_item})


class TurnAnswerer:
    """Answers turns one at a time. `aclose` it."""

    def __init__(
        self, engine: CascadedSession, session: RealtimeSession, relay: RelayedEvents, tier: SpokenTier
    ) -> None:
        """`session` is that between the relay and the engine, in that tier."""
        self.engine = engine
        self.relay = relay
        self._idle = asyncio.Event()
        self._idle.set()
        self._session = session
        self._tier = tier
        self._over: Over | None = None
        self._said_before: set[str] = set()
        self._cancelled = False
        self._turn = 0
        """Number of the turn: another one once it is interrupted, too."""
        self._asked = ""
        """Id of the event that asked for the first response of the turn."""
        self._configured: Event = {}
        self._open = asyncio.Event()
        self._pumping = asyncio.create_task(self._pump(), name="cascaded engine beside a speech session")

    @property
    def active(self) -> bool:
        """Whether a turn is being answered here."""
        return not self._idle.is_set()

    async def answer(self, tier: str | None, configured: Event, asked: Event, over: Over) -> None:
        """Answer what was said last. `configured`: instructions, tools and modalities of the client's session, `asked`:
        what it wishes of this response. `over` is told of the end. Raises UnknownTier.
        """
        self._tier.name(tier)
        self._idle.clear()
        self._over = over
        self._cancelled = False
        self._turn += 1
        turn = self._turn
        self._said_before = {each.id for each in self.engine.state.conversation.items()}
        await self._open.wait()
        if turn != self._turn or self._pumping.done():
            return
        await self._session.from_provider(_DROPPED)
        self.engine.state.turn_ended()
        if configured != self._configured:
            self._configured = configured
            update = {"type": "session.update", "event_id": events.own_id()}
            await self._pass({**update, "session": {"type": "realtime", **configured}})
        if turn == self._turn:
            await self._session.show()
        if turn == self._turn:  # a response behind an interruption would be one that nobody stops
            self._asked = events.own_id()
            await self._pass({"type": "response.create", "event_id": self._asked, "response": _functions_only(asked)})

    async def ended(self) -> None:
        """Wait until no turn is being answered here."""
        await self._idle.wait()

    def remember(self, role: str, said: str) -> str:
        """Have the engine know what was said elsewhere; id of its item."""
        self.engine.remember(role, said)
        return self.engine.state.conversation.last or ""

    async def take(self, event: Event) -> None:
        """Take an event of the client's that is about this turn."""
        if event.get("type") == "conversation.item.create":
            self.relay.calls.discard(text(member(event, "item"), "call_id"))
        await self._pass(event)

    async def client_answered(self) -> None:
        """All calls of the client's tools have their results: go on, for a client that does not ask for that."""
        await self._session.client_answered()

    async def interrupt(self, reason: str) -> None:
        """End the answer. Calls that change nothing are cancelled; what others find out is for the next turn."""
        self._cancelled = True
        self._turn += 1
        await self._session.from_provider(_SPEAKS)
        if not await self.engine.interrupt(reason):
            await self._finish(CANCELLED)
        await self._idle.wait()

    async def aclose(self) -> None:
        """End all of it."""
        self._over = None
        self._idle.set()
        self._pumping.cancel()
        await asyncio.gather(self._pumping, return_exceptions=True)
        await self._session.aclose()  # before the engine, which a result would have begin another response
        await self.engine.close(Closing(1000))

    async def _pass(self, event: Event) -> None:
        frame = await self._session.from_client(_encode(event))
        if frame is not None:
            await self.engine.send(frame)

    async def _pump(self) -> None:
        reader = self._session.provider_frames
        while not isinstance(frame := await self.engine.receive(), Closing):
            try:
                if reader.is_audio(frame):
                    await self.relay.send_audio(frame)
                    continue
                passed = await self._session.from_provider(frame)
                refused = _refused_own(frame)
                if refused:
                    await self._refused(refused)
                elif passed is not None:
                    await self.relay.send(passed)
                self._open.set()
                if events.kind_of(frame) == "response.done":
                    await self._responded(member(events.read(frame), "response"))
            except Exception:
                log.exception("A turn of a speech session was not answered by its cascaded engine")
                await self._finish(ERROR)
        log.info("The cascaded engine of a speech session closed: %s", frame.reason)
        self._session.end.ask(PROVIDER_CLOSED, frame.passed_on())
        self._open.set()
        await self._finish(ERROR)

    async def _refused(self, event_id: str) -> None:
        """Take the refusal of an event that was made here: without a response, the turn is over."""
        log.info("A cascaded engine refused what a client of a speech session wishes")
        if event_id == self._asked:
            await self._finish(ERROR)

    async def _responded(self, response: Event) -> None:
        """Look whether a response was the last of its turn."""
        status = response.get("status")
        if self._cancelled or status == "cancelled":
            await self._finish(CANCELLED)
        elif status == "failed":
            await self._finish(ERROR)
        elif not self._session.responding and not self.relay.calls:
            await self._finish(OK)

    async def _finish(self, outcome: str) -> None:
        over, self._over = self._over, None
        self.relay.calls.clear()
        if over is None:
            self._idle.set()
            return
        said = [
            (each.id, spoken_text(each.shown))
            for each in self.engine.state.conversation.items()
            if each.id in self.relay
            and each.id not in self._said_before
            and not each.filler
            and each.shown.get("role") == "assistant"
        ]
        try:
            await over(outcome, [(item, words) for item, words in said if words])
        finally:
            self._idle.set()


def configured_part(session: dict[str, Any]) -> Event:
    """Members of a client's session that hold for answers of the engine, too."""
    return _functions_only({name: session[name] for name in _CONFIGURED if name in session})


def _functions_only(place: Event) -> Event:
    """Members that a client sets, with those of its tools alone that an engine can call."""
    if "tools" not in place:
        return place
    return {**place, "tools": [tool for tool in members(place, "tools") if tool.get("type") == "function"]}


def _keep(kept: dict[str, None], ident: str) -> None:
    """Remember an id, in the place of the oldest one."""
    kept[ident] = None
    if len(kept) > MOST_OWN:
        del kept[next(iter(kept))]


def _refused_own(frame: bytes) -> str:
    """Id of an event of the gateway's that the engine refuses; empty: the frame is another one."""
    if events.kind_of(frame) != "error":
        return ""
    named = text(member(events.read(frame), "error"), "event_id")
    return named if named.startswith(events.OWN) else ""
