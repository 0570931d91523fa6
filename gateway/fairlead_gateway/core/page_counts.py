"""Counters of the console's pages. Pure module."""

from __future__ import annotations

from typing import NamedTuple


class PageCount(NamedTuple):
    """Responses of one page with one status since the start of the gateway."""

    views: int = 0
    nanoseconds: int = 0
    """Sum of the durations from the admission of a request to the end of its response."""


_NONE = PageCount()


class PageCounts:
    """Counters of one gateway. Callers have to limit the number of different page names, each of which takes memory."""

    def __init__(self) -> None:
        self.by_page: dict[tuple[str, int], PageCount] = {}
        """Counters by page and HTTP status."""

    def count_view(self, page: str, status: int, nanoseconds: int) -> None:
        """Count a response; `page` is a name of the console's pages, or `other`."""
        count = self.by_page.get((page, status), _NONE)
        self.by_page[page, status] = PageCount(count.views + 1, count.nanoseconds + nanoseconds)
