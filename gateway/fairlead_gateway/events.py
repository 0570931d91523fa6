"""Publishes events about servers and their tools.

Parts of this process `subscribe` a function, such as a callback of a Python program. Clients on the network request the
events `after` a number, as long as the ring buffer has them. There are no queues per reader, so a slow reader misses
the oldest events.

A server is *connected* when it is in the catalog and online, and *disconnected* when it is offline or removed. The
tools of a server have *changed* when its definitions in `tools/list` have changed; with `onDisconnect: Remove`, they
also change when the server goes offline. A server has *failed* when its entry in the snapshot has the state failed; the
event is published again only for another cause, or if the server was connected in between.
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
MAX_EVENTS: Final = 1024
"""Number of events in the ring buffer."""
MAX_NAMES: Final = 100
"""Maximum number of names per list of an event; `more` counts the rest."""
OFFLINE: Final = "offline"
REMOVED: Final = "removed"


class Event(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """An event. Members that do not belong to its `type` are absent."""

    id: str
    """Id of the event. Its number increases by one per event of a gateway process."""
    type: str
    """`server.connected`, `server.disconnected`, `server.failed`, `tools.changed` or `catalog.swapped`. Administrators
    also receive `file.rejected` and `file.accepted` about files that `fairlead up` reads.
    """
    at: str
    """Time of the event (RFC 3339)."""
    server: str = ""
    """`namespace/name`."""
    reason: str = ""
    """For `server.disconnected`: `offline` (its last tools may still be listed) or `removed` (it is no longer served).
    For `server.failed`: the cause in one word, as in `/v1/servers`.
    """
    added: tuple[str, ...] = ()
    """Added tools by the server's own names; `removed` and `changed` have such names too."""
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    more: int = 0
    """Number of names that are left out because there are too many."""
    servers: int = 0
    """Number of servers, for `catalog.swapped`; `tools` is the number of tools."""
    tools: int = 0
    file: str = ""
    """File of `file.rejected` and `file.accepted`."""
    message: str = ""
    """Why the file is rejected, with line and column."""


Listener = Callable[[Event], None]
"""Receives events in order, in the gateway's event loop. It must not block; exceptions are logged."""


class MissedEvents(Exception):
    """Some of the requested events are no longer in the ring buffer."""


