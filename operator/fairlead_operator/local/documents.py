"""Documents and credentials in a directory: what ConfigMaps and Secrets are on a cluster.

Implements the Documents port. A document is one file `NAME.json`, swapped by a rename: a reader sees the old whole or
the new one. Credentials stand beside them in a directory that only its owner can read, one file per server.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from fairlead_api.documents.base import sha256
from fairlead_api.documents.catalog import Catalog, Credential, CredentialRef
from fairlead_api.documents.codec import UnreadableDocument, decode
from fairlead_api.documents.store import Assembler, Blob
from fairlead_api.meta import (
    LABEL_DOCUMENT,
    LABEL_MANAGED_BY,
    LABEL_NAME,
    LABEL_NAMESPACE,
    LABEL_UID,
    MANAGED_BY,
    ServerKey,
    bounded_name,
    label_value,
)

SUFFIX: Final = ".json"


def private_directory(path: Path) -> Path:
    """Create `path` for its owner alone, also where it exists with wider permissions."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.chmod(0o700)
    return path


def write_private(path: Path, content: bytes) -> None:
    """Replace a file in one step; only its owner can read it. Does nothing where it holds `content` already."""
    try:
        if path.read_bytes() == content:
            return
    except FileNotFoundError:
        pass
    temporary = path.with_name(f".{path.name}.tmp")
    with open(temporary, "wb", opener=_owner_only) as file:
        file.write(content)
    temporary.replace(path)


def _owner_only(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


class DirectoryDocuments:
    """Documents as files of one directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = private_directory(directory)

    def __repr__(self) -> str:
        return f"<DirectoryDocuments {self._directory}>"

    async def listing(self) -> Mapping[str, Mapping[str, str]]:
        """Names of the documents with the labels that they would carry as ConfigMaps."""
        found = {}
        for file in sorted(self._directory.glob(f"*{SUFFIX}")):
            labels = _labels(file)
            if labels is not None:
                found[file.name.removesuffix(SUFFIX)] = labels
        return found

    async def read(self, name: str) -> bytes | None:
        """The document of that name; None when there is none."""
        try:
            return self._file(name).read_bytes()
        except FileNotFoundError:
            return None

    async def publish(self, blobs: list[Blob]) -> None:
        """Store one document. Its parts are put together first: a file knows no limit of size."""
        assembler = Assembler()
        for blob in blobs:
            assembler.put(blob)
        for name, document in assembler.documents.items():
            write_private(self._file(name), document)

    async def withdraw(self, name: str) -> None:
        """Delete a document; fine when it is gone."""
        self._file(name).unlink(missing_ok=True)

    def _file(self, name: str) -> Path:
        return self._directory / f"{name}{SUFFIX}"


def _labels(file: Path) -> dict[str, str] | None:
    try:
        document = decode(file.read_bytes())
    except (OSError, UnreadableDocument):
        return None
    labels = {LABEL_MANAGED_BY: MANAGED_BY, LABEL_DOCUMENT: str(type(document).__struct_config__.tag)}
    if isinstance(document, Catalog):
        labels |= {
            LABEL_NAMESPACE: label_value(document.namespace),
            LABEL_NAME: label_value(document.name),
            LABEL_UID: document.uid,
        }
    return labels


class DirectoryCredentials:
    """The credentials of servers: a file each, named by the reference that stands in the catalog."""

    def __init__(self, directory: Path) -> None:
        self._directory = private_directory(directory)

    def store(self, key: ServerKey, credential: Credential) -> CredentialRef:
        """Keep the credential of a server where the gateway finds it."""
        secret = bounded_name("fairlead-credential", key.namespace, key.name, limit=200)
        value = msgspec.json.encode(credential, order="deterministic")
        write_private(self._directory / f"{secret}{SUFFIX}", value)
        return CredentialRef(secret=secret, key=f"{key.namespace}.{key.name}", hash=sha256(value)[:16])

    def drop(self, key: ServerKey) -> None:
        """Forget it; fine when there is none."""
        secret = bounded_name("fairlead-credential", key.namespace, key.name, limit=200)
        (self._directory / f"{secret}{SUFFIX}").unlink(missing_ok=True)
