"""Heads that were read before: taken for known only when the message can mean nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_mcp.http.heads import MAX_BYTES, KnownHead


def message(body: bytes = b"{}", *, length: str | None = None, more: str = "") -> bytes:
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length or len(body)}\r\n{more}Accept: */*\r\n\r\n"
    )
    return head.encode() + body


def known(first: bytes) -> KnownHead:
    head = KnownHead.of(first)
    assert head is not None
    return head


@pytest.mark.parametrize("body", [b"{}", b"", b'{"a":1}', b"x" * 9999, b"\r\n\r\n", message()])
def test_the_same_head_is_known_whatever_the_length_of_the_body(body: bytes) -> None:
    again = message(body)
    start = known(message()).body_start(again)
    assert start > 0
    assert again[start:] == body


@pytest.mark.parametrize(
    "again",
    [
        message().replace(b"localhost", b"evil.test"),
        message(more="X-More: 1\r\n"),
        message() + b"x",
        message()[:-1],
        message() + message(),
        message(length="02") + b"x",
        message(length="-2"),
        message(length="+2"),
        message(length=" 2"),
        message(length="2, 2"),
        message(length="2\r\nContent-Length: 2"),
        message(length="2\r\nTransfer-Encoding: chunked"),
        message(length="99999999999"),
        message()[:40],
        b"",
    ],
)
def test_anything_that_differs_is_left_to_the_parser(again: bytes) -> None:
    assert known(message()).body_start(again) == 0


@pytest.mark.parametrize(
    "first",
    [
        message(length="3"),
        message(length="2\r\nContent-Length: 2"),
        message(more="Transfer-Encoding: chunked\r\n"),
        message(more="Connection: close\r\n"),
        message(more="connection : close\r\n"),
        message(more="Expect: 100-continue\r\n"),
        message(more="Upgrade: h2c\r\n"),
        message(more=f"X-Long: {'x' * MAX_BYTES}\r\n"),
        message() + message(),
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"",
    ],
)
def test_a_head_that_says_more_of_its_framing_than_its_length_is_not_kept(first: bytes) -> None:
    assert KnownHead.of(first) is None


@given(st.binary(max_size=60), st.integers(0, 200))
def test_a_damaged_message_is_never_taken_for_a_whole_one(junk: bytes, at: int) -> None:
    first = message(b'{"id":1}')
    damaged = first[:at] + junk + first[at:]
    start = known(first).body_start(damaged)
    if start:
        head = damaged[:start]
        assert damaged.startswith(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: ")
        assert int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0]) == len(damaged) - start
