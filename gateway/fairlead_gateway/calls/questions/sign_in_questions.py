"""Questions that ask users to sign in to servers and are still open: at most one per user, server and client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from fairlead_api.meta import ServerKey
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.core.sign_in import SignInWait

MAX_QUESTIONS: Final = 4096
"""Maximum number of open questions per replica. Beyond it, the oldest count as answered."""
Key: TypeAlias = tuple[bytes, ServerKey, bytes]
"""Bytes that identify the user; the server; bytes that identify the client that is asked."""
Question: TypeAlias = tuple[str, float, Callable[[], bool]]
"""Link, time at which the question counts as answered, and a function that returns whether the client is gone."""


def _never_gone() -> bool:
    """`is_gone` of a question that is not tied to a connection."""
    return False


class SignInQuestions:
    """Open questions that ask users to sign in, and the wait for these sign-ins. `clock` returns seconds."""

    def __init__(self, waits: SignInWait, clock: Callable[[], float]) -> None:
        self.waits = waits
        self._clock = clock
        self._questions: dict[Key, Question] = {}
        """Questions, oldest first. Some of them may no longer be open."""

    def __len__(self) -> int:
        """Number of open questions."""
        return sum(map(self._is_open, self._questions.values()))

    def open(self, key: Key, url: str, seconds: float, is_gone: Callable[[], bool] = _never_gone) -> bool:
        """Open a question for at most `seconds`, or until `is_gone()`. Returns False if the
        same question with the same link is open already; a question with another link is replaced.
        """
        question = self._questions.get(key)
        if question is not None and question[0] == url and self._is_open(question):
            return False
        self.reopen(key, url, seconds, is_gone)
        return True

    def reopen(self, key: Key, url: str, seconds: float, is_gone: Callable[[], bool] = _never_gone) -> None:
        """Open a question for `seconds` from now on."""
        self._questions.pop(key, None)
        self._questions[key] = url, self._clock() + seconds, is_gone
        if len(self._questions) > MAX_QUESTIONS:
            del self._questions[next(iter(self._questions))]

    def close(self, key: Key) -> None:
        """Count a question as answered; no-op if it is not open."""
        self._questions.pop(key, None)

    def _is_open(self, question: Question) -> bool:
        _, expires_at, is_gone = question
        return expires_at > self._clock() and not is_gone()


class NoSignIns(SignInWait):
    """`SignInWait` of a gateway without sign-ins: returns at once."""

    async def wait(self, identity: Identity, server: ServerKey, seconds: float) -> bool:
        return True
