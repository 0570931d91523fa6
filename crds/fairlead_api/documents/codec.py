"""Encoding of documents to bytes, and decoding."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw

from fairlead_api.documents.base import FORMAT, Header
from fairlead_api.documents.catalog import CATALOG, Catalog, ToolEntry
from fairlead_api.documents.pins import PINS, Pins
from fairlead_api.documents.rules import RULES, Rules
from fairlead_api.documents.servers import SERVERS, Servers
from fairlead_api.documents.state import STATE, State
from fairlead_api.meta import ServerKey, bounded_name

Document = Catalog | State | Rules | Servers | Pins
KINDS = (CATALOG, STATE, RULES, SERVERS, PINS)
SERVED = (CATALOG, STATE, RULES, SERVERS)
"""Kinds of documents that gateways read."""

STEPPED_BYTES: Final = 256 << 10
"""Size from which a catalog is decoded tool by tool."""

_encode = msgspec.json.Encoder(order="deterministic").encode
_header = msgspec.json.Decoder(Header).decode
_document: msgspec.json.Decoder[Document] = msgspec.json.Decoder(Document)
_members = msgspec.json.Decoder(dict[str, Raw]).decode
_items = msgspec.json.Decoder(list[Raw]).decode
_tool = msgspec.json.Decoder(ToolEntry).decode


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
        return (
            _decode_in_steps(data) if header.kind == CATALOG and len(data) >= STEPPED_BYTES else _document.decode(data)
        )
    except msgspec.MsgspecError as error:
        raise UnreadableDocument(f"{header.kind}: {error}") from error


def _decode_in_steps(data: bytes) -> Document:
    """Decode a large catalog tool by tool: one call for all of it would keep the interpreter from other threads, and so
    the event loop, for tens of milliseconds. Raises msgspec.MsgspecError.
    """
    members = _members(data)
    raw = _items(members.pop("tools", Raw(b"[]")))
    catalog = _document.decode(_encode(members))
    try:
        tools = [_tool(each) for each in raw]
    except msgspec.MsgspecError:
        return _document.decode(data)  # whose error names the tool
    return msgspec.structs.replace(catalog, tools=tuple(tools))


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
