"""Divides long lists into pages, which query parameters select."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import msgspec
from fastapi import Request

Item = TypeVar("Item")


class ListPart(msgspec.Struct, Generic[Item], frozen=True):
    """Page of a list."""

    items: Sequence[Item]
    total: int
    number: int
    """Number of the page, from 1."""
    parts: int
    link: Callable[[int], str]
    """Returns the URL of another page."""


def part_of(items: Sequence[Item], request: Request, page_size: int, parameter: str = "page") -> ListPart[Item]:
    """Return the page of `page_size` items that a query parameter selects, at most the last page."""
    parts = max(1, -(-len(items) // page_size))
    page_number = request.query_params.get(parameter, "1")
    number = min(max(1, int(page_number)), parts) if page_number.isdecimal() and len(page_number) < 9 else 1

    def link(other: int) -> str:
        return f"?{request.url.include_query_params(**{parameter: other}).query}"

    return ListPart(items[(number - 1) * page_size : number * page_size], len(items), number, parts, link)
