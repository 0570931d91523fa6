"""Work on documents runs in a thread or on the event loop, depending on their size."""

from __future__ import annotations

import threading

import msgspec
from msgspec import Raw

from fairlead_mcp.server_listing import PackedListing, RawListing
from fairlead_operator.off_loop import LARGE_BYTES, off_loop, pack_listing, unpack_listing


async def test_large_documents_are_worked_on_in_a_thread_and_small_ones_are_not() -> None:
    assert await off_loop(LARGE_BYTES, threading.get_ident) != threading.get_ident()
    assert await off_loop(LARGE_BYTES - 1, threading.get_ident) == threading.get_ident()


async def test_listings_of_any_size_are_packed_and_unpacked_without_a_change() -> None:
    for length in (1, LARGE_BYTES):
        definition = Raw(msgspec.json.encode({"name": "x" * length}))
        listing = RawListing(
            protocol_version="2026-07-28", server_info=Raw(b"{}"), capabilities=Raw(b"{}"), tools=(definition,)
        )
        packed_listing = await pack_listing(listing)
        assert packed_listing == PackedListing.of(listing)
        assert msgspec.json.encode(await unpack_listing(packed_listing)) == msgspec.json.encode(listing)
