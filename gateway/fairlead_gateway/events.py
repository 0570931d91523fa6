"""Events of servers and their tools, as this gateway serves them: the one place where they are published.

Two kinds of readers: parts of this process `subscribe` a function (callbacks of a Python program), and followers on the
network ask for events `after` a number, which holds for as long as the ring does. Nothing is queued per reader, so a
slow one costs nothing and misses the oldest events.

A server is *connected* when it is in the catalog and online, and *disconnected* when it is offline or gone. Its tools
have *changed* when its part of `tools/list` has: with `onDisconnect: Remove` a loss takes its tools away too. It has
*failed* when its entry says so, and again only for another cause or after it was connected.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import deque
from collections.abc import Callable, Generator, Iterable
from datetime import UTC, datetime
from typing import Final

import msgspec

from fairlead_api.documents.servers import FAILED as ENTRY_FAILED
from fairlead_api.documents.servers import FileProblem
from fairlead_api.meta import ServerKey
from fairlead_gateway.catalog.model import Snapshot
from fairlead_gateway.core.server import Server
from fairlead_gateway.yielding import in_turns

log = logging.getLogger(__name__)

CONNECTED: Final = "server.connected"
DISCONNECTED: Final = "server.disconnected"
FAILED: Final = "server.failed"
FILE_REJECTED: Final = "file.rejected"
FILE_ACCEPTED: Final = "file.accepted"
TOOLS_CHANGED: Final = "tools.changed"
SWAPPED: Final = "catalog.swapped"
KEPT: Final = 1024
"""Events in the ring."""
MOST_NAMES: Final = 100
"""Names in one event; `more` counts the rest."""
OFFLINE: Final = "offline"
REMOVED: Final = "removed"


class Event(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One thing that happened. Members that do not belong to its `type` are absent."""

    id: str
    """Grows by one from event to event within one life of one replica."""
    type: str
    """`server.connected`, `server.disconnected`, `server.failed`, `tools.changed`, `catalog.swapped`; of a file that
    `fairlead up` reads `file.rejected` and `file.accepted`, which administrators are sent.
    """
    at: str
    """RFC 3339."""
    server: str = ""
    """`namespace/name`."""
    reason: str = ""
    """Reason of `server.disconnected`: `offline` (its last tools may still be listed) or `removed` (it is not
    served). Of `server.failed` the cause in one word, as in `/v1/servers`.
    """
    added: tuple[str, ...] = ()
    """Tools by the names that the server gives them; so are `removed` and `changed`."""
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    more: int = 0
    """Names that are left out because there are too many."""
    servers: int = 0
    """Number of servers, with `catalog.swapped`; so is `tools`."""
    tools: int = 0
    file: str = ""
    """File of `file.rejected` and `file.accepted`."""
    message: str = ""
    """Why the file is rejected, with line and column."""


Listener = Callable[[Event], None]
"""Called in the gateway's loop, in order. May not block; what it raises is logged."""


class Missed(Exception):
    """Events after that number are not kept any more."""


