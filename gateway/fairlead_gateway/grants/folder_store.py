"""Store of grants in a folder of one machine: one file per grant, sealed, readable only by its owner.

Several processes may share the folder: changes are made under its lock, and each process notices those of the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
from collections.abc import Callable, Container, Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from fairlead_gateway.grants.machine_keys import MachineKeys
from fairlead_gateway.grants.noticing_store import NoticingGrantStore
from fairlead_gateway.grants.private_files import (
    delete_private,
    locked,
    make_private,
    read_private,
    replace_private,
)
from fairlead_gateway.grants.sealed_grant import (
    MAX_RECORD_BYTES,
    SealedGrant,
    decode_record,
    encode_record,
    new_version,
    record_name,
)
from fairlead_mcp.oauth.stored_grant import GrantKey, GrantStoreError, StoredGrant, UnreadableGrant, VersionedGrant

if TYPE_CHECKING:
    from fairlead_gateway.grants.sealing import GrantSealer

SUFFIX: Final = ".grant"
LOOK_SECONDS: Final = 0.5
"""Seconds between two checks for changes of other processes."""
Result = TypeVar("Result")


class _SeenFile(NamedTuple):
    """A record's file, as it was at the last check."""

    stamp: tuple[int, int]
    """Time of the last change in nanoseconds, and inode."""
    key: GrantKey | None
    """None if the file has no record, or a record that belongs in another file."""


