"""Brings other tools to a Gemini Live session: by `contextUpdate` where its model has that, else over a new connection.

A connection can only be replaced while nobody speaks and no call is open, and only where the provider gave a handle
since the model last spoke; an open connection makes it refuse the handle, so the old one is closed first. The same way
leads out of a connection that its provider closes, as it does every ten minutes. What was sent since the newest handle
is kept, and sent again over the new connection: a handle stands for what came before it. What the client sends
meanwhile waits in the same place; nothing is lost, and nothing comes twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from fairlead_formats.wire.errors import LlmError
from fairlead_speech.gemini.messages import PROVIDER_FRAMES, ClientNotices, GoAway, is_there, read_server
from fairlead_speech.gemini.models import LiveModel
from fairlead_speech.gemini.setup import SessionSetup
from fairlead_speech.gemini.turns import LiveTurns
from fairlead_speech.messages import RefusedFrame
from fairlead_speech.metrics import FAILED_RESUMPTION, OK, SpeechMetrics
from fairlead_speech.sockets import Closing, SessionSide

LOOK_SECONDS: Final = 0.5
"""Time between two looks whether a connection can be replaced, and between two attempts to open one."""
ANSWER_SECONDS: Final = 10.0
"""For a provider to answer a setup."""
ATTEMPTS: Final = 3
NO_HANDLE: Final = "no_handle"
"""The provider gave no handle since the model last spoke."""
TOO_MUCH: Final = "too_much"
"""More was said since the handle than is kept."""
_TELL_SECONDS: Final = 5.0
"""Time before the end of a connection at which its client hears of that, if it could not be replaced."""
_REFUSALS: Final = frozenset({1007, 1008})
"""Close codes for what a model does not take; after them nothing is sent again."""
log = logging.getLogger(__name__)
Dial = Callable[[], Awaitable[SessionSide]]
"""Connects to the session's model. Raises LlmError."""


