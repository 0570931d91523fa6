"""Changes the tools of a Gemini Live session: by the message `contextUpdate` if the model supports it, else by
replacing the connection to the provider.

A connection can be replaced only while nobody speaks, no tool call is open, and the provider has sent a resumption
handle since the model last spoke. The provider refuses a handle while the old connection is open, so the old connection
is closed first. The provider closes each connection after about ten minutes; such a connection is replaced in the same
way.

A handle covers the messages that were sent before it. Messages sent after the newest handle are buffered, and sent
again over the new connection. Messages that the client sends during the replacement wait in the same buffer. So no
message is lost or sent twice.
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
"""Seconds between two checks whether a connection can be replaced, and between two attempts to open a new connection.
"""
SETUP_ANSWER_SECONDS: Final = 10.0
"""Seconds that a provider has to answer a setup."""
MAX_ATTEMPTS: Final = 3
"""Maximum number of attempts to open a new connection."""
NO_HANDLE: Final = "no_handle"
"""Reason why a tier's tools are not available yet: the provider has sent no handle since the model last spoke."""
TOO_MUCH_SINCE_HANDLE: Final = "too_much"
"""Reason why a tier's tools are not available yet: more was sent since the newest handle than the buffer holds."""
_NOTICE_SECONDS: Final = 5.0
"""If a connection that the provider will close cannot be replaced, the client gets `goAway` this many seconds before
the close.
"""
_REFUSAL_CODES: Final = frozenset({1007, 1008})
"""WebSocket close codes by which a model refuses a message. The buffer, which contains that message, is then not sent
again.
"""
log = logging.getLogger(__name__)
Dial = Callable[[], Awaitable[SessionSide]]
"""Function that opens a new connection to the session's model. Raises LlmError."""
MAX_BUFFERED_BYTES: Final = 256 << 10
"""Maximum number of bytes of messages that are buffered since the newest handle: five seconds of PCM at 16 kHz, in
base64."""


class LiveParts(msgspec.Struct, frozen=True):
    """Objects that one session shares with its connections to the provider."""

    setup: SessionSetup
    modes: CallModes
    turns: LiveTurns
    notices: ClientNotices
    clock: Callable[[], float]
    """Monotonic clock in seconds."""


