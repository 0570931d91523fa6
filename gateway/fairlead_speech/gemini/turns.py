"""Turns, calls and handle of a Gemini Live session: when it may go on over another connection. Pure module."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

MAX_CALLS: Final = 1024
"""Calls without an answer that are remembered."""
PAUSE_SECONDS: Final = 1.5
"""Time after a piece of a transcript for which the user counts as speaking. It may come later than what it is of."""


class LiveTurns:
    """State of one session. Times are seconds of any clock."""

    def __init__(self) -> None:
        self.answering = False
        """Whether the model says something, or is asked to."""
        self.speaking = False
        """Whether the user is in the middle of a turn that is marked: another connection would not know of it."""
        self.handle = ""
        """The newest handle that is good; empty before the first."""
        self.handle_current = False
        """Whether the session was left unchanged since the handle, but for input that came behind it."""
        self._transcribed_at: float | None = None
        self._unanswered: dict[str, None] = {}

    @property
    def busy(self) -> bool:
        """Whether the model is answering, hears a turn that is marked, or waits for a result."""
        return self.answering or self.speaking or bool(self._unanswered)

    def idle(self, now: float) -> bool:
        """Whether nobody speaks, and nothing is awaited."""
        return not self.busy and (self._transcribed_at is None or now - self._transcribed_at >= PAUSE_SECONDS)

    def resumable(self, now: float) -> bool:
        """Whether another connection that begins with the handle misses nothing but input that came behind it."""
        return self.idle(now) and self.handle_current

    def request_answer(self) -> None:
        """The client asks for an answer."""
        self.answering = True
        self.speaking = False

    def begin_activity(self) -> None:
        """The beginning of a turn is marked: its end asks for an answer."""
        self.answering = self.speaking = True

    def on_transcription(self, now: float) -> None:
        """A piece of what the user says was heard."""
        self._transcribed_at = now

    def on_output(self) -> bool:
        """The model says something. Whether it begins to."""
        self._transcribed_at = None
        self.handle_current = False
        begins, self.answering = not self.answering, True
        return begins

    def end_turn(self) -> None:
        """The model's turn is over."""
        self.answering = False

    def add_calls(self, ids: Iterable[str]) -> None:
        """The model made calls, ours or the client's."""
        self.handle_current = False
        self._unanswered |= dict.fromkeys(ids)
        while len(self._unanswered) > MAX_CALLS:
            del self._unanswered[next(iter(self._unanswered))]

    def finish_calls(self, ids: Iterable[str]) -> None:
        """Calls were answered, or taken back."""
        self.handle_current = False
        for ident in ids:
            self._unanswered.pop(ident, None)

    def on_handle(self, handle: str, *, good: bool) -> None:
        """A handle came; it is not `good` in the middle of something."""
        if good and handle:
            self.handle = handle
        self.handle_current = good and bool(handle)
