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

import msgspec

from fairlead_formats.wire.errors import LlmError
from fairlead_speech.gemini.messages import PROVIDER_MESSAGES, ClientNotices, GoAway, is_present, read_server
from fairlead_speech.gemini.models import CallModes, LiveModel
from fairlead_speech.gemini.setup import SessionSetup
from fairlead_speech.gemini.turns import LiveTurns
from fairlead_speech.messages import RefusedMessage
from fairlead_speech.metrics import FAILED_RESUMPTION, OK
from fairlead_speech.sockets import Closing, SessionSide
from fairlead_speech.tools import SpeechContext

RETRY_SECONDS: Final = 0.5
"""Time between two looks whether a connection can be replaced, and between two attempts to open one."""
SETUP_ANSWER_SECONDS: Final = 10.0
"""For a provider to answer a setup."""
ATTEMPTS: Final = 3
NO_HANDLE: Final = "no_handle"
"""The provider gave no handle since the model last spoke."""
TOO_MUCH_SINCE_HANDLE: Final = "too_much"
"""More was said since the handle than is kept."""
_NOTICE_SECONDS: Final = 5.0
"""Time before the end of a connection at which its client hears of that, if it could not be replaced."""
_REFUSALS: Final = frozenset({1007, 1008})
"""Close codes for what a model does not take; after them nothing is sent again."""
log = logging.getLogger(__name__)
Dial = Callable[[], Awaitable[SessionSide]]
"""Connects to the session's model. Raises LlmError."""
MAX_BUFFERED_BYTES: Final = 256 << 10
"""Bytes that are kept since the newest handle: five seconds of PCM at 16 kHz, in base64."""


class LiveParts(msgspec.Struct, frozen=True):
    """Parts of one session that it shares with its connections."""

    setup: SessionSetup
    modes: CallModes
    turns: LiveTurns
    notices: ClientNotices
    clock: Callable[[], float]
    """In seconds."""