class ToolSwitch:
    """Changes the tools of one session, if necessary by replacing its connection. Its owner calls `aclose` at the
    end.
    """

    def __init__(
        self,
        parts: LiveParts,
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
        """Provider's side of the session. This object remains when the connection inside it is replaced."""
        self._setup = parts.setup
        self._turns = parts.turns
        self._notices = parts.notices
        self._clock = parts.clock
        self._model = model
        self._dial = dial
        self._on_update_refused = on_update_refused
        self._task: asyncio.Task[None] | None = None
        self._check_now = asyncio.Event()
        """Set to check at once whether the connection can be replaced."""
        self._update_sent = False
        """Whether the gateway has sent a `contextUpdate` since the last turn ended."""
        self._go_away: tuple[float, bytes] | None = None
        """Time at which the client gets the provider's message `goAway`, and that message. None: no `goAway` is
        pending.
        """

    async def update_tools(self) -> None:
        """Send the offered tools to the model as soon as the model can get them."""
        if not self._setup.pending:
            return
        if self._model.context_update and self._connection.connected:
            self._update_sent = True
            await self._connection.send_unbuffered(self._setup.context_update())
        else:
            self.try_replace()

    def try_replace(self) -> None:
        """If the connection has to be replaced, replace it now, or start to wait until that is possible."""
        if not self._needs_replacement or not self._connection.connected:
            return
        if self._can_replace:
            self._start_replacing()
        elif self._task is None or self._task.done():
            self._task = asyncio.create_task(self._wait_to_replace(), name="tools of a speech session")
        else:
            self._check_now.set()

    def on_turn_complete(self) -> None:
        """Record the end of the model's turn, and replace the connection if that is necessary."""
        self._update_sent = False
        self.try_replace()

    def on_go_away(self, notice: GoAway, payload: bytes) -> None:
        """Handle the provider's `goAway`: hide it from the client, and replace the connection before the provider
        closes it.
        """
        self._go_away = self._clock() + max(notice.seconds - _NOTICE_SECONDS, 0.0), payload
        self.try_replace()

    def recover(self, closing: Closing) -> bool:
        """Handle the close of the connection to the provider. Returns True if a new connection replaces it."""
        message_refused = closing.code in _REFUSAL_CODES
        if message_refused and self._update_sent:
            log.warning(
                "The model of a Gemini Live session refused contextUpdate, so the session is resumed over another "
                "connection"
            )
            self._on_update_refused()
            self._model = self._model.without_update()
            message_refused = False
        turns = self._turns
        if message_refused or turns.busy or not turns.handle_current or not self._connection.complete:
            return False
        self._start_replacing()
        return True

    async def aclose(self) -> None:
        """Cancel the replacement of the connection, or the wait for it."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    # Internals

    @property
    def _needs_replacement(self) -> bool:
        return self._go_away is not None or (self._setup.pending and not self._model.context_update)

    @property
    def _can_replace(self) -> bool:
        return self._turns.resumable(self._clock()) and self._connection.complete

    def _start_replacing(self) -> None:
        wait_task = self._task
        self._go_away = None
        self._connection.pause()
        self._turns.handle_current = False
        self._task = asyncio.create_task(self._replace(wait_task), name="connection of a speech session")

    async def _replace(self, wait_task: asyncio.Task[None] | None) -> None:
        if wait_task is not None:
            wait_task.cancel()
            await asyncio.gather(wait_task, return_exceptions=True)
        is_replaced = await self._connection.replace(self._connect)
        self._metrics.resumptions[self._engine, OK if is_replaced else FAILED_RESUMPTION] += 1
        if is_replaced and self._setup.pending:  # the tools have changed again during the replacement
            await self.update_tools()

    async def _connect(self) -> SessionSide | Closing:
        """Open a connection that resumes the session. Returns the connection, or the close frame of the last failed
        attempt.
        """
        failure = Closing(1011, "the gateway could not resume the session with the provider")
        for attempt in range(MAX_ATTEMPTS):
            if attempt:
                await asyncio.sleep(RETRY_SECONDS)  # time for the provider to notice the close of the old connection
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
            if failure.code in _REFUSAL_CODES:
                break
        log.warning(
            "A Gemini Live session ends, because it could not be resumed over a new connection: %s %s",
            failure.code,
            failure.reason[:120],
        )
        return failure

    async def _set_up(self, side: SessionSide) -> Closing | None:
        """Send the setup over a new connection. Returns None if the session is resumed, else how the connection was
        closed.
        """
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
            return Closing(1011, f"the gateway refused the provider's answer to the setup: {error}")
        except TimeoutError:
            await side.close(Closing(1000))
            return Closing(1011, f"the provider did not answer a setup within {SETUP_ANSWER_SECONDS:.0f} s")

    async def _wait_to_replace(self) -> None:
        """Check at intervals until the session is idle and the connection can be replaced. If a missing handle or an
        exceeded buffer is the only obstacle, tell the client that the tier's tools are not available yet.
        """
        idle_checks, tier_announced = 0, False
        while self._needs_replacement and self._connection.connected:
            self._check_now.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RETRY_SECONDS):
                    await self._check_now.wait()
            if self._can_replace:
                self._start_replacing()
                return
            idle_checks = idle_checks + 1 if self._turns.idle(self._clock()) else 0
            if idle_checks > 1 and not tier_announced and self._setup.pending:
                tier_announced = True
                await self._announce_waiting_tier()
            await self._forward_go_away()

    async def _announce_waiting_tier(self) -> None:
        reason = TOO_MUCH_SINCE_HANDLE if self._turns.handle_current else NO_HANDLE
        self._metrics.tier_waits[self._engine, reason] += 1
        log.info("The tools of a Gemini Live session change after its next turn, not now: %s", reason)
        await self._notices.send_waiting_tier(reason)

    async def _forward_go_away(self) -> None:
        if self._go_away is not None and self._clock() >= self._go_away[0]:
            (_, payload), self._go_away = self._go_away, None
            await self._notices.forward(payload)


class ProviderConnection:
    """Provider's side of a session, inside which the connection can be replaced. Its owner calls `close` at the end."""

    def __init__(
        self, side: SessionSide, recover: Callable[[Closing], bool], max_bytes: int = MAX_BUFFERED_BYTES
    ) -> None:
        """`recover`: called when the connection was closed. Returns whether the connection will be replaced; if so,
        `recover` has called `pause`.
        """
        self._recover = recover
        self._side: SessionSide | None = side
        self._max_bytes = max_bytes
        self._buffered: deque[bytes] = deque()
        self._buffered_bytes = 0
        self._connected = asyncio.Event()
        self._connected.set()
        self._closing: Closing | None = None
        self._received_binary = False
        self.binary = False
        self.complete = True
        """Whether the buffer contains all messages since the newest handle. False after more was sent than the buffer
        holds.
        """

    @property
    def connected(self) -> bool:
        """Whether a connection is open and not about to be replaced."""
        return self._connected.is_set() and self._closing is None

    @property
    def received_binary(self) -> bool:
        """Whether the last received message was binary."""
        return self._received_binary

    @property
    def stalled_seconds(self) -> float:
        """Seconds for which the provider has not read what was sent; 0 while the connection is being replaced."""
        return self._side.stalled_seconds if self._side is not None and self.connected else 0.0

    async def receive(self) -> bytes | Closing:
        """Wait for the next message of the current connection, or for the close of the session's last connection."""
        while True:
            await self._connected.wait()
            side = self._side
            if side is None or self._closing is not None:
                return self._closing or Closing(1006, clean=False)
            payload = await side.receive()
            if side is not self._side or not self._connected.is_set():
                continue  # a message of the old connection; the provider sends it again over the new one
            self._received_binary = side.received_binary
            if isinstance(payload, Closing) and self._recover(payload):
                continue
            return payload

    async def send(self, payload: bytes) -> None:
        """Send a message, and buffer it until the next handle. If the buffer is full while the connection is being
        replaced, wait until the new connection is open.
        """
        while not self._connected.is_set() and self._buffered_bytes + len(payload) > self._max_bytes and self._buffered:
            await self._connected.wait()
        self._buffer(payload)
        if self._connected.is_set() and self._side is not None:
            self._side.binary = self.binary
            await self._side.send(payload)

    async def send_unbuffered(self, payload: bytes) -> None:
        """Send a message that is not buffered, so that a new connection does not get it again. Without an open
        connection, do nothing.
        """
        if self._connected.is_set() and self._side is not None:
            await self._side.send(payload)

    def on_handle(self) -> None:
        """Empty the buffer, because a new handle covers all messages that were sent before it."""
        self._buffered.clear()
        self._buffered_bytes = 0
        self.complete = True

    def pause(self) -> None:
        """Prepare to replace the connection: from now on, buffer messages that are sent, and drop messages that are
        received.
        """
        self._connected.clear()

    async def replace(self, connect: Callable[[], Awaitable[SessionSide | Closing]]) -> bool:
        """Close the paused connection, open a new connection by `connect`, and send the buffer over the new connection.
        Returns False on failure.
        """
        old_side, self._side = self._side, None
        try:
            if old_side is not None:
                await old_side.close(Closing(1000))
            result = await connect()
            if isinstance(result, Closing) or self._closing is not None:
                await self._fail(result)
                return False
            sent_count = 0
            while sent_count < len(self._buffered):  # the buffer may grow during the loop
                await result.send(self._buffered[sent_count])
                sent_count += 1
            self._side = result
            return True
        finally:
            if self._side is None and self._closing is None:
                self._closing = Closing(1011, "the gateway could not resume the session with the provider")
            self._connected.set()

    async def close(self, closing: Closing) -> None:
        """Close the connection. A new connection that is being opened is closed as soon as it is open."""
        side = self._side
        self._closing = self._closing or closing
        self._connected.set()
        if side is not None:
            await side.close(closing)

    async def _fail(self, result: SessionSide | Closing) -> None:
        """Handle the end of a failed replacement. `result` is the result of `connect`: a `Closing`, which becomes the
        close of the session, or a new connection, which is no longer needed and is closed.
        """
        if isinstance(result, Closing):
            self._closing = self._closing or result
        else:
            await result.close(Closing(1000))

    def _buffer(self, payload: bytes) -> None:
        self._buffered.append(payload)
        self._buffered_bytes += len(payload)
        if self._buffered_bytes > self._max_bytes and self._connected.is_set():
            self._buffered.clear()
            self._buffered_bytes = 0
            self.complete = False
