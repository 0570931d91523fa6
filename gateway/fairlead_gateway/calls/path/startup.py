"""Waiting for a server that starts: until it has a catalog, failed or is gone, within a bound in seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from fairlead_api.documents.servers import INSTALLING, OVERDUE, STOPPED, WAITING, ServerEntry
from fairlead_api.documents.servers import STARTING as STARTING_STATE
from fairlead_api.meta import ServerKey
from fairlead_gateway.core.share_counts import ShareCounts
from fairlead_gateway.limits.shares import Shares, ShareTaken
from fairlead_gateway.policy.selection import Selection
from fairlead_gateway.policy.unready_servers import is_starting, is_worth_waiting
from fairlead_tools.refusal import CONNECTION_LOST, STARTING, Refusal

START_SECONDS: Final = 10.0
"""How long a request waits for a server that starts, where no tier says less."""
AGAIN_MS: Final = 2000
"""`retryAfterMs` after that."""
MOST_WAITING: Final = 1000
"""Requests that wait at once, of one agent a quarter; one more is refused with STARTING."""


_WORDS: Final = {WAITING: "is about to be started", INSTALLING: "is being installed", STARTING_STATE: "is starting"}


class StartupWait:
    """Requests that wait for servers that start. All methods are called in the gateway's loop."""

    def __init__(
        self, selection: Callable[[], Selection], seconds: float = START_SECONDS, counts: ShareCounts | None = None
    ) -> None:
        self.seconds = seconds
        """How long a request waits, where no tier says less."""
        self._selection = selection
        self._swapped = asyncio.Event()
        self.shares = Shares("start_waits", MOST_WAITING, counts=counts)

    @property
    def waiting(self) -> int:
        """Requests that wait now."""
        return self.shares.total

    def on_swap(self) -> None:
        """Look again, for another selection is served."""
        swapped, self._swapped = self._swapped, asyncio.Event()
        swapped.set()

    async def wait(self, server: ServerKey, seconds: float, agent: str) -> bool:
        """Wait until a server starts no more; False where it still does after so many seconds, and at once where
        something is known that keeps it, or too many requests wait, or too many of the agent's.
        """
        try:
            with self.shares.hold(agent):
                async with asyncio.timeout(seconds):
                    while is_worth_waiting(self._selection(), server):
                        await self._swapped.wait()
        except (ShareTaken, TimeoutError):
            pass
        return not is_starting(self._selection(), server)


def refusal_of(entry: ServerEntry, *, starts: bool) -> Refusal:
    """Refusal of a call to a server without a catalog; it quotes nothing that the server wrote."""
    if starts:
        word = f" ({entry.cause})" if entry.cause in OVERDUE else ""
        message = f"the server {entry.key} {_WORDS.get(entry.state, 'starts')}{word}: try again in a moment"
        return Refusal(STARTING, f"{message}; `fairlead servers {entry.key}` shows how far it is", AGAIN_MS)
    if entry.state == STOPPED:
        return Refusal(CONNECTION_LOST, f"the server {entry.key} is stopped: `fairlead servers {entry.key}` says why")
    word = entry.cause or entry.reason
    reason = f" ({word})" if word else ""
    return Refusal(CONNECTION_LOST, f"the server {entry.key} failed{reason}: `fairlead servers {entry.key}` says why")