class ToolSwitch:
    """Changes tools and connections of one session. `aclose` it."""

    def __init__(
        self,
        state: LiveParts,
        context: SpeechContext,
        side: SessionSide,
        model: LiveModel,
        dial: Dial,
        on_update_refused: Callable[[], None],
    ) -> None:
        """`side`: the first connection. `on_update_refused` is called when the model refuses `contextUpdate`."""
        self._engine = context.engine
        self._metrics = context.metrics
        self.connection = self._connection = ProviderConnection(side, self.recover)
        """The provider's side of the session, over whatever connection."""
        self._setup = state.setup
        self._turns = state.turns
        self._notices = state.notices
        self._clock = state.clock
        self._model = model
        self._dial = dial
        self._on_update_refused = on_update_refused
        self._task: asyncio.Task[None] | None = None
        self._retry = asyncio.Event()
        self._update_sent = False
        """Whether a `contextUpdate` of ours was sent since the last turn ended."""
        self._go_away: tuple[float, bytes] | None = None
        """Time at which the client is told that the provider closes the connection, and the message for it."""

    async def update_tools(self) -> None:
        """Bring the tools that are to be shown to the model, as soon as it can take them."""
        if not self._setup.pending:
            return
        if self._model.context_update and self._connection.connected:
            self._update_sent = True
            await self._connection.send_unbuffered(self._setup.context_update())
        else:
            self.try_replace()

    def try_replace(self) -> None:
        """Replace the connection if that is wanted and possible now; else wait for it."""
        if not self._replacement_due or not self._connection.connected:
            return
        if self._replaceable:
            self._start_replacing()
        elif self._task is None or self._task.done():
            self._task = asyncio.create_task(self._wait(), name="tools of a speech session")
        else:
            self._retry.set()

    def on_turn_complete(self) -> None:
        """The model's turn is over."""
        self._update_sent = False
        self.try_replace()

    def on_go_away(self, notice: GoAway, payload: bytes) -> None:
        """The provider closes the connection soon, and the client is not to care."""
        self._go_away = self._clock() + max(notice.seconds - _NOTICE_SECONDS, 0.0), payload
        self.try_replace()

    def recover(self, closing: Closing) -> bool:
        """The provider closed the connection: whether another one takes its place."""
        refused = closing.code in _REFUSALS
        if refused and self._update_sent:
            log.warning("A model of Gemini Live refused contextUpdate: its session is gone on with by its handle")
            self._on_update_refused()
            self._model = self._model.without_update()
            refused = False
        turns = self._turns
        if refused or turns.busy or not turns.handle_current or not self._connection.complete:
            return False
        self._start_replacing()
        return True

    async def aclose(self) -> None:
        """Give up what is being done."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    # Inside

    @property
    def _replacement_due(self) -> bool:
        return self._go_away is not None or (self._setup.pending and not self._model.context_update)

    @property
    def _replaceable(self) -> bool:
        return self._turns.resumable(self._clock()) and self._connection.complete

    def _start_replacing(self) -> None:
        waiting = self._task
        self._go_away = None
        self._connection.pause()
        self._turns.handle_current = False
        self._task = asyncio.create_task(self._replace(waiting), name="connection of a speech session")

    async def _replace(self, waiting: asyncio.Task[None] | None) -> None:
        if waiting is not None:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        replaced = await self._connection.replace(self._connect)
        self._metrics.resumptions[self._engine, OK if replaced else FAILED_RESUMPTION] += 1
        if replaced and self._setup.pending:  # they changed again meanwhile
            await self.update_tools()

    async def _connect(self) -> SessionSide | Closing:
        """A connection that goes on with the session; how the last attempt ended otherwise."""
        failure = Closing(1011, "the session could not be gone on with")
        for attempt in range(ATTEMPTS):
            if attempt:
                await asyncio.sleep(RETRY_SECONDS)  # a provider may not know yet that the old connection is closed
            try:
                side = await self._dial()
            except LlmError as error:
                failure = Closing(1011, str(error))
                continue
            try:
                closing = await self._set_up(side)
            except BaseException:
                await side.close(Closing(1000))
                raise
            if closing is None:
                return side
            failure = closing
            if failure.code in _REFUSALS:
                break
        log.warning("A session of Gemini Live could not be resumed: %s %s", failure.code, failure.reason[:120])
        return failure

    async def _set_up(self, side: SessionSide) -> Closing | None:
        """Set a connection up. None: it goes on with the session."""
        await side.send(self._setup.message(self._turns.handle))
        try:
            async with asyncio.timeout(SETUP_ANSWER_SECONDS):
                while True:
                    payload = await side.receive()
                    if isinstance(payload, Closing):
                        return payload
                    PROVIDER_MESSAGES.check(payload)
                    if is_present(read_server(payload).setup_complete):
                        return None
        except RefusedMessage as error:
            await side.close(Closing(1000))
            return Closing(1011, f"the provider's answer to a setup is refused: {error}")
        except TimeoutError:
            await side.close(Closing(1000))
            return Closing(1011, "the provider did not answer a setup")

    async def _wait(self) -> None:
        """Look again and again, as time may be what is missing; tell of it when nothing else is."""
        misses, told = 0, False
        while self._replacement_due and self._connection.connected:
            self._retry.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RETRY_SECONDS):
                    await self._retry.wait()
            if self._replaceable:
                self._start_replacing()
                return
            misses = misses + 1 if self._turns.idle(self._clock()) else 0
            if misses > 1 and not told and self._setup.pending:
                told = True
                await self._announce_waiting_tier()
            await self._forward_go_away()

    async def _announce_waiting_tier(self) -> None:
        why = TOO_MUCH_SINCE_HANDLE if self._turns.handle_current else NO_HANDLE
        self._metrics.tier_waits[self._engine, why] += 1
        log.info("The tier of a speech session waits for the end of the next turn: %s", why)
        await self._notices.send_waiting_tier(why)

    async def _forward_go_away(self) -> None:
        if self._go_away is not None and self._clock() >= self._go_away[0]:
            (_, payload), self._go_away = self._go_away, None
            await self._notices.forward(payload)


class ProviderConnection:
    """Side of a session towards its provider. `close` it."""

    def __init__(
        self, side: SessionSide, recover: Callable[[Closing], bool], max_bytes: int = MAX_BUFFERED_BYTES
    ) -> None:
        """`recover`: whether another connection is about to take the place of one that was closed; it has begun to
        `replace` it then.
        """
        self._recover = recover
        self._side: SessionSide | None = side
        self._max_bytes = max_bytes
        self._since_handle: deque[bytes] = deque()
        self._bytes = 0
        self._connected = asyncio.Event()
        self._connected.set()
        self._closing: Closing | None = None
        self._received_binary = False
        self.binary = False
        self.complete = True
        """Whether all that was sent since the newest handle is kept."""

    @property
    def connected(self) -> bool:
        """Whether a connection carries frames now."""
        return self._connected.is_set() and self._closing is None

    @property
    def received_binary(self) -> bool:
        """Whether the last message came as a binary one."""
        return self._received_binary

    @property
    def stalled_seconds(self) -> float:
        """Seconds for which the provider has not read what was sent; 0 while a connection is replaced."""
        return self._side.stalled_seconds if self._side is not None and self.connected else 0.0

    async def receive(self) -> bytes | Closing:
        """The next message of the connection that carries the session, or how the last one ended."""
        while True:
            await self._connected.wait()
            side = self._side
            if side is None or self._closing is not None:
                return self._closing or Closing(1006, clean=False)
            payload = await side.receive()
            if side is not self._side or not self._connected.is_set():
                continue  # what is said over a connection that was given up is said again over the next
            self._received_binary = side.received_binary
            if isinstance(payload, Closing) and self._recover(payload):
                continue
            return payload

    async def send(self, payload: bytes) -> None:
        """Send a message, and keep it until the next handle. Waits while connections are replaced and no more fits."""
        while not self._connected.is_set() and self._bytes + len(payload) > self._max_bytes and self._since_handle:
            await self._connected.wait()
        self._buffer(payload)
        if self._connected.is_set() and self._side is not None:
            self._side.binary = self.binary
            await self._side.send(payload)

    async def send_unbuffered(self, payload: bytes) -> None:
        """Send a message that no other connection needs. No-op where none is up."""
        if self._connected.is_set() and self._side is not None:
            await self._side.send(payload)

    def on_handle(self) -> None:
        """A handle came: what was sent so far is in it."""
        self._since_handle.clear()
        self._bytes = 0
        self.complete = True

    def pause(self) -> None:
        """From now on keep what is sent, and drop what comes: the connection is about to be replaced."""
        self._connected.clear()

    async def replace(self, connect: Callable[[], Awaitable[SessionSide | Closing]]) -> bool:
        """Close the connection that was held, then connect and send what was kept. Whether that was successful; else
        the line is at its end.
        """
        old, self._side = self._side, None
        try:
            if old is not None:
                await old.close(Closing(1000))
            opened = await connect()
            if isinstance(opened, Closing) or self._closing is not None:
                await self._fail(opened)
                return False
            sent = 0
            while sent < len(self._since_handle):  # it may grow meanwhile
                await opened.send(self._since_handle[sent])
                sent += 1
            self._side = opened
            return True
        finally:
            if self._side is None and self._closing is None:
                self._closing = Closing(1011, "the session could not be gone on with")
            self._connected.set()

    async def close(self, closing: Closing) -> None:
        """Close the connection; one that is being made is closed as soon as it is there."""
        side = self._side
        self._closing = self._closing or closing
        self._connected.set()
        if side is not None:
            await side.close(closing)

    async def _fail(self, opened: SessionSide | Closing) -> None:
        if isinstance(opened, Closing):
            self._closing = self._closing or opened
        else:
            await opened.close(Closing(1000))

    def _buffer(self, payload: bytes) -> None:
        self._since_handle.append(payload)
        self._bytes += len(payload)
        if self._bytes > self._max_bytes and self._connected.is_set():
            self._since_handle.clear()
            self._bytes = 0
            self.complete = False
