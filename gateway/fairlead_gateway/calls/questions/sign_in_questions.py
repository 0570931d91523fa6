"""Open questions of the gateway to persons to sign in at servers: one at a time per person and server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from fairlead_api.meta import ServerKey
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.core.sign_in import SignInWait

MAX_QUESTIONS: Final = 4096
"""Limit on the open questions of one replica; beyond it, the oldest count as answered."""
Key: TypeAlias = tuple[bytes, ServerKey]
"""Person towards a server, and that server."""


class SignInQuestions:
    """Open questions to persons to sign in, and the wait for sign-ins. `clock` is in seconds."""

    def __init__(self, waits: SignInWait, clock: Callable[[], float]) -> None:
        self.waits = waits
        self._clock = clock
        self._open: dict[Key, tuple[str, float]] = {}
        """Link of each question, and the time at which it counts as answered, oldest first."""

    def __len__(self) -> int:
        return len(self._open)

    def open(self, key: Key, url: str, seconds: float) -> bool:
        """Open a question for at most `seconds`; False if it is open already."""
        question = self._open.get(key)
        if question is not None and question[0] == url and question[1] > self._clock():
            return False
        self.reopen(key, url, seconds)
        return True

    def reopen(self, key: Key, url: str, seconds: float) -> None:
        """Open a question for `seconds` from now on."""
        self._open.pop(key, None)
        self._open[key] = url, self._clock() + seconds
        if len(self._open) > MAX_QUESTIONS:
            del self._open[next(iter(self._open))]

    def close(self, key: Key) -> None:
        """Count a question as answered; no-op if it is not open."""
        self._open.pop(key, None)


class NoSignIns(SignInWait):
    """For a gateway without sign-ins: nothing is waited for."""

    async def wait(self, identity: Identity, server: ServerKey, seconds: float) -> bool:
        return True
