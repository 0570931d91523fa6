"""The cache of parsed heads: a cached head is used only for a message with the same meaning."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_mcp.http.heads import MAX_BYTES, CacheBudget, KnownHead, NamedHead


def message(body: bytes = b"{}", *, length: str | None = None, more: str = "") -> bytes:
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length or len(body)}\r\n{more}Accept: */*\r\n\r\n"
    )
    return head.encode() + body


def memory() -> CacheBudget:
    return CacheBudget(1000, 1 << 20)


def known_head(first: bytes) -> KnownHead:
    head = KnownHead.of(first, memory())
    assert head is not None
    return head


@pytest.mark.parametrize("body", [b"{}", b"", b'{"a":1}', b"x" * 9999, b"\r\n\r\n", message()])
def test_the_same_head_is_known_whatever_the_length_of_the_body(body: bytes) -> None:
    again = message(body)
    start = known_head(message()).body_start(again)
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
def test_heads_that_differ_are_left_to_the_parser(again: bytes) -> None:
    assert known_head(message()).body_start(again) == 0


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
    assert KnownHead.of(first, memory()) is None


@given(st.binary(max_size=60), st.integers(0, 200))
def test_a_damaged_message_is_never_taken_for_a_whole_one(junk: bytes, at: int) -> None:
    first = message(b'{"id":1}')
    damaged = first[:at] + junk + first[at:]
    start = known_head(first).body_start(damaged)
    if start:
        head = damaged[:start]
        assert damaged.startswith(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: ")
        assert int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0]) == len(damaged) - start


def make_head(name: str = "a__b", *, body: bytes = b"{}", order: int = 0, more: str = "", length: str = "") -> bytes:
    fields = [f"Content-Length: {length or len(body)}", f"Mcp-Name: {name}", "Accept: */*"]
    fields = fields[order:] + fields[:order]
    return ("POST /mcp HTTP/1.1\r\nHost: localhost\r\n" + "\r\n".join(fields) + f"\r\n{more}\r\n").encode() + body


def read(first: bytes, again: bytes) -> tuple[int, bytes] | None:
    assert KnownHead.of(first, memory()) is not None
    head = NamedHead.of(first, memory())
    assert head is not None
    return head.read(again, {})


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize(("name", "body"), [("a__b", b"{}"), ("other", b'{"a":1}'), ("=?base64?w7w=?=", b"x" * 9999)])
def test_a_head_with_another_name_and_length_is_known(order: int, name: str, body: bytes) -> None:
    reading = read(make_head(order=order), again := make_head(name, body=body, order=order))
    assert reading is not None
    assert (again[reading[0] :], reading[1]) == (body, name.encode())


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize(
    "again",
    [
        {"name": ""},
        {"name": "two words"},
        {"name": "tab\t"},
        {"name": "x" * 300},
        {"name": "nul\0"},
        {"name": "ü"},
        {"name": "a\r\nMcp-Name: b"},
        {"name": "a\r\nTransfer-Encoding: chunked"},
        {"name": "a\nHost: evil.test"},
        {"length": "3"},
        {"length": "00000000002"},
        {"length": "-2"},
        {"length": "2\r\nContent-Length: 2"},
        {"more": "X-More: 1\r\n"},
    ],
)
def test_a_named_head_that_could_mean_something_else_is_left_to_the_parser(order: int, again: dict[str, Any]) -> None:
    assert read(make_head(order=order), make_head(**again, order=order)) is None


@pytest.mark.parametrize("first", [message(), make_head(more="Mcp-Name: c\r\n"), make_head("two words"), make_head("")])
def test_heads_without_one_plain_name_are_not_kept_by_name(first: bytes) -> None:
    assert NamedHead.of(first, memory()) is None


@given(st.lists(st.integers(0, 12_000), min_size=1, max_size=200))
def test_every_size_is_known_however_many_there_are(sizes: list[int]) -> None:
    head = known_head(message())
    for size in sizes:
        again = message(b"x" * size)
        assert again[head.body_start(again) :] == b"x" * size
        assert head.body_start(again + b"x") == 0


def test_every_name_is_known_however_many_there_are() -> None:
    head = NamedHead.of(make_head(), memory())
    assert head is not None
    for number in range(1000):
        reading = head.read(make_head(f"tool_{number}"), {})
        assert reading is not None
        assert reading[1] == b"tool_%d" % number