class EventLog:
    """Ring of the last events, with its subscribers. All methods are called in the gateway's loop."""

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC), most: int = KEPT) -> None:
        self._now = now
        self._life = secrets.token_hex(4)
        self._ring: deque[Event] = deque(maxlen=most)
        self._fresh = asyncio.Event()
        self._listeners: list[Listener] = []
        self._failed: dict[ServerKey, str] = {}
        """Causes of failed servers that were published, until each is connected or gone."""
        self.number = 0
        """Number of the newest event."""
        self.closed = False

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Have `listener` called with each event from now on; call what is returned to end that."""
        self._listeners.append(listener)

        def unsubscribe() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return unsubscribe

    async def on_swap(self, before: Snapshot, after: Snapshot) -> None:
        """Another snapshot is served: say what is different."""
        if before is after:
            return
        await in_turns(self._differences(before, after))
        count = sum(len(server.tools) for server in after.servers.values())
        self._publish(SWAPPED, servers=len(after.servers), tools=count)

    def ident(self, number: int) -> str:
        """The id of an event."""
        return f"{self._life}-{number}"

    def number_of(self, ident: str) -> int:
        """The number in an id. Raises Missed for one of another life or replica."""
        life, _, number = ident.rpartition("-")
        if life != self._life or not number.isdecimal() or int(number) > self.number:
            raise Missed
        return int(number)

    async def after(self, number: int, seconds: float) -> list[Event]:
        """Events with a higher number, oldest first; waits for up to `seconds` for the first. Raises Missed."""
        try:
            async with asyncio.timeout(seconds):
                while self.number <= number and not self.closed:
                    await self._fresh.wait()
        except TimeoutError:
            return []
        oldest = self.number - len(self._ring)
        if number < oldest:
            raise Missed
        return [*self._ring][number - oldest :]

    def before_last(self, count: int) -> int:
        """Number behind which the last `count` events about servers, tools and files are, or as many as are kept."""
        number = self.number
        for event in reversed(self._ring):
            if count <= 0:
                break
            count -= event.type != SWAPPED
            number -= 1
        return number

    def close(self) -> None:
        """No more is to come: nobody waits any longer."""
        self.closed = True
        self._fresh.set()

    def _differences(self, before: Snapshot, after: Snapshot) -> Generator[None, None, None]:
        for key in sorted({*before.servers, *after.servers}):
            was, now = before.servers.get(key), after.servers.get(key)
            if was is not now:
                self._compare(key, was, now)
            yield
        for key in sorted({*self._failed, *after.entries}):
            self._compare_failures(key, after)
            yield
        if before.files != after.files:
            self._compare_files(before.files, after.files)

    def _compare_failures(self, key: ServerKey, after: Snapshot) -> None:
        entry, server = after.entries.get(key), after.servers.get(key)
        if entry is not None and entry.state == ENTRY_FAILED:
            cause = entry.cause or entry.reason
            if self._failed.get(key) != cause:
                self._failed[key] = cause
                self._publish(FAILED, server=str(key), reason=cause)
        elif entry is None or (server is not None and server.catalog.online):
            self._failed.pop(key, None)

    def _compare_files(self, was: tuple[FileProblem, ...], now: tuple[FileProblem, ...]) -> None:
        for problem in now:
            if problem not in was:
                self._publish(FILE_REJECTED, file=problem.file, message=problem.message)
        rejected = {problem.file for problem in now}
        for file in dict.fromkeys(problem.file for problem in was):
            if file not in rejected:
                self._publish(FILE_ACCEPTED, file=file)

    def _compare(self, key: ServerKey, was: Server | None, now: Server | None) -> None:
        up_before = was is not None and was.catalog.online
        up = now is not None and now.catalog.online
        if up_before and not up:
            self._publish(DISCONNECTED, server=str(key), reason=REMOVED if now is None else OFFLINE)
        self._compare_tools(key, was, now)
        if up and not up_before:
            self._publish(CONNECTED, server=str(key))

    def _compare_tools(self, key: ServerKey, was: Server | None, now: Server | None) -> None:
        old = {tool.name: tool.definition for tool in was.tools} if was is not None else {}
        new = {tool.name: tool.definition for tool in now.tools} if now is not None else {}
        if old == new:
            return
        sorts = [
            sorted(new.keys() - old.keys()),
            sorted(old.keys() - new.keys()),
            sorted(name for name in old.keys() & new.keys() if old[name] != new[name]),
        ]
        added, removed, changed = (_few(names) for names in sorts)
        more = sum(len(names) - len(_few(names)) for names in sorts)
        self._publish(TOOLS_CHANGED, server=str(key), added=added, removed=removed, changed=changed, more=more)

    def _publish(self, type_: str, **more: object) -> None:
        self.number += 1
        at = self._now().isoformat(timespec="milliseconds")
        event = Event(id=self.ident(self.number), type=type_, at=at, **more)  # type: ignore[arg-type]  # its own members
        self._ring.append(event)
        self._fresh.set()
        self._fresh = asyncio.Event()
        for listener in [*self._listeners]:
            try:
                listener(event)
            except Exception:
                log.exception("A listener to the news of servers failed")


def _few(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(names)[:MOST_NAMES]
