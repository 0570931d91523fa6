"""Lines, logs and exits of child processes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_mcp.errors import TooLarge
from fairlead_mcp.printed import printable
from fairlead_mcp.stdio import ChildSpec, LineBuffer, LogBuffer, describe_exit


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
def test_the_cuts_of_output_make_no_difference_to_its_lines(data: bytes, size: int) -> None:
    whole = LineBuffer()
    cut = LineBuffer()
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


@pytest.mark.parametrize(
    ("chunks", "lines"),
    [
        ([b"a\r\n\n  b \n"], [b"a", b"  b"]),
        ([b"  a", b"b", b"\nc"], [b"  ab"]),
        ([b"10 %\r50 %\rdone\n"], [b"done"]),
        ([b"x" * 9000, b"x" * 90, b"\nError: y\n"], [b"x" * 4000, b"Error: y"]),
        ([b"x" * 9000 + b"\nError: y\n"], [b"x" * 4000, b"Error: y"]),
    ],
)
def test_a_log_keeps_its_indentation_and_what_follows_a_line_of_any_length(
    chunks: list[bytes], lines: list[bytes]
) -> None:
    buffer = LogBuffer()
    assert [line for chunk in chunks for line in buffer.feed(chunk)] == lines


@pytest.mark.parametrize(
    "spec",
    [
        ChildSpec("npx", ("server",)),
        ChildSpec("/usr/bin/npx", ("-p", "x", "server")),
        ChildSpec("npm", ("exec", "server")),
        ChildSpec("sh", ("-c", "cd /srv && npx server")),
        ChildSpec("env", ("A=1", "npx", "server")),
    ],
)
def test_npx_installs_without_a_question_that_nobody_would_answer(spec: ChildSpec) -> None:
    assert spec.environment({"PATH": "/bin"}) == {
        "PATH": "/bin",
        "npm_config_yes": "true",
        "npm_config_logs_max": "200",
    }


def test_other_programs_get_no_settings_of_npm_and_what_the_spec_says_of_them_stays() -> None:
    assert ChildSpec("node", ("/srv/npx-server.js",)).environment({}) == {}
    for name in ("npm_config_yes", "NPM_CONFIG_YES"):
        own = {name: "false", "NPM_CONFIG_LOGS_MAX": "0"}
        assert ChildSpec.of("npx", ["server"], own).environment({}) == own


def test_equal_specs_are_equal_whatever_the_order_of_their_variables() -> None:
    assert ChildSpec.of("x", ["a"], {"A": "1", "B": "2"}) == ChildSpec.of("x", ("a",), {"B": "2", "A": "1"})
    assert ChildSpec.of("x", env={"A": "1"}) != ChildSpec.of("x", env={"A": "2"})
