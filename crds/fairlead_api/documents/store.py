"""How documents lie in ConfigMaps: plain, compressed, or cut into parts that are swapped as one.

`pack` is the writer's half, `DocumentAssembler` the reader's; both are pure. A document has one *head* of its own name.
Small ones stand in the head as text, larger ones compressed, and what still does not fit is cut into *parts* whose
names contain the hash of the whole. A writer stores the parts first, then the head, then deletes the parts of the
version before: killed anywhere in between, it leaves a head whose parts are all there.
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
"""Bytes of values that are put into one ConfigMap. The API server takes 1,048,576; the base64 of this much and what
goes around it stay below that on the wire too, where clients begin to take a body for one that holds up others."""
PLAIN_LIMIT: Final = 500_000
"""Bytes of a document that stands in its head as text: JSON within JSON has up to twice as many."""
DOCUMENT_LIMIT: Final = 256 * 1024 * 1024
"""Decompressed bytes of one document that a reader is willing to hold."""

PLAIN: Final = "document.json"
GZIPPED: Final = "document.json.gz"
INDEX: Final = "parts.json"
PART: Final = "part"


@dataclass(frozen=True)
class Blob:
    """The content of one ConfigMap: what a writer stores and a reader is given."""

    name: str
    labels: dict[str, str]
    annotations: dict[str, str] = field(default_factory=dict)
    data: dict[str, str] = field(default_factory=dict)
    binary: dict[str, bytes] = field(default_factory=dict)

    @property
    def is_part(self) -> bool:
        return self.labels.get(LABEL_PART) == "true"


class Index(msgspec.Struct, frozen=True):
    """In the head of a document that was cut: the names of its parts in order, and the hash of the compressed whole."""

    parts: tuple[str, ...]
    sha256: str


def pack(name: str, kind: str, document: bytes, labels: dict[str, str] | None = None) -> list[Blob]:
    """Cut a document into blobs, in the order in which they are to be stored; the head is the last.

    Deterministic: equal bytes give equal blobs, so an unchanged document can be applied again without a write.
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
    """Names of the parts that a head refers to; none where it holds the document itself or cannot be read."""
    if INDEX not in head.data:
        return ()
    try:
        return msgspec.json.decode(head.data[INDEX], type=Index).parts
    except msgspec.MsgspecError:
        return ()


class BrokenDocument(ValueError):
    """A head whose content does not add up; the reader keeps the version it has."""


class _Incomplete(Exception):
    """A part is not there yet."""


@dataclass(frozen=True)
class Change:
    """One change of the store: a document that is new or different, gone, or unreadable."""

    name: str
    document: bytes | None
    problem: str | None = None


class DocumentAssembler:
    """Puts documents together from blobs that arrive one by one, in any order.

    A document changes only from one whole to the next: while a part is missing, or the content does not add up, the
    last whole stands.
    """

    def __init__(self) -> None:
        self._heads: dict[str, Blob] = {}
        self._parts: dict[str, Blob] = {}
        self._waiting: dict[str, set[str]] = {}
        self._whole: dict[str, bytes] = {}
        self._broken: set[str] = set()
        """Names that readers were told a problem of."""

    @property
    def documents(self) -> dict[str, bytes]:
        """The whole documents by name, as last assembled."""
        return dict(self._whole)

    @property
    def incomplete(self) -> list[str]:
        """Names of documents of which a part has not arrived."""
        return sorted(self._waiting)

    def put(self, blob: Blob) -> list[Change]:
        """Take in a new or changed blob."""
        if not blob.is_part:
            self._heads[blob.name] = blob
            return self._assemble(blob.name)
        self._parts[blob.name] = blob
        concerned = [head for head, missing in self._waiting.items() if blob.name in missing]
        return [change for head in concerned for change in self._assemble(head)]

    def remove(self, name: str) -> list[Change]:
        """Take note that a blob is gone. A part that goes changes nothing until its head does."""
        self._parts.pop(name, None)
        if self._heads.pop(name, None) is None:
            return []
        self._waiting.pop(name, None)
        was_present = self._whole.pop(name, None) is not None or name in self._broken
        self._broken.discard(name)
        return [Change(name, None)] if was_present else []

    def replace(self, blobs: Iterable[Blob]) -> list[Change]:
        """Take in a complete listing; what it does not contain is gone."""
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
            self._broken.add(name)
            return [Change(name, self._whole.get(name), str(error))]
        if self._whole.get(name) == document and name not in self._broken:
            return []
        self._broken.discard(name)
        self._whole[name] = document
        return [Change(name, document)]

    def _read(self, head: Blob) -> bytes:
        if PLAIN in head.data:
            document = head.data[PLAIN].encode()
        elif GZIPPED in head.binary:
            document = _decompress(head.binary[GZIPPED])
        elif INDEX in head.data:
            document = _decompress(self._join(head))
        else:
            raise BrokenDocument(f"ConfigMap {head.name} holds none of {PLAIN}, {GZIPPED}, {INDEX}")
        if head.annotations.get(ANNOTATION_SHA256) != sha256(document):
            raise BrokenDocument(
                f"ConfigMap {head.name} was edited: its content does not match the annotation {ANNOTATION_SHA256}"
            )
        return document

    def _join(self, head: Blob) -> bytes:
        try:
            index = msgspec.json.decode(head.data[INDEX], type=Index)
        except msgspec.MsgspecError as error:
            raise BrokenDocument(f"ConfigMap {head.name}: {INDEX} cannot be read: {error}") from error
        if any(part not in self._parts for part in index.parts):
            raise _Incomplete
        compressed = b"".join(self._parts[part].binary.get(PART, b"") for part in index.parts)
        if sha256(compressed) != index.sha256:
            raise BrokenDocument(f"the parts of ConfigMap {head.name} do not add up to what its index says")
        return compressed


def _decompress(data: bytes) -> bytes:
    inflater = zlib.decompressobj(wbits=31)
    try:
        document = inflater.decompress(data, DOCUMENT_LIMIT)
    except zlib.error as error:
        raise BrokenDocument(f"not gzip: {error}") from error
    if inflater.unconsumed_tail:
        raise BrokenDocument(f"larger than {DOCUMENT_LIMIT} bytes when decompressed")
    if not inflater.eof:
        raise BrokenDocument("compressed data ends early")
    return document
