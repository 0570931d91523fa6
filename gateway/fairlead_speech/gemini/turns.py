"""Turns, calls and handle of a Gemini Live session: when it can be resumed over another connection. Pure module."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

MAX_CALLS: Final = 1024
"""Calls without a result that are remembered."""
PAUSE_SECONDS: Final = 1.5
"""Time after a piece of a transcript during which the user counts as speaking; it may come later than the speech."""


class LiveTurns:
    """State of one session. Times are seconds of any clock."""

    def __init__(self) -> None:
        self.answering = False
        """Whether the model answers, or is asked to."""
        self.speaking = False
        """Whether the user is in the middle of a marked turn, which another connection would not know of."""
        self.handle = ""
        """Newest handle that resumes the session; empty before the first."""
        self.handle_current = False
        """Whether the session is unchanged since the handle, but for input."""
        self._transcribed_at: float | None = None
        self._unanswered: dict[str, None] = {}

    @property
    def busy(self) -> bool:
        """Whether the model answers, gets a marked turn, or waits for a result."""
        return self.answering or self.speaking or bool(self._unanswered)

    def idle(self, now: float) -> bool:
        """Whether nobody speaks, and nothing is waited for."""
        return not self.busy and (self._transcribed_at is None or now - self._transcribed_at >= PAUSE_SECONDS)

    def resumable(self, now: float) -> bool:
        """Whether a connection that resumes with the handle lacks nothing but input after it."""
        return self.idle(now) and self.handle_current

    def request_answer(self) -> None:
        """Record that an answer is asked for."""
        self.answering = True
        self.speaking = False

    def begin_activity(self) -> None:
        """Take `activityStart`: the end of the turn asks for an answer."""
        self.answering = self.speaking = True

    def on_transcription(self, now: float) -> None:
        """Take a piece of the user's transcript."""
        self._transcribed_at = now

    def on_output(self) -> bool:
        """Take output of the model. True where its answer begins."""
        self._transcribed_at = None
        self.handle_current = False
        begins, self.answering = not self.answering, True
        return begins

    def end_turn(self) -> None:
        """Take the end of the model's turn."""
        self.answering = False

    def add_calls(self, ids: Iterable[str]) -> None:
        """Add calls of the model, of any tools."""
        self.handle_current = False
        self._unanswered |= dict.fromkeys(ids)
        while len(self._unanswered) > MAX_CALLS:
            del self._unanswered[next(iter(self._unanswered))]

    def finish_calls(self, ids: Iterable[str]) -> None:
        """Remove calls that have a result, or were cancelled."""
        self.handle_current = False
        for ident in ids:
            self._unanswered.pop(ident, None)

    def on_handle(self, handle: str, *, resumable: bool) -> None:
        """Take a handle; it is not `resumable` in the middle of a turn."""
        if resumable and handle:
            self.handle = handle
        self.handle_current = resumable and bool(handle)
