"""Long lists in parts: one answer stays small, whatever the catalog holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import msgspec
from fastapi import Request

Item = TypeVar("Item")


class ListPart(msgspec.Struct, Generic[Item], frozen=True):
    """One part of a list."""

    items: Sequence[Item]
    total: int
    number: int
    """From 1."""
    parts: int
    link: Callable[[int], str]
    """Address of another part."""


def part_of(items: Sequence[Item], request: Request, each: int) -> ListPart[Item]:
    """The part that the parameter `page` asks for, of `each` items; the last one for any that is too high."""
    parts = max(1, -(-len(items) // each))
    page_number = request.query_params.get("page", "1")
    number = min(max(1, int(page_number)), parts) if page_number.isdecimal() and len(page_number) < 9 else 1

    def link(other: int) -> str:
        return f"?{request.url.include_query_params(page=other).query}"

    return ListPart(items[(number - 1) * each : number * each], len(items), number, parts, link)
