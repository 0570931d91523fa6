"""Reading of request bodies of the REST API."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.requests import Request

from fairlead_offers.documents import decode
from fairlead_web.bodies import read_pieces


def post(*pieces: bytes) -> Request:
    left = [*pieces]

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

    scope = {"type": "http", "method": "POST", "headers": [(b"content-type", b"application/json")]}
    return Request(scope, receive)


@pytest.mark.parametrize("pieces", [(b'\xef\xbb\xbf{"a":1}',), (b'\xef\xbb\xbf{"a"', b":1}"), (b'{"a":1}',)])
async def test_a_byte_order_mark_in_front_of_a_body_is_left_out(pieces: tuple[bytes, ...]) -> None:
    body = b"".join(await read_pieces(post(*pieces), 100))
    assert decode(body, dict[str, int]) == {"a": 1}
