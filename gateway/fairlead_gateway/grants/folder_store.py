"""Store of grants in a folder of one machine: one file per grant, sealed, readable only by its owner.

Several processes may share the folder: they change it under a lock, and each process checks for changes of the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import threading
from collections.abc import Callable, Container, Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from fairlead_gateway.grants.machine_keys import MachineKeys
from fairlead_gateway.grants.private_files import (
    delete_private,
    lock_folder,
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
from fairlead_gateway.grants.watching_store import WatchingGrantStore
from fairlead_mcp.oauth.stored_grant import GrantKey, GrantStoreError, StoredGrant, UnreadableGrant, VersionedGrant

if TYPE_CHECKING:
    from fairlead_gateway.grants.sealing import GrantSealer

SUFFIX: Final = ".grant"
CHECK_SECONDS: Final = 0.5
"""Seconds between two checks for changes of other processes."""
Result = TypeVar("Result")


class _SeenFile(NamedTuple):
    """File of a record, at the last check."""

    stamp: tuple[int, int]
    """Time of the last change in nanoseconds, and inode."""
    key: GrantKey | None
    """Key of the grant; None if the file has no record, or a record that belongs into another file."""


class _FileKeys:
    """Keys of grants by the names of their files (`record_name`). Threads share this object."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._keys: dict[str, GrantKey] = {}
        self._names_by_person: dict[bytes, set[str]] = {}

    def add(self, name: str, key: GrantKey) -> None:
        with self._lock:
            self._keys[name] = key
            self._names_by_person.setdefault(key.person, set()).add(name)

    def find(self, name: str) -> GrantKey | None:
        return self._keys.get(name)

    def of_person(self, person: bytes, names: set[str]) -> set[str]:
        """The names among `names` whose files have grants of a person, or whose keys are unknown."""
        with self._lock:
            return (names & self._names_by_person.get(person, set())) | names.difference(self._keys)

    def drop_missing(self, names: Mapping[str, object]) -> set[GrantKey]:
        """Forget the files that are not in `names`. Returns their keys."""
        with self._lock:
            removed_keys = {name: self._keys.pop(name) for name in set(self._keys).difference(names)}
            for name, key in removed_keys.items():
                self._names_by_person[key.person].discard(name)
                if not self._names_by_person[key.person]:
                    del self._names_by_person[key.person]
        return set(removed_keys.values())


