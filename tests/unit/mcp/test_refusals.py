"""Words of programs that ended: what to do is said where many fail so."""

from __future__ import annotations

import pytest

from fairlead_mcp.refusals import advised


@pytest.mark.parametrize(
    "words",
    [
        "AttributeError: 'Server' object has no attribute 'list_resources'",
        "ImportError: cannot import name 'FastMCP' from 'mcp.server' (/x/mcp/server/__init__.py)",
        "ModuleNotFoundError: No module named 'mcp.server.fastmcp'",
    ],
)
def test_a_server_that_was_written_for_an_older_mcp_is_told_with_the_way_to_run_it(words: str) -> None:
    assert advised(words).startswith(f"{words}; it was written for version 1 of the Python package mcp")
    assert "--with 'mcp<2'" in advised(words)


@pytest.mark.parametrize(
    "words", ["ModuleNotFoundError: No module named 'mcpx'", "KeyError: 'mcp'", "MAIL_TOKEN is not set"]
)
def test_other_words_of_a_program_stay_as_they_are(words: str) -> None:
    assert advised(words) == words
