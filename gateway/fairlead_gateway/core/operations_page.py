"""Requests and responses of the pages of the operations port, which `endpoint.page_server` serves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

import msgspec

TEXT: Final = "text/plain; charset=utf-8"


class PageRequest(msgspec.Struct, frozen=True):
    """A request for a page; its body is ignored."""

    path: str
    query: Mapping[str, str]
    """Decoded; of a name that came twice the last value."""
    headers: Mapping[bytes, bytes]
    """By name in lower case; values of one that came twice are joined by commas."""
    address: str
    """IP address of the client; empty where it has none."""


class PageResponse(msgspec.Struct, frozen=True):
    """The answer of a page."""

    body: bytes
    status: int = 200
    media_type: str = TEXT
    header_lines: bytes = b""
    """More header fields, each with its line break."""


Page: TypeAlias = Callable[[PageRequest], Awaitable[PageResponse]]


def failure(status: int, sentence: str, header_lines: bytes = b"") -> PageResponse:
    """A refusal, with a sentence that says why."""
    return PageResponse(f"{sentence}\n".encode(), status, header_lines=header_lines)
