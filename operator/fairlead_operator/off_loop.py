"""Runs work on large documents in a thread, so that the operator's event loop is not blocked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

from fairlead_mcp.server_listing import PackedListing, RawListing

P = ParamSpec("P")
T = TypeVar("T")

LARGE_BYTES: Final = 256 << 10
"""Document size in bytes from which compressing, hashing or decoding takes longer than switching to a thread."""


async def off_loop(size: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function that works on a document of `size` bytes, in a thread if the document is large."""
    if size < LARGE_BYTES:
        return function(*args, **kwargs)
    return await asyncio.to_thread(function, *args, **kwargs)


async def unpack_listing(listing: PackedListing) -> RawListing:
    """Unpack a listing, in a thread if it is large."""
    return await off_loop(len(listing.packed), listing.unpack)


async def pack_listing(listing: RawListing) -> PackedListing:
    """Pack a listing, in a thread if it is large."""
    size = sum(memoryview(tool).nbytes for tool in listing.tools)
    return await off_loop(size, PackedListing.of, listing)
