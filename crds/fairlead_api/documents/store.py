"""Storage of documents in ConfigMaps: as text, compressed, or compressed and cut into parts.

`pack` is for writers, `DocumentAssembler` for readers; neither does I/O. A document has one *head*, a ConfigMap of the
document's name. The head holds a small document as text and a larger one compressed. A document that is still too large
is cut into *parts*, whose names contain the hash of the compressed document. A writer stores the parts first, then the
head, then deletes the parts of the previous version. If the writer is killed in between, all parts of the stored head
still exist.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from fairlead_api.documents.base import sha256
from fairlead_api.meta import ANNOTATION_SHA256, LABEL_DOCUMENT, LABEL_MANAGED_BY, LABEL_PART, MANAGED_BY

VALUES_LIMIT: Final = 700_000
"""Largest size in bytes of the values of one ConfigMap. The API server's limit is 1,048,576 bytes; base64 of this size
and the rest of the object stay below it."""
PLAIN_LIMIT: Final = 500_000
"""Largest size in bytes of a document that is stored as text: escaping JSON within JSON can double its size."""
DOCUMENT_LIMIT: Final = 256 * 1024 * 1024
"""Largest decompressed size of a document, in bytes, that a reader accepts."""

PLAIN: Final = "document.json"
GZIPPED: Final = "document.json.gz"
INDEX: Final = "parts.json"
PART: Final = "part"


@dataclass(frozen=True)
class Blob:
    """The content of one ConfigMap."""

    name: str
    labels: dict[str, str]
    annotations: dict[str, str] = field(default_factory=dict)
    data: dict[str, str] = field(default_factory=dict)
    binary: dict[str, bytes] = field(default_factory=dict)

    @property
    def is_part(self) -> bool:
        return self.labels.get(LABEL_PART) == "true"


class Index(msgspec.Struct, frozen=True):
    """Content of the head of a document that was cut: the names of its parts in order, and the hash of the compressed
    document.
    """

    parts: tuple[str, ...]
    sha256: str


def pack(name: str, kind: str, document: bytes, labels: dict[str, str] | None = None) -> list[Blob]:
    """Convert a document to the ConfigMaps to store, in the order in which to store them; the head is the last.

    Deterministic: equal bytes give equal ConfigMaps, so applying an unchanged document again causes no write.
    """
    marked = {LABEL_MANAGED_BY: MANAGED_BY, LABEL_DOCUMENT: kind, **(labels or {})}
    annotations = {ANNOTATION_SHA256: sha256(document)}
    if len(document) <= PLAIN_LIMIT:
        return [Blob(name, marked, annotations, data={PLAIN: document.decode()})]
    compressed = gzip.compress(document, compresslevel=6, mtime=0)
    if len(compressed) <= VALUES_LIMIT:
        return [Blob(name, marked, annotations, binary={GZIPPED: compressed})]
    digest = sha256(compressed)
    parts = [
        Blob(
            f"{name}-{digest[:10]}-{number}",
            {**marked, LABEL_PART: "true"},
            binary={PART: compressed[start : start + VALUES_LIMIT]},
        )
        for number, start in enumerate(range(0, len(compressed), VALUES_LIMIT))
    ]
    index = msgspec.json.encode(Index(tuple(p.name for p in parts), digest)).decode()
    return [*parts, Blob(name, marked, annotations, data={INDEX: index})]


def part_names(head: Blob) -> tuple[str, ...]:
    """Names of the parts that a head refers to; empty if the head holds the document itself or is invalid."""
    if INDEX not in head.data:
        return ()
    try:
        return msgspec.json.decode(head.data[INDEX], type=Index).parts
    except msgspec.MsgspecError:
        return ()


class BrokenDocument(ValueError):
    """A head whose content is inconsistent; the reader keeps the previous version."""


class _Incomplete(Exception):
    """A part has not arrived yet."""


@dataclass(frozen=True)
class Change:
    """One change of a document: new or different content, a removal (`document` is None), or a problem."""

    name: str
    document: bytes | None
    problem: str | None = None


class DocumentAssembler:
    """Assembles documents from ConfigMaps that arrive one by one, in any order.

    A document only changes from one complete version to the next: while a part is missing, or the content is
    inconsistent, the last complete version stays.
    """

    def __init__(self) -> None:
        self._heads: dict[str, Blob] = {}
        self._parts: dict[str, Blob] = {}
        self._waiting: dict[str, set[str]] = {}
        """Name of each incomplete document to the names of its missing parts."""
        self._last_complete: dict[str, bytes] = {}
        """Name of each document to its last complete version."""
        self._broken_names: set[str] = set()
        """Names of documents whose last reported change was a problem."""

    @property
    def documents(self) -> dict[str, bytes]:
        """The last complete version of each document, by name."""
        return dict(self._last_complete)

    @property
    def incomplete(self) -> list[str]:
        """Names of documents with a missing part."""
        return sorted(self._waiting)

    def put(self, blob: Blob) -> list[Change]:
        """Add or replace a ConfigMap. Returns the resulting changes."""
        if not blob.is_part:
            self._heads[blob.name] = blob
            return self._assemble(blob.name)
        self._parts[blob.name] = blob
        concerned = [head for head, missing in self._waiting.items() if blob.name in missing]
        return [change for head in concerned for change in self._assemble(head)]

    def remove(self, name: str) -> list[Change]:
        """Remove a ConfigMap. Removing a part changes nothing until the head is removed."""
        self._parts.pop(name, None)
        if self._heads.pop(name, None) is None:
            return []
        self._waiting.pop(name, None)
        was_present = self._last_complete.pop(name, None) is not None or name in self._broken_names
        self._broken_names.discard(name)
        return [Change(name, None)] if was_present else []

    def replace(self, blobs: Iterable[Blob]) -> list[Change]:
        """Replace everything by a complete listing; ConfigMaps that it does not contain are removed."""
        listed = {blob.name: blob for blob in blobs}
        gone = [name for name in [*self._heads, *self._parts] if name not in listed]
        changes = [change for name in gone for change in self.remove(name)]
        in_order = sorted(listed.values(), key=lambda blob: (not blob.is_part, blob.name))
        return changes + [change for blob in in_order for change in self.put(blob)]

    def _assemble(self, name: str) -> list[Change]:
        head = self._heads[name]
        self._waiting.pop(name, None)
        try:
            document = self._read(head)
        except _Incomplete:
            self._waiting[name] = {part for part in part_names(head) if part not in self._parts}
            return []
        except BrokenDocument as error:
            self._broken_names.add(name)
            return [Change(name, self._last_complete.get(name), str(error))]
        if self._last_complete.get(name) == document and name not in self._broken_names:
            return []
        self._broken_names.discard(name)
        self._last_complete[name] = document
        return [Change(name, document)]

    def _read(self, head: Blob) -> bytes:
        if PLAIN in head.data:
            document = head.data[PLAIN].encode()
        elif GZIPPED in head.binary:
            document = _decompress(head.binary[GZIPPED])
        elif INDEX in head.data:
            document = _decompress(self._join(head))
        else:
            raise BrokenDocument(f"ConfigMap {head.name} has none of {PLAIN}, {GZIPPED}, {INDEX}")
        if head.annotations.get(ANNOTATION_SHA256) != sha256(document):
            raise BrokenDocument(
                f"ConfigMap {head.name} was edited: its content does not match the annotation {ANNOTATION_SHA256}"
            )
        return document

    def _join(self, head: Blob) -> bytes:
        try:
            index = msgspec.json.decode(head.data[INDEX], type=Index)
        except msgspec.MsgspecError as error:
            raise BrokenDocument(f"ConfigMap {head.name}: {INDEX} is not valid: {error}") from error
        if any(part not in self._parts for part in index.parts):
            raise _Incomplete
        compressed = b"".join(self._parts[part].binary.get(PART, b"") for part in index.parts)
        if sha256(compressed) != index.sha256:
            raise BrokenDocument(f"the parts of ConfigMap {head.name} do not have the hash that its index names")
        return compressed


def _decompress(data: bytes) -> bytes:
    inflater = zlib.decompressobj(wbits=31)
    try:
        document = inflater.decompress(data, DOCUMENT_LIMIT)
    except zlib.error as error:
        raise BrokenDocument(f"the document is not valid gzip: {error}") from error
    if inflater.unconsumed_tail:
        raise BrokenDocument(f"the document is larger than {DOCUMENT_LIMIT} bytes when decompressed")
    if not inflater.eof:
        raise BrokenDocument("the compressed document is truncated")
    return document
