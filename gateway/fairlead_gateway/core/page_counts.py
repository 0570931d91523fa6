"""Counts of the console's pages. Pure module."""

from __future__ import annotations

from typing import NamedTuple


class PageCount(NamedTuple):
    """Answers about one page with one status, since the start of the gateway."""

    views: int = 0
    nanoseconds: int = 0
    """From the admitted request to the end of its answer, summed."""


_NONE = PageCount()


class PageCounts:
    """Counts of one gateway. Callers bound the names of pages."""

    def __init__(self) -> None:
        self.by_page: dict[tuple[str, int], PageCount] = {}
        """By page and HTTP status."""

    def count_view(self, page: str, status: int, nanoseconds: int) -> None:
        """Count an answer; `page` is one of the console's own, or `other`."""
        before = self.by_page.get((page, status), _NONE)
        self.by_page[page, status] = PageCount(before.views + 1, before.nanoseconds + nanoseconds)
