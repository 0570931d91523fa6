"""Lines, logs and exits of child processes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_mcp.errors import TooLarge
from fairlead_mcp.stdio import ChildSpec, LineBuffer, StderrTail, describe_exit, printable


@pytest.mark.parametrize(
    ("chunks", "lines"),
    [
        ([b"a\nb\n"], [b"a", b"b"]),
        ([b"a", b"b", b"\nc"], [b"ab"]),
        ([b"a\r\n\r\n\n b \n"], [b"a", b"b"]),
        ([b"", b"\n"], []),
    ],
)
def test_lines_come_out_whole_and_blank_ones_not_at_all(chunks: list[bytes], lines: list[bytes]) -> None:
    buffer = LineBuffer()
    assert [line for chunk in chunks for line in buffer.feed(chunk)] == lines


@given(st.binary(max_size=40).map(lambda data: data.replace(b"x", b"\n")), st.integers(1, 7))
def test_how_the_output_is_cut_makes_no_difference(data: bytes, size: int) -> None:
    whole, cut = LineBuffer(), LineBuffer()
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    assert [line for piece in pieces for line in cut.feed(piece)] == (whole.feed(data) if data else [])


@pytest.mark.parametrize("chunks", [[b"x" * 11], [b"x" * 6, b"x" * 5], [b"x" * 6, b"x" * 5 + b"\n"]])
def test_a_line_beyond_the_bound_is_refused_as_soon_as_it_is_seen(chunks: list[bytes]) -> None:
    buffer = LineBuffer(limit=10)
    *first, last = chunks
    for chunk in first:
        buffer.feed(chunk)
    with pytest.raises(TooLarge):
        buffer.feed(last)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b"\x1b[1;31merror\x1b[0m: no", "error: no"),
        (b"\x1b]0;title\x07x", "x"),
        (b"a\tb\x00c\xff", "a b c\ufffd"),
        ("größe".encode(), "größe"),
        (b"x" * 5000, "x" * 1000),
    ],
)
def test_a_logged_line_is_fit_for_a_terminal(line: bytes, text: str) -> None:
    assert printable(line) == text


@pytest.mark.parametrize(
    ("code", "text"),
    [(0, "exited with code 0"), (-9, "was killed by SIGKILL"), (-99, "was killed by signal 99"), (None, "ended")],
)
def test_an_exit_is_described(code: int | None, text: str) -> None:
    assert describe_exit(code) == text


def test_the_tail_of_a_log_is_bounded() -> None:
    tail = StderrTail(lines=2)
    for line in "abc":
        tail.add(line)
    assert tail.lines() == ("b", "c")


def test_equal_specs_are_equal_whatever_the_order_of_their_variables() -> None:
    assert ChildSpec.of("x", ["a"], {"A": "1", "B": "2"}) == ChildSpec.of("x", ("a",), {"B": "2", "A": "1"})
    assert ChildSpec.of("x", env={"A": "1"}) != ChildSpec.of("x", env={"A": "2"})
