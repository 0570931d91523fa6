"""A response of the web, as it was sent."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Page:
    """A response whose body is whole, or cut at the bound."""

    url: str
    """Address after all redirects."""
    status: int
    media_type: str
    charset: str | None
    """`charset` of the Content-Type: any text, which is not to be looked up among Python's codecs."""
    body: bytes
    cut: bool
