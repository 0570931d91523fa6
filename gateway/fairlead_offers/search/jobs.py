"""Searches and embeds tools, by functions of bytes that a worker process can run."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from fairlead_offers.job import Job
from fairlead_search.embedding import EmbedRequest, EmbedResult
from fairlead_search.embedding import embed as embed_texts
from fairlead_search.index_cache import (
    IndexedCatalogs,
    NewVectors,
    SearchRequest,
    SearchResult,
    StoredRequest,
    StoredVectors,
)


def search(work: bytes, *, disk: bool = True) -> SearchResult:
    """Run an encoded `SearchRequest`. The process retains the request's tools for the next search. Without `disk`, the
    vectors in the request's folder are neither read nor written.
    """
    request = _decode_search(work)
    return _CATALOGS.search(request if disk else msgspec.structs.replace(request, folder=""))


def take_vectors(work: bytes) -> int:
    """Add encoded `NewVectors` of tools to the search index. Returns their number."""
    return _CATALOGS.put(msgspec.json.decode(work, type=NewVectors))


def stored_vectors(work: bytes) -> StoredVectors:
    """Read the vectors of an encoded `StoredRequest` that were stored before a restart."""
    return _CATALOGS.read_stored(msgspec.json.decode(work, type=StoredRequest))


def embed(work: bytes) -> EmbedResult:
    """Make the vectors of an encoded `EmbedRequest`."""
    request = msgspec.json.decode(work, type=EmbedRequest)
    if request.config is None:
        return embed_texts(request.texts)
    from fairlead_offers.search import embeddings_api  # imports the HTTP client, which takes a third of a second

    return asyncio.run(embeddings_api.embed_texts(request))


_CATALOGS: Final = IndexedCatalogs()
_decode_search: Final = msgspec.json.Decoder(SearchRequest).decode
SEARCH: Final = Job[SearchResult]("search", SearchResult)
VECTORS: Final = Job[int]("vectors", int)
STORED: Final = Job[StoredVectors]("stored", StoredVectors)
EMBED: Final = Job[EmbedResult]("embed", EmbedResult)
