"""Stores documents and credentials in directories, in place of a cluster's ConfigMaps and Secrets.

Implements the port Documents. A document is one file `NAME.json`, which is replaced by a rename, so that readers see
either the old or the new content. Credentials are in another directory that only its owner can read, one file per
server.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from fairlead_api.documents.base import sha256
from fairlead_api.documents.catalog import Catalog, Credential, CredentialRef
from fairlead_api.documents.codec import SERVERS_NAME, UnreadableDocument, catalog_name, decode
from fairlead_api.documents.pins import Pins
from fairlead_api.documents.store import Blob, DocumentAssembler
from fairlead_api.meta import LABEL_DOCUMENT, LABEL_MANAGED_BY, MANAGED_BY, ServerKey, bounded_name
from fairlead_operator.local.space_reserve import SpaceReserve
from fairlead_operator.ports import PlatformTrouble
from fairlead_operator.publish.catalogs import labels_for

SUFFIX: Final = ".json"
RESERVE: Final = ".reserve"


def private_directory(path: Path) -> Path:
    """Create `path` with access for its owner only; also restricts an existing directory."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.chmod(0o700)
    return path


def write_private(path: Path, content: bytes) -> None:
    """Replace a file atomically, readable only for its owner; no-op if its content is equal."""
    try:
        if path.read_bytes() == content:
            return
    except FileNotFoundError:
        pass
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with open(temporary, "wb", opener=_owner_only) as file:
            file.write(content)
        temporary.replace(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink()  # an incomplete file would occupy the last space of a full disk
        raise


def _owner_only(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


class DirectoryTrouble(PlatformTrouble):
    """The directory cannot be read or written, for lack of space or permissions."""


@contextmanager
def file_troubles() -> Iterator[None]:
    """Raise DirectoryTrouble in place of OSError."""
    try:
        yield
    except OSError as error:
        raise DirectoryTrouble(f"{error.filename or 'the state directory'}: {error.strerror or error}") from error


class UnwrittenFiles:
    """Files whose last write failed.

    `on_change` receives the file that failed first, with the reason, whenever this file or reason changes; it receives
    None when no such file is left. `clock` returns seconds.
    """

    def __init__(
        self,
        on_change: Callable[[tuple[Path, str] | None], None] = lambda failure: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._on_change = on_change
        self._clock = clock
        self._files: dict[Path, tuple[float, str]] = {}
        """Each file, with the time and the reason of its last failure."""
        self._reported_problem: tuple[Path, str] | None = None

    def __repr__(self) -> str:
        return f"<UnwrittenFiles {len(self._files)}>"

    @property
    def is_empty(self) -> bool:
        """Whether every file was written."""
        return not self._files

    @contextmanager
    def record_failure(self, file: Path) -> Iterator[None]:
        """Context of a write or deletion of `file`, which records a failure. Raises DirectoryTrouble for OSError."""
        try:
            with file_troubles():
                yield
        except DirectoryTrouble as trouble:
            cause = trouble.__cause__
            self._files[file] = self._clock(), (isinstance(cause, OSError) and cause.strerror) or str(cause)
            self._report()
            raise
        self._drop([file])

    def forget_older(self, seconds: float) -> None:
        """Drop files whose last failure was more than `seconds` ago: nothing writes them any more, or they would have
        been retried.
        """
        oldest_kept_time = self._clock() - seconds
        self._drop([file for file, (failed_at, _) in self._files.items() if failed_at < oldest_kept_time])

    def _drop(self, files: Iterable[Path]) -> None:
        for file in files:
            self._files.pop(file, None)
        self._report()

    def _report(self) -> None:
        first = next(((file, reason) for file, (_, reason) in self._files.items()), None)
        if first != self._reported_problem:
            self._reported_problem = first
            self._on_change(first)


class DirectoryDocuments:
    """Documents as files of one directory. `on_write` is called after each change.

    Disk space is reserved for the servers document, because it reports which files could not be written on a full disk.
    """

    def __init__(
        self,
        directory: Path,
        on_write: Callable[[], None] = lambda: None,
        unwritten_files: UnwrittenFiles | None = None,
    ) -> None:
        self._directory = private_directory(directory)
        self._on_write = on_write
        self._unwritten_files = unwritten_files or UnwrittenFiles()
        self._labels = dict(_stored_labels(directory))
        self._reserve = SpaceReserve(directory / RESERVE)

    def __repr__(self) -> str:
        return f"<DirectoryDocuments {self._directory}>"

    def reserve_space(self) -> None:
        """Reserve disk space for the servers document. Raises DirectoryTrouble if there is not enough."""
        with file_troubles():
            self._reserve.allocate()
        self._reserve.grow()

    async def heads(self) -> Mapping[str, Mapping[str, str]]:
        """Names of the documents, with the labels that they would have as ConfigMaps."""
        return self._labels

    async def read(self, name: str) -> bytes | None:
        """The content of a document; None if it does not exist."""
        with file_troubles():
            try:
                return self._file(name).read_bytes()
            except FileNotFoundError:
                return None

    def catalog(self, key: ServerKey) -> Catalog | None:
        """Published catalog of a server, for display; None if it is missing or unreadable."""
        try:
            document = decode(self._file(catalog_name(key)).read_bytes())
        except (OSError, UnreadableDocument):
            return None
        return document if isinstance(document, Catalog) else None

    async def holds(self, blobs: list[Blob]) -> bool:
        """Whether the document is stored, by the labels of its head. Files that other programs have edited are not
        detected.
        """
        head = blobs[-1]
        return head.labels.items() <= self._labels.get(head.name, {}).items()

    async def publish(self, blobs: list[Blob]) -> None:
        """Store one document, joined from its parts: unlike a ConfigMap, a file has no size limit."""
        assembler = DocumentAssembler()
        for blob in blobs:
            assembler.put(blob)
        for name, document in assembler.documents.items():
            with self._unwritten_files.record_failure(self._file(name)):
                write = partial(write_private, self._file(name), document)
                if name == SERVERS_NAME:
                    self._reserve.use(write)
                else:
                    write()
            if self._unwritten_files.is_empty:
                self._reserve.grow()
            self._labels[name] = blobs[-1].labels
        self._on_write()

    async def withdraw(self, name: str) -> None:
        """Delete a document; no error if it does not exist."""
        self._labels.pop(name, None)
        with self._unwritten_files.record_failure(self._file(name)):
            self._file(name).unlink(missing_ok=True)
        self._on_write()

    async def tidy(self) -> None:
        """No-op: documents in files have no parts."""

    def _file(self, name: str) -> Path:
        return self._directory / f"{name}{SUFFIX}"


def _stored_labels(directory: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Names and labels of the documents in a directory; other files are ignored."""
    for file in sorted(directory.glob(f"*{SUFFIX}")):
        try:
            document = decode(file.read_bytes())
        except (OSError, UnreadableDocument):
            continue
        labels = {LABEL_MANAGED_BY: MANAGED_BY, LABEL_DOCUMENT: str(type(document).__struct_config__.tag)}
        if isinstance(document, Catalog | Pins):
            labels |= labels_for(document.key, document.uid)
        yield file.name.removesuffix(SUFFIX), labels


class DirectoryCredentialStore:
    """Credentials of servers: one file per server. The catalog refers to the file by its name."""

    def __init__(self, directory: Path, unwritten_files: UnwrittenFiles | None = None) -> None:
        self._directory = private_directory(directory)
        self._unwritten_files = unwritten_files or UnwrittenFiles()

    def store(self, key: ServerKey, credential: Credential) -> CredentialRef:
        """Store a server's credential for the gateway; return the reference for the catalog."""
        file = self._file(key)
        value = msgspec.json.encode(credential, order="deterministic")
        with self._unwritten_files.record_failure(file):
            write_private(file, value)
        return CredentialRef(
            secret=file.name.removesuffix(SUFFIX), key=f"{key.namespace}.{key.name}", hash=sha256(value)[:16]
        )

    def drop(self, key: ServerKey) -> None:
        """Delete a server's credential; no error if there is none."""
        file = self._file(key)
        with self._unwritten_files.record_failure(file):
            file.unlink(missing_ok=True)

    def _file(self, key: ServerKey) -> Path:
        secret = bounded_name("fairlead-credential", key.namespace, key.name, limit=200)
        return self._directory / f"{secret}{SUFFIX}"
