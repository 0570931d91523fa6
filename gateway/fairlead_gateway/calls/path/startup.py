"""Lets requests wait for a server that is starting: until its tools are known, it has failed, or a time limit ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from fairlead_api.documents.catalog import SIGN_IN_TOOL
from fairlead_api.documents.servers import INSTALLING, OVERDUE, SIGN_IN, STOPPED, WAITING, ServerEntry
from fairlead_api.documents.servers import STARTING as STARTING_STATE
from fairlead_api.meta import ServerKey
from fairlead_formats.names import SEPARATOR
from fairlead_gateway.core.share_counts import ShareCounts
from fairlead_gateway.limits.shares import Shares, ShareTaken
from fairlead_gateway.policy.selection import Selection
from fairlead_gateway.policy.unready_servers import is_starting, is_worth_waiting
from fairlead_tools.refusal import CONNECTION_LOST, SIGN_IN_REQUIRED, STARTING, Refusal

START_SECONDS: Final = 10.0
"""Default time for which a request waits for a starting server."""
RETRY_AFTER_MS: Final = 2000
"""`retryAfterMs` of the refusal of a request whose server is still starting."""
MAX_WAITING: Final = 1000
"""Limit on waiting requests, a quarter of which one agent may use. Further requests are refused with STARTING."""


_WORDS: Final = {WAITING: "is about to be started", INSTALLING: "is being installed", STARTING_STATE: "is starting"}


class StartupWait:
    """Requests that wait for starting servers. Not thread-safe: all methods belong to the gateway's event loop.

    `selection` returns the servers and tools that are served at present.
    """

    def __init__(
        self, selection: Callable[[], Selection], seconds: float = START_SECONDS, counts: ShareCounts | None = None
    ) -> None:
        self.seconds = seconds
        """Time in seconds for which a request waits, unless its tier has a shorter one."""
        self._selection = selection
        self._next_swap = asyncio.Event()
        self.shares = Shares("start_waits", MAX_WAITING, counts=counts)

    @property
    def waiting(self) -> int:
        """Number of waiting requests."""
        return self.shares.total

    def on_swap(self) -> None:
        """Wake the waiting requests, because another `Selection` is served, which may have their servers' tools."""
        swap, self._next_swap = self._next_swap, asyncio.Event()
        swap.set()

    async def wait(self, server: ServerKey, seconds: float, agent: str) -> bool:
        """Wait until a server is no longer starting; False if it is still starting after `seconds`.

        Does not wait for a server with a known problem, or if too many requests wait already, in total or of the agent.
        """
        try:
            with self.shares.hold(agent):
                async with asyncio.timeout(seconds):
                    while is_worth_waiting(self._selection(), server):
                        await self._next_swap.wait()
        except (ShareTaken, TimeoutError):
            pass
        return not is_starting(self._selection(), server)


def refusal_of(entry: ServerEntry, *, starts: bool) -> Refusal:
    """Refusal of a call to a server without a catalog. With `starts`, the server may become ready soon.

    The message has no text from the server itself, because the model would read it.
    """
    if starts:
        cause = f" ({entry.cause})" if entry.cause in OVERDUE else ""
        message = f"the server {entry.key} {_WORDS.get(entry.state, 'starts')}{cause}: try again in a moment"
        return Refusal(STARTING, f"{message}; `fairlead servers {entry.key}` shows its progress", RETRY_AFTER_MS)
    if entry.state == SIGN_IN:
        tool = f"{entry.prefix}{SEPARATOR}{SIGN_IN_TOOL}" if entry.prefix else SIGN_IN_TOOL
        message = f"nobody has signed in at the server {entry.key} yet, so its tools are not known: call {tool}"
        return Refusal(SIGN_IN_REQUIRED, f"{message}, or run `fairlead login {entry.key}`")
    if entry.state == STOPPED:
        return Refusal(CONNECTION_LOST, f"the server {entry.key} is stopped: `fairlead servers {entry.key}` says why")
    cause = entry.cause or entry.reason
    reason = f" ({cause})" if cause else ""
    return Refusal(CONNECTION_LOST, f"the server {entry.key} failed{reason}: `fairlead servers {entry.key}` says why")
