"""Transcription of a user's turns of speech, one at a time, in the order in which they were spoken."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

import msgspec

from fairlead_speech.cascaded.backends import BackendFailed, SpeechBackends
from fairlead_speech.cascaded.conversation import ConversationItem
from fairlead_speech.realtime.events import Event, members

MAX_TURNS: Final = 16
"""Maximum number of turns that wait for transcription. Each such turn is an item that cannot be dropped from the
conversation, and costs a request to the speech server.
"""
MAX_SECONDS: Final = 60.0
"""Maximum seconds of one transcription. A limit on idle time is not enough: a server that sends a byte now and then is
never idle, and would delay all later turns.
"""
log = logging.getLogger(__name__)


class TranscriptionHost(Protocol):
    """Interface of a session to the transcription of its turns."""

    backends: SpeechBackends

    def emit(self, kind: str, **members: Any) -> None:
        """Send an event."""
        ...

    def update(self, item: ConversationItem, wire: Event) -> None:
        """Replace the wire form of an item."""
        ...


class _WaitingTurn(msgspec.Struct):
    """Turn that waits for transcription."""

    item: ConversationItem
    audio: bytes
    language: str
    visible: bool
    """Whether the client receives the transcript."""


class TurnTranscription:
    """Transcribes the turns of one session. Its owner calls `aclose` at the end."""

    def __init__(self, host: TranscriptionHost, on_done: Callable[[int], None]) -> None:
        """`on_done`: called after each turn with the size of the turn's audio in bytes, because the session no longer
        has to keep that audio.
        """
        self._host = host
        self._on_done = on_done
        self._turns: deque[_WaitingTurn] = deque()
        """Turns without a transcript. The first of them is being transcribed."""
        self._idle = asyncio.Event()
        self._worker: asyncio.Task[None] | None = None
        self.failure: BackendFailed | None = None
        """Error of the last transcription; None: it succeeded."""
        self.empty = False
        """Whether the transcript of the last turn is empty."""

    @property
    def busy(self) -> bool:
        """Whether any turn is being transcribed."""
        return bool(self._turns)

    @property
    def full(self) -> bool:
        """Whether MAX_TURNS turns wait, so that no further turn can be added."""
        return len(self._turns) >= MAX_TURNS

    def begin(self, item: ConversationItem, audio: bytes, language: str, *, visible: bool) -> None:
        """Queue the audio of an item for transcription. Must not be called while `full`. `visible`: whether the client
        gets the transcript.
        """
        self._turns.append(_WaitingTurn(item, audio, language, visible))
        self._idle.clear()
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work(), name="transcription of a cascaded engine")

    async def wait(self) -> None:
        """Wait until all turns are transcribed, including turns that are added during the wait."""
        while self._turns:
            await self._idle.wait()

    async def aclose(self) -> None:
        """Cancel the transcription task, and drop the waiting turns."""
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.gather(self._worker, return_exceptions=True)
        self._turns.clear()
        self._idle.set()

    async def _work(self) -> None:
        while self._turns:
            turn = self._turns[0]
            try:
                await self._transcribe(turn)
            except Exception:
                log.exception("The gateway failed to transcribe a turn of speech with a cascaded engine")
                self.failure = BackendFailed("internal_error", "the gateway failed; its log says why")
            finally:
                self._turns.popleft()
                self._on_done(len(turn.audio))
        self._idle.set()

    async def _transcribe(self, turn: _WaitingTurn) -> None:
        host, item, kind = self._host, turn.item, "conversation.item.input_audio_transcription"
        content = members(item.wire, "content")
        index = next((number for number, part in enumerate(content) if part.get("type") == "input_audio"), 0)
        position = {"item_id": item.id, "content_index": index}
        self.failure = None
        self.empty = False
        try:
            transcript = await self._transcript(turn)
        except BackendFailed as error:
            self.failure = error
            if turn.visible:
                failure = {"type": "server_error", "code": error.code, "message": str(error), "param": None}
                host.emit(f"{kind}.failed", **position, error=failure)
            return
        self.empty = not transcript
        content[index : index + 1] = [{"type": "input_audio", "transcript": transcript}]
        host.update(item, {**item.wire, "content": content})
        if turn.visible:
            if transcript:
                host.emit(f"{kind}.delta", **position, delta=transcript)
            usage = {"type": "duration", "seconds": round(len(turn.audio) / 48_000, 2)}
            host.emit(f"{kind}.completed", **position, transcript=transcript, usage=usage)

    async def _transcript(self, turn: _WaitingTurn) -> str:
        """Transcribe a turn, within MAX_SECONDS. Raises BackendFailed."""
        try:
            async with asyncio.timeout(MAX_SECONDS):
                return await self._host.backends.transcribe(turn.audio, turn.language)
        except TimeoutError as error:
            message = f"the speech-to-text server did not answer within {MAX_SECONDS:.0f} s"
            raise BackendFailed("stt_unavailable", message) from error
