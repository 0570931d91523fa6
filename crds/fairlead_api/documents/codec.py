"""Encoding of documents to bytes, and decoding."""

from __future__ import annotations

import msgspec

from fairlead_api.documents.base import FORMAT, Header
from fairlead_api.documents.catalog import CATALOG, Catalog
from fairlead_api.documents.pins import PINS, Pins
from fairlead_api.documents.rules import RULES, Rules
from fairlead_api.documents.servers import SERVERS, Servers
from fairlead_api.documents.state import STATE, State
from fairlead_api.meta import ServerKey, bounded_name

Document = Catalog | State | Rules | Servers | Pins
KINDS = (CATALOG, STATE, RULES, SERVERS, PINS)
SERVED = (CATALOG, STATE, RULES, SERVERS)
"""Kinds of documents that gateways read."""

_encode = msgspec.json.Encoder(order="deterministic").encode
_header = msgspec.json.Decoder(Header).decode
_document: msgspec.json.Decoder[Document] = msgspec.json.Decoder(Document)


class UnreadableDocument(ValueError):
    """Bytes that are not a document, or have an unknown kind or a newer version."""


def encode(document: Document) -> bytes:
    """JSON bytes; equal documents give equal bytes."""
    return _encode(document)


def decode(data: bytes) -> Document:
    """Decode a document of any kind. Raises UnreadableDocument with a sentence about the fault."""
    try:
        header = _header(data)
    except msgspec.MsgspecError as error:
        raise UnreadableDocument(f"not a Fairlead document: {error}") from error
    if header.kind not in KINDS:
        raise UnreadableDocument(f"kind {header.kind!r} is not one of {', '.join(KINDS)}")
    if header.version > FORMAT:
        raise UnreadableDocument(
            f"{header.kind} has format {header.version}, but this release reads up to {FORMAT}: upgrade the release"
        )
    try:
        return _document.decode(data)
    except msgspec.MsgspecError as error:
        raise UnreadableDocument(f"{header.kind}: {error}") from error


def catalog_name(key: ServerKey) -> str:
    """Name of the ConfigMap (or file) with the catalog of one server."""
    return bounded_name("fairlead-catalog", key.namespace, key.name, limit=200)


def pins_name(key: ServerKey) -> str:
    """Name of the ConfigMap (or file) with the approved and held-back definitions of one server."""
    return bounded_name("fairlead-pins", key.namespace, key.name, limit=200)


def state_name(shard: int) -> str:
    """Name of the ConfigMap (or file) with one shard of the state."""
    return f"fairlead-state-{shard}"


RULES_NAME = "fairlead-rules"
SERVERS_NAME = "fairlead-servers"