class EventLog:
    """Ring buffer of the last events, with subscribers. All methods have to be called in the gateway's event loop."""

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC), max_events: int = MAX_EVENTS) -> None:
        self._now = now
        self._id_prefix = secrets.token_hex(4)
        """Random first part of event ids, so that events of different processes have different ids."""
        self._ring: deque[Event] = deque(maxlen=max_events)
        self._next_event = asyncio.Event()
        """Set by the next event, and then replaced by an unset one."""
        self._listeners: list[Listener] = []
        self._published_causes: dict[ServerKey, str] = {}
        """Published causes of failed servers, until each is connected or removed."""
        self.number = 0
        """Number of the newest event."""
        self.closed = False

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with each event from now on; the returned function ends the subscription."""
        self._listeners.append(listener)

        def unsubscribe() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return unsubscribe

    async def on_swap(self, before: Snapshot, after: Snapshot) -> None:
        """Publish the differences between `before`, the previous snapshot, and `after`, which is now served."""
        if before is after:
            return
        await in_turns(self._differences(before, after))
        count = sum(len(server.tools) for server in after.servers.values())
        self._publish(SWAPPED, servers=len(after.servers), tools=count)

    def ident(self, number: int) -> str:
        """Id of an event by its number."""
        return f"{self._id_prefix}-{number}"

    def number_of(self, ident: str) -> int:
        """Number of an event by its id. Raises MissedEvents for an id of another process."""
        id_prefix, _, number = ident.rpartition("-")
        if id_prefix != self._id_prefix or not number.isdecimal() or int(number) > self.number:
            raise MissedEvents
        return int(number)

    async def after(self, number: int, seconds: float) -> list[Event]:
        """Events with a higher number, oldest first. If there are none, waits up to `seconds` for the first one. Raises
        MissedEvents.
        """
        try:
            async with asyncio.timeout(seconds):
                while self.number <= number and not self.closed:
                    await self._next_event.wait()
        except TimeoutError:
            return []
        oldest_number = self.number - len(self._ring)
        if number < oldest_number:
            raise MissedEvents
        return [*self._ring][number - oldest_number :]

    def before_last(self, count: int) -> int:
        """The number with which `after` returns the last `count` events about servers, tools and files, or all if fewer
        are stored.
        """
        number = self.number
        for event in reversed(self._ring):
            if count <= 0:
                break
            count -= event.type != SWAPPED
            number -= 1
        return number

    def close(self) -> None:
        """Wake all readers that wait; no more events will follow."""
        self.closed = True
        self._next_event.set()

    def _differences(self, before: Snapshot, after: Snapshot) -> Generator[None, None, None]:
        for key in sorted({*before.servers, *after.servers}):
            old_server, new_server = before.servers.get(key), after.servers.get(key)
            if old_server is not new_server:
                self._compare(key, old_server, new_server)
            yield
        for key in sorted({*self._published_causes, *after.entries}):
            self._compare_failures(key, after)
            yield
        if before.files != after.files:
            self._compare_files(before.files, after.files)

    def _compare_failures(self, key: ServerKey, after: Snapshot) -> None:
        entry, server = after.entries.get(key), after.servers.get(key)
        if entry is not None and entry.state == ENTRY_FAILED:
            cause = entry.cause or entry.reason
            if self._published_causes.get(key) != cause:
                self._published_causes[key] = cause
                self._publish(FAILED, server=str(key), reason=cause)
        elif entry is None or (server is not None and server.catalog.online):
            self._published_causes.pop(key, None)

    def _compare_files(self, old_problems: tuple[FileProblem, ...], new_problems: tuple[FileProblem, ...]) -> None:
        for problem in new_problems:
            if problem not in old_problems:
                self._publish(FILE_REJECTED, file=problem.file, message=problem.message)
        rejected_files = {problem.file for problem in new_problems}
        for file in dict.fromkeys(problem.file for problem in old_problems):
            if file not in rejected_files:
                self._publish(FILE_ACCEPTED, file=file)

    def _compare(self, key: ServerKey, old_server: Server | None, new_server: Server | None) -> None:
        was_online = old_server is not None and old_server.catalog.online
        is_online = new_server is not None and new_server.catalog.online
        if was_online and not is_online:
            self._publish(DISCONNECTED, server=str(key), reason=REMOVED if new_server is None else OFFLINE)
        self._compare_tools(key, old_server, new_server)
        if is_online and not was_online:
            self._publish(CONNECTED, server=str(key))

    def _compare_tools(self, key: ServerKey, old_server: Server | None, new_server: Server | None) -> None:
        old_tools = {tool.name: tool.definition for tool in old_server.tools} if old_server is not None else {}
        new_tools = {tool.name: tool.definition for tool in new_server.tools} if new_server is not None else {}
        if old_tools == new_tools:
            return
        name_lists = [
            sorted(new_tools.keys() - old_tools.keys()),
            sorted(old_tools.keys() - new_tools.keys()),
            sorted(name for name in old_tools.keys() & new_tools.keys() if old_tools[name] != new_tools[name]),
        ]
        added, removed, changed = (_first_names(names) for names in name_lists)
        more = sum(len(names) - len(_first_names(names)) for names in name_lists)
        self._publish(TOOLS_CHANGED, server=str(key), added=added, removed=removed, changed=changed, more=more)

    def _publish(self, type_: str, **members: object) -> None:
        self.number += 1
        at = self._now().isoformat(timespec="milliseconds")
        event = Event(id=self.ident(self.number), type=type_, at=at, **members)  # type: ignore[arg-type]  # members of Event
        self._ring.append(event)
        self._next_event.set()
        self._next_event = asyncio.Event()
        for listener in [*self._listeners]:
            try:
                listener(event)
            except Exception:
                log.exception("A subscriber to events of servers failed because of a defect in the gateway")


def _first_names(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(names)[:MAX_NAMES]