class ToolSwitch:
    """Changes tools and connections of one session. `aclose` it."""

    def __init__(
        self,
        engine: str,
        side: SessionSide,
        setup: SessionSetup,
        model: LiveModel,
        turns: LiveTurns,
        metrics: SpeechMetrics,
        dial: Dial,
        clock: Callable[[], float],
        notices: ClientNotices,
        learn: Callable[[], None],
    ) -> None:
        """`side` is the first connection. `learn` is called when the model refuses `contextUpdate`."""
        self._engine = engine
        self.line = self._line = ProviderLine(side, self.recovers)
        """The provider's side of the session, over whatever connection."""
        self._setup = setup
        self._model = model
        self._turns = turns
        self._metrics = metrics
        self._dial = dial
        self._clock = clock
        self._notices = notices
        self._learn = learn
        self._task: asyncio.Task[None] | None = None
        self._look = asyncio.Event()
        self._updated = False
        """Whether a `contextUpdate` of ours was sent since the last turn ended."""
        self._leaving: tuple[float, bytes] | None = None
        """Time at which the client is told that the provider closes the connection, and the message for it."""

    async def tools_changed(self) -> None:
        """Bring the tools that are to be shown to the model, as soon as it can take them."""
        if not self._setup.pending:
            return
        if self._model.context_update and self._line.up:
            self._updated = True
            await self._line.send_once(self._setup.update())
        else:
            self.look()

    def look(self) -> None:
        """Replace the connection if that is wanted and possible now; else wait for it."""
        if not self._wanted or not self._line.up:
            return
        if self._possible:
            self._begin()
        elif self._task is None or self._task.done():
            self._task = asyncio.create_task(self._wait(), name="tools of a speech session")
        else:
            self._look.set()

    def turn_over(self) -> None:
        """The model's turn is over."""
        self._updated = False
        self.look()

    def going_away(self, notice: GoAway, frame: bytes) -> None:
        """The provider closes the connection soon, and the client is not to care."""
        self._leaving = self._clock() + max(notice.seconds - _TELL_SECONDS, 0.0), frame
        self.look()

    def recovers(self, closing: Closing) -> bool:
        """The provider closed the connection: whether another one takes its place."""
        refused = closing.code in _REFUSALS
        if refused and self._updated:
            log.warning("A model of Gemini Live refused contextUpdate: its session is gone on with by its handle")
            self._learn()
            self._model = self._model.without_update()
            refused = False
        turns = self._turns
        if refused or turns.owes or not turns.fresh or not self._line.whole:
            return False
        self._begin()
        return True

    async def aclose(self) -> None:
        """Give up what is being done."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    # Inside

    @property
    def _wanted(self) -> bool:
        return self._leaving is not None or (self._setup.pending and not self._model.context_update)

    @property
    def _possible(self) -> bool:
        return self._turns.resumable(self._clock()) and self._line.whole

    def _begin(self) -> None:
        waiting = self._task
        self._leaving = None
        self._line.hold()
        self._turns.fresh = False
        self._task = asyncio.create_task(self._replace(waiting), name="connection of a speech session")

    async def _replace(self, waiting: asyncio.Task[None] | None) -> None:
        if waiting is not None:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        replaced = await self._line.replace(self._connected)
        self._metrics.resumptions[self._engine, OK if replaced else FAILED_RESUMPTION] += 1
        if replaced and self._setup.pending:  # they changed again meanwhile
            await self.tools_changed()

    async def _connected(self) -> SessionSide | Closing:
        """A connection that goes on with the session; how the last attempt ended otherwise."""
        failure = Closing(1011, "the session could not be gone on with")
        for attempt in range(ATTEMPTS):
            if attempt:
                await asyncio.sleep(LOOK_SECONDS)  # a provider may not know yet that the old connection is closed
            try:
                side = await self._dial()
            except LlmError as error:
                failure = Closing(1011, str(error))
                continue
            try:
                found = await self._accepted(side)
            except BaseException:
                await side.close(Closing(1000))
                raise
            if found is None:
                return side
            failure = found
            if failure.code in _REFUSALS:
                break
        log.warning("A session of Gemini Live could not be resumed: %s %s", failure.code, failure.reason[:120])
        return failure

    async def _accepted(self, side: SessionSide) -> Closing | None:
        """Set a connection up. None: it goes on with the session."""
        await side.send(self._setup.message(self._turns.handle))
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                while True:
                    frame = await side.receive()
                    if isinstance(frame, Closing):
                        return frame
                    PROVIDER_FRAMES.check(frame)
                    if is_there(read_server(frame).setup_complete):
                        return None
        except RefusedFrame as error:
            await side.close(Closing(1000))
            return Closing(1011, f"the provider's answer to a setup is refused: {error}")
        except TimeoutError:
            await side.close(Closing(1000))
            return Closing(1011, "the provider did not answer a setup")

    async def _wait(self) -> None:
        """Look again and again, as time may be what is missing; tell of it when nothing else is."""
        misses, told = 0, False
        while self._wanted and self._line.up:
            self._look.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._look.wait()
            if self._possible:
                self._begin()
                return
            misses = misses + 1 if self._turns.idle(self._clock()) else 0
            if misses > 1 and not told and self._setup.pending:
                told = True
                await self._tell()
            await self._tell_leaving()

    async def _tell(self) -> None:
        why = TOO_MUCH if self._turns.fresh else NO_HANDLE
        self._metrics.tier_waits[self._engine, why] += 1
        log.info("The tier of a speech session waits for the end of the next turn: %s", why)
        await self._notices.waits(why)

    async def _tell_leaving(self) -> None:
        if self._leaving is not None and self._clock() >= self._leaving[0]:
            (_, frame), self._leaving = self._leaving, None
            await self._notices.passed_on(frame)


KEPT_BYTES: Final = 256 << 10
"""Bytes that are kept since the newest handle: five seconds of PCM at 16 kHz, in base64."""


class ProviderLine:
    """Side of a session towards its provider. `close` it."""

    def __init__(self, side: SessionSide, recovers: Callable[[Closing], bool], kept_bytes: int = KEPT_BYTES) -> None:
        """`recovers`: whether another connection is about to take the place of one that was closed; it has begun to
        `replace` it then.
        """
        self._recovers = recovers
        self._side: SessionSide | None = side
        self._kept_bytes = kept_bytes
        self._kept: deque[bytes] = deque()
        self._bytes = 0
        self._up = asyncio.Event()
        self._up.set()
        self._ended: Closing | None = None
        self._received_binary = False
        self.binary = False
        self.whole = True
        """Whether all that was sent since the newest handle is kept."""

    @property
    def up(self) -> bool:
        """Whether a connection carries frames now."""
        return self._up.is_set() and self._ended is None

    @property
    def received_binary(self) -> bool:
        """Whether the last message came as a binary one."""
        return self._received_binary

    @property
    def stalled_seconds(self) -> float:
        """Seconds for which the provider has not read what was sent; 0 while a connection is replaced."""
        return self._side.stalled_seconds if self._side is not None and self.up else 0.0

    async def receive(self) -> bytes | Closing:
        """The next message of the connection that carries the session, or how the last one ended."""
        while True:
            await self._up.wait()
            side = self._side
            if side is None or self._ended is not None:
                return self._ended or Closing(1006, clean=False)
            frame = await side.receive()
            if side is not self._side or not self._up.is_set():
                continue  # what is said over a connection that was given up is said again over the next
            self._received_binary = side.received_binary
            if isinstance(frame, Closing) and self._recovers(frame):
                continue
            return frame

    async def send(self, frame: bytes) -> None:
        """Send a message, and keep it until the next handle. Waits while connections are replaced and no more fits."""
        while not self._up.is_set() and self._bytes + len(frame) > self._kept_bytes and self._kept:
            await self._up.wait()
        self._keep(frame)
        if self._up.is_set() and self._side is not None:
            self._side.binary = self.binary
            await self._side.send(frame)

    async def send_once(self, frame: bytes) -> None:
        """Send a message that no other connection needs. No-op where none is up."""
        if self._up.is_set() and self._side is not None:
            await self._side.send(frame)

    def handed(self) -> None:
        """A handle came: what was sent so far is in it."""
        self._kept.clear()
        self._bytes = 0
        self.whole = True

    def hold(self) -> None:
        """From now on keep what is sent, and drop what comes: the connection is about to be replaced."""
        self._up.clear()

    async def replace(self, connect: Callable[[], Awaitable[SessionSide | Closing]]) -> bool:
        """Close the connection that was held, then connect and send what was kept. Whether that was successful; else
        the line is at its end.
        """
        old, self._side = self._side, None
        try:
            if old is not None:
                await old.close(Closing(1000))
            found = await connect()
            if isinstance(found, Closing) or self._ended is not None:
                await self._fail(found)
                return False
            sent = 0
            while sent < len(self._kept):  # it may grow meanwhile
                await found.send(self._kept[sent])
                sent += 1
            self._side = found
            return True
        finally:
            if self._side is None and self._ended is None:
                self._ended = Closing(1011, "the session could not be gone on with")
            self._up.set()

    async def close(self, closing: Closing) -> None:
        """Close the connection; one that is being made is closed as soon as it is there."""
        side = self._side
        self._ended = self._ended or closing
        self._up.set()
        if side is not None:
            await side.close(closing)

    async def _fail(self, found: SessionSide | Closing) -> None:
        if isinstance(found, Closing):
            self._ended = self._ended or found
        else:
            await found.close(Closing(1000))

    def _keep(self, frame: bytes) -> None:
        self._kept.append(frame)
        self._bytes += len(frame)
        if self._bytes > self._kept_bytes and self._up.is_set():
            self._kept.clear()
            self._bytes = 0
            self.whole = False
