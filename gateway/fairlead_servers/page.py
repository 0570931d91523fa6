"""Response to a request for a web page, as the fetcher received it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Page:
    """Response whose body is either complete or truncated at the size limit."""

    url: str
    """URL after all redirects."""
    status: int
    media_type: str
    charset: str | None
    """`charset` of the Content-Type. It is untrusted, and must not be looked up among Python's codecs."""
    body: bytes
    cut: bool
    """Whether the body was truncated at the size limit."""
