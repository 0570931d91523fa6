"""Request and response types of pages on the operations port; `endpoint.page_server` serves them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

import msgspec

TEXT: Final = "text/plain; charset=utf-8"


class PageRequest(msgspec.Struct, frozen=True):
    """Request for a page, without its body."""

    path: str
    query: Mapping[str, str]
    """Decoded query parameters; of a repeated parameter, the last value."""
    headers: Mapping[bytes, bytes]
    """Headers by lower-case name; values of a repeated header are joined by commas."""
    address: str
    """IP address of the client; empty if it has none."""


class PageResponse(msgspec.Struct, frozen=True):
    """Response of a page."""

    body: bytes
    status: int = 200
    media_type: str = TEXT
    header_lines: bytes = b""
    """Additional header lines, each with its line break."""


Page: TypeAlias = Callable[[PageRequest], Awaitable[PageResponse]]


def failure(status: int, sentence: str, header_lines: bytes = b"") -> PageResponse:
    """Create an error response whose body is one sentence."""
    return PageResponse(f"{sentence}\n".encode(), status, header_lines=header_lines)
