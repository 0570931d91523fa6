"""Bridge of a speech session, for any wire format: forwards messages between client and provider until one of them ends
the session.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from fairlead_gateway.telemetry import Histogram
from fairlead_speech.messages import (
    BinaryMessage,
    MessageReader,
    ReadingPace,
    RefusedMessage,
    TooLargeMessage,
    UnreadableMessage,
)
from fairlead_speech.metrics import TO_CLIENT, TO_PROVIDER, SpeechMetrics
from fairlead_speech.session import BridgedSession, SpeechBounds
from fairlead_speech.sockets import (
    BAD_ARGUMENT,
    GOING_AWAY,
    INTERNAL_ERROR,
    TOO_LARGE,
    TRY_AGAIN_LATER,
    UNSUPPORTED,
    Closing,
    SessionSide,
)

OK: Final = "ok"
CUT: Final = "cut"
"""Outcome of a session of which a connection ended without a WebSocket close frame."""
STALLED: Final = "stalled"
"""Outcome of a session whose client or provider did not read for too long."""
PROVIDER_CLOSED: Final = "provider_closed"
DRAINED: Final = "drained"
"""Outcome of a session that was closed because the gateway shuts down."""
FAILED: Final = "failed"
UNREADABLE: Final = "unreadable"
"""Outcome of a session that ended because the gateway refused a message."""
_DRAIN_REASON: Final = "the gateway is restarting: open the session again"
log = logging.getLogger(__name__)


class BridgeServices(msgspec.Struct, frozen=True):
    """Objects that all bridges of one gateway share."""

    metrics: SpeechMetrics
    clock: Callable[[], float]
    """Monotonic clock in seconds, which measures how long messages stay in the gateway."""
    reading: asyncio.Lock
    """Lock that all sessions share, so that only one of them reads the next piece of its messages per iteration of the
    event loop.
    """
    bounds: SpeechBounds


class SpeechBridge:
    """Running speech session, with one task for each direction, and one task that ends the session if a peer does not
    read or the gateway drains.
    """

    def __init__(
        self,
        client: SessionSide,
        provider: SessionSide,
        session: BridgedSession,
        engine: str,
        services: BridgeServices,
    ) -> None:
        """`engine`: label of the session's metrics."""
        self._client = client
        self._provider = provider
        self._session = session
        self._engine = engine
        self._metrics = services.metrics
        self._clock = services.clock
        self._reading_lock = services.reading
        self._bounds = services.bounds
        self._drain_deadline: float | None = None
        """Time at which the session is closed, even while the model responds; None if the gateway is not draining."""
        self._drain_requested = asyncio.Event()

    def drain(self, deadline: float) -> None:
        """Close the session as soon as the model is not responding, at the latest at the time `deadline` of the
        bridge's clock.
        """
        self._drain_deadline = deadline
        self._drain_requested.set()

    async def run(self) -> str:
        """Forward messages until client or provider ends the session, then close the other connection. Returns the
        outcome, a constant of this module.
        """
        session = self._session
        pumps = {
            asyncio.create_task(
                self._pump(self._client, self._provider, session.client_messages, session.from_client, TO_PROVIDER)
            ): "client",
            asyncio.create_task(
                self._pump(self._provider, self._client, session.provider_messages, session.from_provider, TO_CLIENT)
            ): "provider",
            asyncio.create_task(self._wait_for_end()): "gateway",
            asyncio.create_task(session.end.wait()): "gateway",
        }
        try:
            done, _ = await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            ended_task = next(iter(done))
            return await self._end(pumps[ended_task], ended_task)
        finally:
            for task in pumps:
                task.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            await session.aclose()

    async def _end(self, side: str, ended_task: asyncio.Task[tuple[str, Closing]]) -> str:
        """Close the connections that are still open. Returns the outcome of the session."""
        if ended_task.exception() is not None:
            outcome, closing = FAILED, Closing(INTERNAL_ERROR, "the gateway failed; its log says why")
        else:
            outcome, closing = ended_task.result()
        close_calls = []
        both_open = outcome == UNREADABLE  # with any other outcome, the side that ended is already closed
        if side != "client" or both_open:
            close_calls.append(self._client.close(closing))
        if side != "provider" or both_open:
            close_calls.append(self._provider.close(Closing(1000)))
        await asyncio.gather(*close_calls)
        if (error := ended_task.exception()) is not None:
            raise error
        return PROVIDER_CLOSED if side == "provider" and outcome == OK else outcome

    async def _pump(
        self,
        source: SessionSide,
        sink: SessionSide,
        reader: MessageReader,
        process: Callable[[bytes], Awaitable[bytes | None]],
        direction: str,
    ) -> tuple[str, Closing]:
        """Forward the messages of one direction. Returns the outcome, and the close frame for the other side."""
        clock, counter, key = self._clock, self._metrics.frames, (self._engine, direction)
        delay: Histogram = self._metrics.delays[direction]
        pace = ReadingPace(self._reading_lock)
        while True:
            payload = await source.receive()
            if isinstance(payload, Closing):
                return OK if payload.clean else CUT, payload.for_other_side()
            start_time = clock()
            sink.binary = source.received_binary
            try:
                if source.received_binary and not reader.binary:
                    raise BinaryMessage("messages of this API must be text, not binary")
                if not reader.is_audio(payload):
                    await pace.take(len(payload))
                    payload = reader.repair(payload)
                    reader.check(payload)
                    await pace.take(len(payload))  # processing takes about as long as reading
                    forwarded = await process(payload)
                else:
                    forwarded = payload if reader.passes_audio else await process(payload)
            except RefusedMessage as error:
                end = await self._refuse(error, source)
                if end is not None:
                    return end
                continue
            if forwarded is not None:
                await sink.send(forwarded)
            counter[key] += 1
            delay.observe(round((clock() - start_time) * 1e9))

    async def _refuse(self, error: RefusedMessage, source: SessionSide) -> tuple[str, Closing] | None:
        """Answer a refused message. Returns outcome and close frame if the session ends, and None if the session
        continues.
        """
        if source is self._provider:
            log.warning("A session of %s ends, because a message of the provider was refused: %s", self._engine, error)
            return UNREADABLE, Closing(INTERNAL_ERROR, f"the gateway refused a message of the provider: {error}")
        refusal = self._session.refusal(error) if isinstance(error, UnreadableMessage) else None
        if refusal is None:
            return UNREADABLE, close_refused(error)
        await self._client.send(refusal)
        return None

    async def _wait_for_end(self) -> tuple[str, Closing]:
        """Wait until the session has to end, because a peer has not read for too long or because the gateway is
        draining. Returns outcome and close frame.
        """
        drain_announced = False
        while True:
            if self._drain_deadline is not None:
                await asyncio.sleep(self._bounds.check_seconds / 10)
            else:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._bounds.check_seconds):
                        await self._drain_requested.wait()
            if self._drain_deadline is not None and not drain_announced:
                drain_announced = True
                await self._session.announce_drain(max(self._drain_deadline - self._clock(), 0.0))
            if self._client.stalled_seconds > self._bounds.stalled_seconds:
                return STALLED, Closing(TRY_AGAIN_LATER, "the client did not read what the model sent")
            if self._provider.stalled_seconds > self._bounds.stalled_seconds:
                return STALLED, Closing(INTERNAL_ERROR, "the provider did not read what the client sent")
            if self._drain_deadline is not None and (
                not self._session.responding or self._clock() >= self._drain_deadline
            ):
                return DRAINED, Closing(GOING_AWAY, _DRAIN_REASON)


def close_refused(error: RefusedMessage) -> Closing:
    """Close frame for a client whose message was refused."""
    if isinstance(error, TooLargeMessage):
        return Closing(TOO_LARGE, str(error))
    return Closing(UNSUPPORTED if isinstance(error, BinaryMessage) else BAD_ARGUMENT, str(error))
