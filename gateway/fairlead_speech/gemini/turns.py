"""Tracks the state of a Gemini Live session, to tell when the session can be resumed over a new connection. Does no
I/O.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

MAX_CALLS: Final = 1024
"""Maximum number of stored ids of calls without a result."""
PAUSE_SECONDS: Final = 1.5
"""Seconds for which the user counts as speaking after each piece of a transcript, because transcripts lag behind
speech.
"""


class LiveTurns:
    """Turns, open calls and resumption handle of one session. All times are in seconds of the same clock."""

    def __init__(self) -> None:
        self.answering = False
        """Whether the model is answering or was requested to answer."""
        self.in_marked_turn = False
        """Whether a turn that the client marked with `activityStart` is in progress. A new connection would lose such a
        turn.
        """
        self.handle = ""
        """Newest handle that resumes the session; empty before the first handle."""
        self.handle_current = False
        """Whether the newest handle covers the whole session, except for later input of the client, which can be sent
        again."""
        self._transcribed_at: float | None = None
        self._unanswered_ids: dict[str, None] = {}

    @property
    def busy(self) -> bool:
        """Whether the model is answering, a marked turn is in progress, or a call has no result yet."""
        return self.answering or self.in_marked_turn or bool(self._unanswered_ids)

    def idle(self, now: float) -> bool:
        """Whether the user and the model are silent, and no call waits for its result."""
        return not self.busy and (self._transcribed_at is None or now - self._transcribed_at >= PAUSE_SECONDS)

    def resumable(self, now: float) -> bool:
        """Whether the session can be resumed with the newest handle without losing anything. Input that the client has
        sent after the handle has to be sent again.
        """
        return self.idle(now) and self.handle_current

    def request_answer(self) -> None:
        """Record that the model was requested to answer."""
        self.answering = True
        self.in_marked_turn = False

    def begin_activity(self) -> None:
        """Record an `activityStart`, which begins a marked turn. The model answers at the end of this turn."""
        self.answering = self.in_marked_turn = True

    def on_transcription(self, now: float) -> None:
        """Record a piece of the user's transcript."""
        self._transcribed_at = now

    def on_output(self) -> bool:
        """Record output of the model. Returns True if the output begins an answer."""
        self._transcribed_at = None
        self.handle_current = False
        begins_answer, self.answering = not self.answering, True
        return begins_answer

    def end_turn(self) -> None:
        """Record the end of the model's turn."""
        self.answering = False

    def add_calls(self, ids: Iterable[str]) -> None:
        """Add calls that the model made, whether of the client's or the gateway's tools."""
        self.handle_current = False
        self._unanswered_ids |= dict.fromkeys(ids)
        while len(self._unanswered_ids) > MAX_CALLS:
            del self._unanswered_ids[next(iter(self._unanswered_ids))]

    def finish_calls(self, ids: Iterable[str]) -> None:
        """Remove calls that got a result or were cancelled."""
        self.handle_current = False
        for ident in ids:
            self._unanswered_ids.pop(ident, None)

    def on_handle(self, handle: str, *, resumable: bool) -> None:
        """Record a handle. A handle that the provider sends during a turn is not `resumable`."""
        if resumable and handle:
            self.handle = handle
        self.handle_current = resumable and bool(handle)
