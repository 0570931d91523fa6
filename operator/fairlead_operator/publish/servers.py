"""Publishes the servers document: entries of all servers that are not ready or have a problem, reserved prefixes, and
problems of files.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

import msgspec

from fairlead_api.documents.catalog import Refreshed
from fairlead_api.documents.codec import SERVERS_NAME, UnreadableDocument, decode, encode
from fairlead_api.documents.servers import FAILED, MOST_FILE_PROBLEMS, SERVERS, FileProblem, ServerEntry, Servers
from fairlead_api.documents.store import pack
from fairlead_api.meta import ServerKey
from fairlead_operator.ports import Documents
from fairlead_operator.server.prefixes import Prefixes

logger = logging.getLogger(__name__)


class ServerEntries:
    """The servers document of one installation. `outdated` is set while the stored document may be outdated."""

    def __init__(self, documents: Documents, prefixes: Prefixes) -> None:
        self._documents = documents
        self._prefixes = prefixes
        self._publish_lock = asyncio.Lock()
        self._entries: dict[ServerKey, ServerEntry] = {}
        self._refused_entries: dict[ServerKey, ServerEntry] = {}
        """Entries of servers with invalid declarations: failed, or ready as declared before."""
        self._file_problems: tuple[FileProblem, ...] = ()
        self.outdated = asyncio.Event()

    async def restore(self) -> None:
        """Restore the document of the previous leader. Entries of failed servers then remain until the servers are
        reconciled, and prefixes remain reserved. Raises PLATFORM_ERRORS.
        """
        data = await self._documents.read(SERVERS_NAME)
        try:
            stored_document = None if data is None else decode(data)
        except UnreadableDocument as error:
            logger.warning("the servers document cannot be read and will be replaced: %s", error)
            stored_document = None
        if isinstance(stored_document, Servers):
            self._entries = {entry.key: entry for entry in stored_document.servers} | self._entries
            self._prefixes.restore(stored_document.prefixes)
        self.outdated.set()

    def put(self, key: ServerKey, entry: ServerEntry | None) -> None:
        """Replace the entry of a server; None removes it."""
        if self._entries.get(key) == entry:
            return
        if entry is None:
            del self._entries[key]
        else:
            self._entries[key] = entry
        self.outdated.set()

    def add(self, entry: ServerEntry) -> None:
        """Add the entry of a server, unless it has one."""
        if entry.key not in self._entries:
            self.put(entry.key, entry)

    def refuse(self, entries: Mapping[ServerKey, ServerEntry], files: Sequence[FileProblem] = ()) -> None:
        """Replace the entries of all servers with invalid declarations, and the problems of files.

        The state of an entry is FAILED for a server that does not run, and READY for a server that runs as declared
        before. A READY entry is published only if the server has no other entry.
        """
        self._refused_entries = dict(entries)
        self._file_problems = tuple(files[:MOST_FILE_PROBLEMS])
        self.outdated.set()

    def refuse_refresh(self, key: ServerKey, now: datetime) -> bool:
        """Fail a requested refresh of a server that does not run because its declaration is invalid. Returns False for
        other servers.
        """
        entry = self._refused_entries.get(key)
        if entry is None or entry.state != FAILED:
            return False
        refreshed = Refreshed(at=now.isoformat(timespec="milliseconds"), failure=entry.message)
        self._refused_entries[key] = msgspec.structs.replace(entry, refreshed=refreshed)
        self.outdated.set()
        return True

    def retain(self, existing_keys: Collection[ServerKey]) -> None:
        """Drop the entries of servers that no longer exist."""
        for key in [key for key in self._entries if key not in existing_keys]:
            self.put(key, None)

    async def publish(self) -> bool:
        """Publish the document if it differs from the stored one; return whether it was written. Raises
        PLATFORM_ERRORS.
        """
        async with self._publish_lock:
            entries = {**self._entries}
            for key, refused_entry in self._refused_entries.items():
                if refused_entry.state == FAILED or key not in entries:
                    entries[key] = refused_entry
            document = Servers(
                servers=tuple(entries[key] for key in sorted(entries)),
                prefixes=self._prefixes.owners(),
                files=self._file_problems,
            )
            data = encode(document)
            blobs = pack(SERVERS_NAME, SERVERS, data)
            stored_data = await self._documents.read(SERVERS_NAME)
            if stored_data is None and not (document.servers or document.prefixes or document.files):
                return False
            if stored_data == data and await self._documents.holds(blobs):
                return False
            await self._documents.publish(blobs)
            return True
