"""Requests and responses of the pages of the operations port, which `admin_server` serves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

import msgspec

TEXT: Final = "text/plain; charset=utf-8"


class PageRequest(msgspec.Struct, frozen=True):
    """A request for a page, of which the body does not count."""

    path: str
    query: Mapping[str, str]
    """Decoded; of a name that came twice the last value."""
    headers: Mapping[bytes, bytes]
    """By name in lower case; values of one that came twice are joined by commas."""
    address: str
    """IP address of the other side; empty where it has none."""


class PageResponse(msgspec.Struct, frozen=True):
    """The answer of a page."""

    body: bytes
    status: int = 200
    media_type: str = TEXT
    extra: bytes = b""
    """More header fields, whole lines."""


Page: TypeAlias = Callable[[PageRequest], Awaitable[PageResponse]]


def refusal(status: int, sentence: str, extra: bytes = b"") -> PageResponse:
    """A response that says no, in one sentence without its end."""
    return PageResponse(f"{sentence}\n".encode(), status, extra=extra)