class FolderGrantStore(NoticingGrantStore):
    """Grants in `folder`, which is created with the first grant."""

    def __init__(self, folder: Path, keys: MachineKeys | None = None) -> None:
        super().__init__()
        self._folder = folder
        self._keys = keys or MachineKeys(folder)
        self._sealer: GrantSealer | None = None
        self._lost: set[str] = set()
        """Ids of keys that are not available."""
        self._seen: dict[str, _SeenFile] = {}
        self._used: dict[str, GrantKey] = {}
        """Grants that this process read or wrote, by file name. A file may be created and deleted between two checks.
        """

    def __repr__(self) -> str:
        return f"<FolderGrantStore {self._folder}>"

    async def read(self, key: GrantKey) -> VersionedGrant | None:
        return await self._do(lambda: self._read(key))

    async def write(self, key: GrantKey, grant: StoredGrant, replaces: str | None = None) -> str | None:
        version = await self._do(lambda: self._write(key, grant, replaces))
        if version is not None:
            self._feed.publish(key)
        return version

    async def delete(self, key: GrantKey, version: str | None = None) -> bool:
        deleted = await self._do(lambda: self._delete(key, version))
        if deleted:
            self._feed.publish(key)
        return deleted

    async def of_person(self, person: bytes) -> Sequence[tuple[GrantKey, StoredGrant]]:
        return await self._do(lambda: self._grants(lambda key: key.person == person))

    async def everything(self, servers: Container[str] | None = None) -> Sequence[tuple[GrantKey, StoredGrant]]:
        return await self._do(lambda: self._grants(lambda key: servers is None or key.server in servers))

    async def _do(self, work: Callable[[], Result]) -> Result:
        """Run `work` in a thread, because a disk may be slow. Raises GrantStoreError."""
        try:
            return await asyncio.to_thread(work)
        except OSError as error:
            raise self._store_error(error) from error

    def _store_error(self, error: OSError) -> GrantStoreError:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        advice = (
            "free some space; the stored grants are kept"
            if full
            else "make it a folder of the gateway's user, or name another one in FAIRLEAD_GRANTS_DIRECTORY"
        )
        return GrantStoreError(f"grants cannot be stored in {self._folder}: {error.strerror or error}: {advice}")

    # In a thread

    def _read(self, key: GrantKey) -> VersionedGrant | None:
        path = self._path(key)
        record = self._record(path)
        if record is None:
            return None
        self._used[path.name] = key
        return VersionedGrant(self._open(key, record), record.version)

    def _write(self, key: GrantKey, grant: StoredGrant, replaces: str | None) -> str | None:
        make_private(self._folder)
        path = self._path(key)
        with locked(self._folder):
            sealer = self._sealer or self._load()
            if replaces is not None and replaces != self._version(path):
                return None
            sealed = sealer.seal(key, grant, new_version())
            replace_private(path, encode_record(sealed))
            self._used[path.name] = key
        return sealed.version

    def _delete(self, key: GrantKey, version: str | None) -> bool:
        if not self._folder.exists():
            return False
        path = self._path(key)
        with locked(self._folder):
            return (version is None or version == self._version(path)) and delete_private(path)

    def _version(self, path: Path) -> str:
        """Version of the record; empty without one."""
        record = self._record(path)
        return "" if record is None else record.version

    def _grants(self, wanted: Callable[[GrantKey], bool]) -> list[tuple[GrantKey, StoredGrant]]:
        grants = []
        for entry in self._entries():
            belonging = self._key_of_file(entry.name)
            if belonging is not None and not wanted(belonging):
                continue  # a sign-in needs one user's records, and there may be thousands of others
            with contextlib.suppress(UnreadableGrant, OSError):  # a damaged file does not affect the others
                record = self._record(Path(entry.path))
                if record is not None and entry.name == self._path(record.key).name and wanted(record.key):
                    grants.append((record.key, self._open(record.key, record)))
        return grants

    def _key_of_file(self, name: str) -> GrantKey | None:
        """Key whose record belongs in a file: file names are derived from keys. None if the key is not known yet."""
        seen = self._seen.get(name)
        return self._used.get(name) if seen is None or seen.key is None else seen.key

    def _open(self, key: GrantKey, record: SealedGrant) -> StoredGrant:
        sealer = self._sealer
        if sealer is None or not (sealer.knows(record) or record.key_id in self._lost):
            with locked(self._folder):
                sealer = self._load()  # another process may have made the key
            if not sealer.knows(record):
                self._lost.add(record.key_id)
        return sealer.open(key, record)

    def _load(self) -> GrantSealer:
        from fairlead_gateway.grants.sealing import GrantSealer

        sealer = self._sealer = GrantSealer(self._keys.load())
        return sealer

    def _path(self, key: GrantKey) -> Path:
        return self._folder / f"{record_name(key)}{SUFFIX}"

    def _record(self, path: Path) -> SealedGrant | None:
        try:
            return decode_record(read_private(path, MAX_RECORD_BYTES))
        except FileNotFoundError:
            return None

    def _entries(self) -> Iterator[os.DirEntry[str]]:
        try:
            with os.scandir(self._folder) as entries:
                yield from (entry for entry in entries if entry.name.endswith(SUFFIX))
        except FileNotFoundError:
            return

    # Changes of other processes

    def _begin_to_notice(self) -> Sequence[Coroutine[object, object, None]]:
        with contextlib.suppress(OSError):
            self._seen = self._scan()  # here, so that no later change is missed
        return [self._look()]

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            before, self._seen = self._seen, await self._scan_or_stay()
            for key in self._changed(before, self._seen):
                self._feed.publish(key)

    def _changed(self, before: Mapping[str, _SeenFile], now: Mapping[str, _SeenFile]) -> set[GrantKey]:
        """Keys whose files were written or deleted."""
        gone = [name for name in list(self._used) if name not in now]  # threads may add entries meanwhile
        keys = {self._used.pop(name) for name in gone}
        for name in before.keys() | now.keys():
            old, new = before.get(name), now.get(name)
            if old != new:
                keys |= {file.key for file in (old, new) if file is not None and file.key is not None}
        return keys

    async def _scan_or_stay(self) -> dict[str, _SeenFile]:
        """Files in the folder now; those of the last check if the folder cannot be read."""
        try:
            return await asyncio.to_thread(self._scan)
        except OSError:
            return self._seen

    def _scan(self) -> dict[str, _SeenFile]:
        files = {}
        for entry in self._entries():
            with contextlib.suppress(OSError):
                facts = entry.stat(follow_symlinks=False)
                stamp = facts.st_mtime_ns, facts.st_ino
                before = self._seen.get(entry.name)
                if before is not None and before.stamp == stamp:
                    files[entry.name] = before
                else:
                    record = self._record(Path(entry.path))
                    belongs = record is not None and entry.name == self._path(record.key).name
                    files[entry.name] = _SeenFile(stamp, record.key if record is not None and belongs else None)
        return files
