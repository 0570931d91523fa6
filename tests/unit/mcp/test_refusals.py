"""Output of programs that ended: frequent failures get advice."""

from __future__ import annotations

import pytest

from fairlead_mcp.refusals import advise, is_permanent, without_advice


@pytest.mark.parametrize(
    "words",
    [
        "AttributeError: 'Server' object has no attribute 'list_resources'",
        "ImportError: cannot import name 'FastMCP' from 'mcp.server' (/x/mcp/server/__init__.py)",
        "ModuleNotFoundError: No module named 'mcp.server.fastmcp'",
    ],
)
def test_a_server_that_was_written_for_an_older_mcp_is_told_with_the_way_to_run_it(words: str) -> None:
    assert advise(words).startswith(f"{words}; the server needs version 1 of the Python package mcp")
    assert "--with 'mcp<2'" in advise(words)
    assert "elsewhere, install 'mcp<2'" in advise(words), "the command may be another than uvx"
    assert is_permanent(words)


def test_a_program_that_prints_its_usage_alone_is_not_tried_again_soon() -> None:
    assert is_permanent("Usage: notes-mcp <folder> [folder ...]")
    assert not is_permanent("Memory usage: 99 %")


def test_words_for_the_authors_of_a_server_are_left_out() -> None:
    cause = "ModuleNotFoundError: No module named 'mcp.server.fastmcp'"
    words = f"{cause}. This is mcp 2.x, where FastMCP was renamed to MCPServer; see the migration guide at https://x/"
    assert without_advice(words) == cause
    assert without_advice("This is mcp 2.x") == "This is mcp 2.x"


@pytest.mark.parametrize(
    "words", ["ModuleNotFoundError: No module named 'mcpx'", "KeyError: 'mcp'", "MAIL_TOKEN is not set"]
)
def test_other_words_of_a_program_stay_as_they_are(words: str) -> None:
    assert advise(words) == words


@pytest.mark.parametrize(
    "words",
    [
        "npm error 404  'x@*' is not in this registry.",
        "The requested resource '@scope/x@*' could not be found or you do not have permission to access it.",
        "ImportError: cannot import name 'tool' from 'shop' (/x/shop.py)",
    ],
)
def test_a_package_or_name_that_does_not_exist_is_not_tried_again_soon(words: str) -> None:
    assert is_permanent(words)


@pytest.mark.parametrize("words", ["connect ECONNREFUSED 127.0.0.1:5432", "Error: PETS_KEY is required"])
def test_failures_that_may_pass_by_themselves_are_not_permanent(words: str) -> None:
    assert not is_permanent(words)


def test_a_server_for_a_newer_python_is_told_with_the_option_of_uvx() -> None:
    words = "Because the current Python version (3.11.7) does not satisfy Python>=3.12 and all of x depend on it"
    advice = "; with uvx, put --python 3.12 in front of the server's name"
    assert without_advice(words) == words.removesuffix(" and all of x depend on it")
    assert advise(without_advice(words)) == without_advice(words) + advice


def test_a_python_that_uv_cannot_download_is_told_with_the_ways_out() -> None:
    words = (
        "Failed to download `https://github.com/astral-sh/python-build-standalone/releases/download/20261110/cpython-3.12"
        ".16.tar.gz`: failed to lookup address information: Name or service not known"
    )
    assert advise(words).endswith("; uv cannot download this Python: check the network, or install it yourself")
    assert not is_permanent(words)


def test_an_index_that_uv_cannot_reach_is_told_with_the_way_to_start_from_the_cache() -> None:
    words = "Failed to fetch: `https://index.example/simple/a-server/`: dns error"
    assert "UV_OFFLINE=true in env starts it without the network" in advise(words)
    assert not is_permanent(words)


def test_a_node_that_lacks_a_module_is_told_to_be_too_old() -> None:
    words = "Error [ERR_UNKNOWN_BUILTIN_MODULE]: No such built-in module: node:sqlite"
    assert advise(words) == f"{words}; the server needs a newer Node.js than the one in its PATH"
    assert is_permanent(words)
