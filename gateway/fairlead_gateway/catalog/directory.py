"""Reads documents and credentials from directories, for gateways outside of Kubernetes.

Implements `catalog.source.Source` and `core.credentials.Credentials`. Writers replace files atomically, by renaming.
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
"""Interval between polls of the directory."""
POLLS_PER_FULL_CHECK: Final = 8
"""Every eighth poll checks all files, because files that were overwritten instead of replaced do not change the
directory."""
TICK_NS: Final = 100_000_000
"""Granularity of modification times, in nanoseconds. A directory that changed less than this before a poll may change
again without a new modification time."""
SUFFIX: Final = ".json"
PAUSE: Final = 0.0001
"""Seconds that this thread sleeps after each file, so that the event loop can run if both share one CPU core."""

Stamp = tuple[int, int, int]
"""Inode, size and modification time (ns) of a file. They change when the file is replaced."""


class DirectorySource:
    """Source of the documents `NAME.json` in a directory, polled every `poll` seconds, and at once when `nudge` is set.

    Most polls check the files only if the modification time of the directory has changed, which happens when a file is
    replaced. Checking a hundred files four times a second would interrupt the event loop hundreds of times.
    """

    def __init__(self, path: Path, *, nudge: asyncio.Event | None = None, poll: float = POLL_SECONDS) -> None:
        self._path = path
        self._nudge = nudge or asyncio.Event()
        self._poll = poll
        self._stamps: dict[str, Stamp] = {}
        """Stamps of the files at the last check, by document name."""
        self._changed_at: int | None = None
        """Modification time of the directory at the last poll, in nanoseconds; None if the time was so recent that a
        later change might not show (TICK_NS).
        """

    async def run(self, inbox: Inbox) -> None:
        is_first, polls = True, 0
        while True:
            check_all = self._nudge.is_set() or polls % POLLS_PER_FULL_CHECK == 0
            polls += 1
            self._nudge.clear()
            try:
                changes, names = await asyncio.to_thread(self._find_changes, check_all=check_all)
            except OSError as error:
                inbox.note_unreachable(f"{self._path}: {error.strerror}")
            else:
                await _deliver(inbox, changes, at_once=is_first)
                is_first = False
                inbox.finish_sync(names)
            await wait_until_set(self._nudge, self._poll)

    def _find_changes(self, *, check_all: bool) -> tuple[list[Change], set[str]]:
        """Changes since the last poll, and the names of all documents. `check_all`: check all files.

        Raises OSError if the directory cannot be read.
        """
        changed_at = self._path.stat().st_mtime_ns
        if not check_all and changed_at == self._changed_at:
            return [], set(self._stamps)
        self._changed_at = changed_at if time.time_ns() - changed_at > TICK_NS else None
        stamps: dict[str, Stamp] = {}
        # The operator stores a new server's catalog, and then removes the server from the servers document. The servers
        # document is read before the catalogs and delivered after them, so that the server is found in at least one of
        # these documents.
        servers_change = self._read(self._path / f"{SERVERS_NAME}{SUFFIX}", stamps)
        changes = []
        for file in self._path.iterdir():
            if file.suffix == SUFFIX and not file.name.startswith(".") and file.stem not in stamps:
                changes += self._read(file, stamps)
        self._stamps = stamps
        return changes + servers_change, set(stamps)

    def _read(self, file: Path, stamps: dict[str, Stamp]) -> list[Change]:
        """The change of one file since the last poll; empty if the file is unchanged or deleted."""
        try:
            status = file.stat()
            stamp = (status.st_ino, status.st_size, status.st_mtime_ns)
            stamps[file.stem] = stamp
            if self._stamps.get(file.stem) == stamp:
                return []
            change = Change(file.stem, file.read_bytes())
            time.sleep(PAUSE)
        except FileNotFoundError:
            stamps.pop(file.stem, None)  # deleted during this poll
            return []
        except OSError as error:
            stamps[file.stem] = (0, 0, 0)
            return [Change(file.stem, None, f"{file}: {error.strerror}")]
        return [change]


async def _deliver(inbox: Inbox, changes: list[Change], *, at_once: bool) -> None:
    """Deliver changes to the inbox.

    The changes of the first poll are delivered together (`at_once`), so that no partial catalog is served. Later
    changes are delivered one per iteration of the event loop: decoding hundreds of documents together would delay
    calls.
    """
    if at_once:
        inbox.update(changes)
        return
    for change in changes:
        inbox.update((change,))
        await asyncio.sleep(0)


class DirectoryCredentials:
    """Credentials in one file per server, `SECRET.json`, each with a `Credential`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def read(self, ref: CredentialRef) -> Credential:
        file = self._path / f"{ref.secret}{SUFFIX}"
        if file.parent != self._path:
            raise CredentialUnreadable(f"the name {ref.secret!r} of the server's credential is not a valid file name")
        try:
            return msgspec.json.decode(await asyncio.to_thread(file.read_bytes), type=Credential)
        except OSError as error:
            raise CredentialUnreadable(f"{file}: {error.strerror}") from error
        except (msgspec.MsgspecError, UnicodeDecodeError):
            # from None: the message of the cause might quote the credential
            raise CredentialUnreadable(f"{file} does not contain a valid credential") from None
