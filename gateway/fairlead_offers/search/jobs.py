"""Searches and embeds tools: functions from bytes, so that another process can do them. Pure module."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from fairlead_offers.job import Job
from fairlead_search.catalogs import (
    IndexedCatalogs,
    NewVectors,
    SearchRequest,
    SearchResult,
    StoredRequest,
    StoredVectors,
)
from fairlead_search.embedding import Embedded, EmbedRequest
from fairlead_search.embedding import embed as embed_texts


def search(work: bytes, *, disk: bool = True) -> SearchResult:
    """`SearchRequest` to what was found. The tools of a search stay in the process, for the next one. Without `disk`
    its folder is left alone.
    """
    request = _decode_search(work)
    return _CATALOGS.search(request if disk else msgspec.structs.replace(request, folder=""))


def take_vectors(work: bytes) -> int:
    """`NewVectors` of tools that are searched, now or soon, to how many there are."""
    return _CATALOGS.put(msgspec.json.decode(work, type=NewVectors))


def stored_vectors(work: bytes) -> StoredVectors:
    """`StoredRequest` to the vectors that were kept through a restart."""
    return _CATALOGS.read_stored(msgspec.json.decode(work, type=StoredRequest))


def embed(work: bytes) -> Embedded:
    """`EmbedRequest` to vectors."""
    request = msgspec.json.decode(work, type=EmbedRequest)
    if request.config is None:
        return embed_texts(request.texts)
    from fairlead_offers.search import embeddings_api  # with the HTTP client, which takes a third of a second to load

    return asyncio.run(embeddings_api.embed_texts(request))


_CATALOGS: Final = IndexedCatalogs()
_decode_search: Final = msgspec.json.Decoder(SearchRequest).decode
SEARCH: Final = Job[SearchResult]("search", SearchResult)
VECTORS: Final = Job[int]("vectors", int)
STORED: Final = Job[StoredVectors]("stored", StoredVectors)
EMBED: Final = Job[Embedded]("embed", Embedded)
