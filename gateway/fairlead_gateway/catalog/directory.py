"""Documents and credentials from directories: how a gateway is fed off a cluster.

Implements `catalog.source.Source` and `core.credentials.Credentials`. Writers replace files by renaming, so a file is
either the old whole or the new one.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Final

import msgspec

from fairlead_api.documents.catalog import Credential, CredentialRef
from fairlead_api.documents.codec import SERVERS_NAME
from fairlead_api.documents.store import Change
from fairlead_gateway.catalog.source import Inbox
from fairlead_gateway.core.credentials import CredentialUnreadable
from fairlead_mcp.waiting import wait_until_set

POLL_SECONDS: Final = 0.25
WHOLE_LOOKS: Final = 8
"""One look in so many goes through all files, for those that were written in place."""
TICK_NS: Final = 100_000_000
"""A directory that changed less than this before a look may change again without looking any different."""
SUFFIX: Final = ".json"
PAUSE: Final = 0.0001
"""Seconds between two files that are read: the loop may be waiting for the core that this thread is on."""

Stamp = tuple[int, int, int]
"""Attributes of a file that change when it is replaced: inode, size, time of change in nanoseconds."""


class DirectorySource:
    """Every `NAME.json` of a directory. It is looked at `poll` seconds apart, and at once when `nudge` is set. Files
    are gone through when the directory itself has changed, as it does when one is replaced: to go through a hundred of
    them four times a second would interrupt the loop hundreds of times.
    """

    def __init__(self, path: Path, *, nudge: asyncio.Event | None = None, poll: float = POLL_SECONDS) -> None:
        self._path = path
        self._nudge = nudge or asyncio.Event()
        self._poll = poll
        self._stamps: dict[str, Stamp] = {}
        self._changed_at: int | None = None
        """When the directory had changed last, in nanoseconds; None where that may have changed meanwhile."""

    async def run(self, inbox: Inbox) -> None:
        first, looks = True, 0
        while True:
            whole = self._nudge.is_set() or looks % WHOLE_LOOKS == 0
            looks += 1
            self._nudge.clear()
            try:
                changes, names = await asyncio.to_thread(self._look, whole=whole)
            except OSError as error:
                inbox.away(f"{self._path}: {error.strerror}")
            else:
                await _tell(inbox, changes, at_once=first)
                first = False
                inbox.finish_sync(names)
            await wait_until_set(self._nudge, self._poll)

    def _look(self, *, whole: bool) -> tuple[list[Change], set[str]]:
        """Changes since the last look, and all names. Raises OSError when the directory cannot be read."""
        changed_at = self._path.stat().st_mtime_ns
        if not whole and changed_at == self._changed_at:
            return [], set(self._stamps)
        self._changed_at = changed_at if time.time_ns() - changed_at > TICK_NS else None
        seen: dict[str, Stamp] = {}
        # A server leaves the servers document once its catalog is stored. So that it is never in neither, that document
        # is read before any catalog is looked for, and told after them.
        last = self._read(self._path / f"{SERVERS_NAME}{SUFFIX}", seen)
        changes = []
        for file in self._path.iterdir():
            if file.suffix == SUFFIX and not file.name.startswith(".") and file.stem not in seen:
                changes += self._read(file, seen)
        self._stamps = seen
        return changes + last, set(seen)

    def _read(self, file: Path, seen: dict[str, Stamp]) -> list[Change]:
        """Changes of one file since the last look; none where it is as before, or gone."""
        try:
            status = file.stat()
            stamp = (status.st_ino, status.st_size, status.st_mtime_ns)
            seen[file.stem] = stamp
            if self._stamps.get(file.stem) == stamp:
                return []
            change = Change(file.stem, file.read_bytes())
            time.sleep(PAUSE)
        except FileNotFoundError:
            seen.pop(file.stem, None)  # it went while we looked
            return []
        except OSError as error:
            seen[file.stem] = (0, 0, 0)
            return [Change(file.stem, None, f"{file}: {error.strerror}")]
        return [change]


async def _tell(inbox: Inbox, changes: list[Change], *, at_once: bool) -> None:
    """The first documents together, so that no part of a catalog is served; later ones each in a step of the loop, as
    reading hundreds of them in one would hold up calls.
    """
    if at_once:
        inbox.update(changes)
        return
    for change in changes:
        inbox.update((change,))
        await asyncio.sleep(0)


class DirectoryCredentials:
    """One file per server, `SECRET.json`, holding a `Credential`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def read(self, ref: CredentialRef) -> Credential:
        file = self._path / f"{ref.secret}{SUFFIX}"
        if file.parent != self._path:
            raise CredentialUnreadable(f"{ref.secret!r} is not a file name")
        try:
            return msgspec.json.decode(await asyncio.to_thread(file.read_bytes), type=Credential)
        except OSError as error:
            raise CredentialUnreadable(f"{file}: {error.strerror}") from error
        except (msgspec.MsgspecError, UnicodeDecodeError):
            # without the cause: its message might quote the value
            raise CredentialUnreadable(f"{file} does not hold a credential") from None
