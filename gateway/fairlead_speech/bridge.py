"""Carries frames between the two sides of a session until one of them ends, whatever their wire format is."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Final

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
"""A connection ended without a close."""
STALLED: Final = "stalled"
PROVIDER_CLOSED: Final = "provider_closed"
DRAINED: Final = "drained"
FAILED: Final = "failed"
UNREADABLE: Final = "unreadable"
"""A side sent a message that is not taken."""
_DRAINING: Final = "the gateway is being restarted: open the session again"
log = logging.getLogger(__name__)


class SpeechBridge:
    """One session that runs."""

    def __init__(
        self,
        client: SessionSide,
        provider: SessionSide,
        session: BridgedSession,
        engine: str,
        metrics: SpeechMetrics,
        clock: Callable[[], float],
        turns: asyncio.Lock,
        bounds: SpeechBounds,
    ) -> None:
        """`turns`: of all sessions, for messages that take the loop long."""
        self._client = client
        self._provider = provider
        self._session = session
        self._engine = engine
        self._metrics = metrics
        self._clock = clock
        self._turns = turns
        self._bounds = bounds
        self._drain_deadline: float | None = None
        """Time at which the session is closed, whatever it does."""
        self._drain_requested = asyncio.Event()

    def drain(self, deadline: float) -> None:
        """Close the session when the model has answered, at the latest at `deadline`, in seconds of the clock."""
        self._drain_deadline = deadline
        self._drain_requested.set()

    async def run(self) -> str:
        """Carry frames until a side ends, then close the other one. The outcome, one of the constants here."""
        session = self._session
        pumps = {
            asyncio.create_task(
                self._pump(self._client, self._provider, session.client_messages, session.from_client, TO_PROVIDER)
            ): "client",
            asyncio.create_task(
                self._pump(self._provider, self._client, session.provider_messages, session.from_provider, TO_CLIENT)
            ): "provider",
            asyncio.create_task(self._watch()): "gateway",
            asyncio.create_task(session.end.wait()): "gateway",
        }
        try:
            done, _ = await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            ended = next(iter(done))
            return await self._end(pumps[ended], ended)
        finally:
            for task in pumps:
                task.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            await session.aclose()

    async def _end(self, side: str, ended: asyncio.Task[tuple[str, Closing]]) -> str:
        """Close what is open."""
        if ended.exception() is not None:
            outcome, closing = FAILED, Closing(INTERNAL_ERROR, "the gateway failed; its log says why")
        else:
            outcome, closing = ended.result()
        closes = []
        open_still = outcome == UNREADABLE  # else a side whose pump has ended is gone
        if side != "client" or open_still:
            closes.append(self._client.close(closing))
        if side != "provider" or open_still:
            closes.append(self._provider.close(Closing(1000)))
        await asyncio.gather(*closes)
        if (error := ended.exception()) is not None:
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
        """Carry the frames of one side; how it ended."""
        clock, counter, key = self._clock, self._metrics.frames, (self._engine, direction)
        delay: Histogram = self._metrics.delays[direction]
        pace = ReadingPace(self._turns)
        while True:
            payload = await source.receive()
            if isinstance(payload, Closing):
                return OK if payload.clean else CUT, payload.for_other_side()
            started = clock()
            sink.binary = source.received_binary
            try:
                if source.received_binary and not reader.binary:
                    raise BinaryMessage("messages are text here")
                if not reader.is_audio(payload):
                    await pace.take(len(payload))
                    payload = reader.repair(payload)
                    reader.check(payload)
                    await pace.take(len(payload))  # what is done by it takes about as long again
                    forwarded = await process(payload)
                else:
                    forwarded = payload if reader.passes_audio else await process(payload)
            except RefusedMessage as error:
                ended = await self._refuse(error, source)
                if ended is not None:
                    return ended
                continue
            if forwarded is not None:
                await sink.send(forwarded)
            counter[key] += 1
            delay.observe(round((clock() - started) * 1e9))

    async def _refuse(self, error: RefusedMessage, source: SessionSide) -> tuple[str, Closing] | None:
        """Answer a frame that is not taken: how the session ends; None: it goes on."""
        if source is self._provider:
            log.warning("A provider's message is refused, its session of %s ends: %s", self._engine, error)
            return UNREADABLE, Closing(INTERNAL_ERROR, f"the provider's message is refused: {error}")
        refusal = self._session.refusal(error) if isinstance(error, UnreadableMessage) else None
        if refusal is None:
            return UNREADABLE, close_refused(error)
        await self._client.send(refusal)
        return None

    async def _watch(self) -> tuple[str, Closing]:
        """Look for what ends a session from outside."""
        told = False
        while True:
            if self._drain_deadline is not None:
                await asyncio.sleep(self._bounds.check_seconds / 10)
            else:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._bounds.check_seconds):
                        await self._drain_requested.wait()
            if self._drain_deadline is not None and not told:
                told = True
                await self._session.announce_drain(max(self._drain_deadline - self._clock(), 0.0))
            if self._client.stalled_seconds > self._bounds.stalled_seconds:
                return STALLED, Closing(TRY_AGAIN_LATER, "the client did not read what the model said")
            if self._provider.stalled_seconds > self._bounds.stalled_seconds:
                return STALLED, Closing(INTERNAL_ERROR, "the provider did not read what the client said")
            if self._drain_deadline is not None and (
                not self._session.responding or self._clock() >= self._drain_deadline
            ):
                return DRAINED, Closing(GOING_AWAY, _DRAINING)


def close_refused(error: RefusedMessage) -> Closing:
    """The close for a client whose message is not taken."""
    if isinstance(error, TooLargeMessage):
        return Closing(TOO_LARGE, str(error))
    return Closing(UNSUPPORTED if isinstance(error, BinaryMessage) else BAD_ARGUMENT, str(error))