class FolderGrantStore(WatchingGrantStore):
    """Grants in `folder`, which is created with the first grant."""

    def __init__(self, folder: Path, keys: MachineKeys | None = None) -> None:
        super().__init__()
        self._folder = folder
        self._keys = keys or MachineKeys(folder)
        self._sealer: GrantSealer | None = None
        self._unavailable_keys: set[str] = set()
        """Ids of keys that are not available."""
        self._last_scan: dict[str, _SeenFile] = {}
        self._file_keys = _FileKeys()
        """Keys of the files that this process has read or written. A file may be created and deleted between two
        checks, so that only this mapping tells its key.
        """

    def __repr__(self) -> str:
        return f"<FolderGrantStore {self._folder}>"

    async def read(self, key: GrantKey) -> VersionedGrant | None:
        return await self._do(lambda: self._read(key))

    async def write(self, key: GrantKey, grant: StoredGrant, replaces: str | None = None) -> str | None:
        version = await self._do(lambda: self._write(key, grant, replaces))
        if version is not None:
            self._feed.publish(key, written=True)
        return version

    async def delete(self, key: GrantKey, version: str | None = None) -> bool:
        deleted = await self._do(lambda: self._delete(key, version))
        if deleted:
            self._feed.publish(key, written=False)
        return deleted

    async def of_person(self, person: bytes) -> Sequence[tuple[GrantKey, StoredGrant]]:
        return await self._do(lambda: self._grants(lambda key: key.person == person, self._names(person)))

    async def all_grants(self, servers: Container[str] | None = None) -> Sequence[tuple[GrantKey, StoredGrant]]:
        def work() -> list[tuple[GrantKey, StoredGrant]]:
            return self._grants(lambda key: servers is None or key.server in servers, self._names())

        return await self._do(work)

    async def _do(self, work: Callable[[], Result]) -> Result:
        """Run `work` in a thread, as a disk may be slow. Raises GrantStoreError."""
        try:
            return await asyncio.to_thread(work)
        except OSError as error:
            raise self._store_error(error) from error

    def _store_error(self, error: OSError) -> GrantStoreError:
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        advice = (
            "free some space; the stored grants are kept"
            if is_full
            else "make it a folder of the gateway's user, or name another one in FAIRLEAD_GRANTS_DIRECTORY"
        )
        return GrantStoreError(f"grants cannot be stored in {self._folder}: {error.strerror or error}: {advice}")

    # In a thread

    def _read(self, key: GrantKey) -> VersionedGrant | None:
        path = self._path(key)
        record = self._record(path)
        if record is None:
            return None
        self._file_keys.add(path.name, key)
        return VersionedGrant(self._open(key, record), record.version)

    def _write(self, key: GrantKey, grant: StoredGrant, replaces: str | None) -> str | None:
        make_private(self._folder)
        path = self._path(key)
        with lock_folder(self._folder):
            sealer = self._sealer or self._load()
            if replaces is not None and replaces != self._version(path):
                return None
            sealed = sealer.seal(key, grant, new_version())
            replace_private(path, encode_record(sealed))
            self._file_keys.add(path.name, key)
        return sealed.version

    def _delete(self, key: GrantKey, version: str | None) -> bool:
        if not self._folder.exists():
            return False
        path = self._path(key)
        with lock_folder(self._folder):
            return (version is None or version == self._version(path)) and delete_private(path)

    def _version(self, path: Path) -> str:
        """Version of the record; empty without one."""
        record = self._record(path)
        return "" if record is None else record.version

    def _grants(self, matches: Callable[[GrantKey], bool], names: set[str]) -> list[tuple[GrantKey, StoredGrant]]:
        grants = []
        for name in names:
            key_of_file = self._file_keys.find(name)
            if key_of_file is not None and not matches(key_of_file):
                continue
            with contextlib.suppress(UnreadableGrant, OSError):  # an unreadable file does not hide the others
                record = self._record(self._folder / name)
                if record is None or name != self._path(record.key).name:
                    continue
                self._file_keys.add(name, record.key)
                if matches(record.key):
                    grants.append((record.key, self._open(record.key, record)))
        return grants

    def _names(self, person: bytes | None = None) -> set[str]:
        """Names of the files that may have grants. With `person`, files that have grants of other persons are left out:
        a sign-in needs the grants of one person, and there may be thousands of others.
        """
        try:
            names = set(os.listdir(self._folder))  # noqa: PTH208 - Path.iterdir makes a path of each
        except FileNotFoundError:
            return set()
        candidates = names if person is None else self._file_keys.of_person(person, names)
        return {name for name in candidates if name.endswith(SUFFIX)}

    def _open(self, key: GrantKey, record: SealedGrant) -> StoredGrant:
        sealer = self._sealer
        if sealer is None or not (sealer.knows(record) or record.key_id in self._unavailable_keys):
            with lock_folder(self._folder):
                sealer = self._load()  # another process may have made the key
            if not sealer.knows(record):
                self._unavailable_keys.add(record.key_id)
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

    def _start_watching(self) -> Sequence[Coroutine[object, object, None]]:
        with contextlib.suppress(OSError):
            self._find_changes()  # here, so that no change after this call is missed
        return [self._watch_folder()]

    async def _watch_folder(self) -> None:
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            with contextlib.suppress(OSError):  # changes are found when the folder can be read again
                for key, written in (await asyncio.to_thread(self._find_changes)).items():
                    self._feed.publish(key, written=written)

    def _find_changes(self) -> dict[GrantKey, bool]:
        """Keys whose files have changed; True for a written file, False for a deleted one. Raises OSError."""
        previous, current = self._last_scan, self._scan()
        removed_keys = [previous[name].key for name in previous.keys() - current.keys()]
        changes = dict.fromkeys((*self._file_keys.drop_missing(current), *removed_keys), False)
        for name, new_file in current.items():
            old_file = previous.get(name)
            if new_file is not old_file:
                keys = [new_file.key] if old_file is None else [old_file.key, new_file.key]
                changes.update(dict.fromkeys(keys, new_file.key is not None))
                if new_file.key is not None:
                    self._file_keys.add(name, new_file.key)
        self._last_scan = current
        return {key: written for key, written in changes.items() if key is not None}

    def _scan(self) -> dict[str, _SeenFile]:
        files = {}
        for entry in self._entries():
            with contextlib.suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                stamp = status.st_mtime_ns, status.st_ino
                previous = self._last_scan.get(entry.name)
                if previous is not None and previous.stamp == stamp:
                    files[entry.name] = previous
                else:
                    record = self._record(Path(entry.path))
                    belongs = record is not None and entry.name == self._path(record.key).name
                    files[entry.name] = _SeenFile(stamp, record.key if record is not None and belongs else None)
        return files
