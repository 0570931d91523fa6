"""Joining of list pages, within limits."""

from __future__ import annotations

import pytest
from msgspec import Raw

from fairlead_mcp.errors import BadListing, NotMcp
from fairlead_mcp.session import Listing, ListingBounds


def test_items_come_back_byte_for_byte_in_the_order_of_the_pages() -> None:
    listing = Listing("tools/list", ListingBounds())
    first = b'{"name":"a",  "x-new":{"z":1,"a":1.0}}'
    assert listing.add(Raw(b'{"nextCursor":"2","tools":[' + first + b"]}")) == "2"
    assert listing.add(Raw(b'{"tools":[{"name":"b"}],"nextCursor":null}')) is None
    assert [bytes(item) for item in listing.items] == [first, b'{"name":"b"}']


def test_an_empty_cursor_is_a_cursor() -> None:
    listing = Listing("prompts/list", ListingBounds())
    assert listing.add(Raw(b'{"prompts":[],"nextCursor":""}')) == ""


def read_all(listing: Listing, cursors: list[str]) -> None:
    for number, cursor in enumerate(cursors):
        listing.add(Raw(b'{"tools":[{"name":"%d"}],"nextCursor":"%b"}' % (number, cursor.encode())))


@pytest.mark.parametrize(
    ("pages", "bounds", "reason"),
    [
        (["a", "b", "c"], ListingBounds(pages=2), "TooManyPages"),
        (["a", "b", "c"], ListingBounds(items=2), "TooManyItems"),
        (["a"], ListingBounds(size=20), "ListingTooLarge"),
    ],
)
def test_a_listing_without_an_end_is_refused(pages: list[str], bounds: ListingBounds, reason: str) -> None:
    listing = Listing("tools/list", bounds)
    with pytest.raises(BadListing) as caught:
        read_all(listing, pages)
    assert caught.value.reason == reason


@pytest.mark.parametrize("page", [b"[]", b'{"tools":{"a":1}}', b'{"tools":[}', b'{"tools":5}', b'{"prompts":[]}'])
def test_a_page_of_another_shape_is_not_mcp(page: bytes) -> None:
    with pytest.raises(NotMcp, match="tools/list"):
        Listing("tools/list", ListingBounds()).add(Raw(page))
