"""Classification of the messages of programs that failed to start: repeated and permanent failures. No I/O."""

from __future__ import annotations

import re
from typing import Final

_PERMANENT: Final = re.compile(
    "|".join(
        (
            # missing modules and packages
            r"No module named ",
            r"Cannot find (?:module|package) ",
            r"cannot import name '",
            r"is not in this registry",
            r"could not be found or you do not have permission to access it",
            r"No matching version found for ",
            r"was not found in the package registry",
            r"could not determine executable to run",
            r"An executable named \S+ is not provided by package",
            r"does not provide any executables",
            r"can't open file .*No such file",
            # wrong version of Python or Node.js
            r"does not satisfy Python ?[<>=!~]",
            r"No interpreter found for Python",
            r"requires a different Python",
            r"Unsupported engine|EBADENGINE",
            r"No such built-in module: node:",
            # flags and arguments: argparse, click, commander, yargs, clap, Go
            r"the following arguments are required",
            r"unrecognized arguments?\b",
            r"Missing (?:option|argument|required argument)",
            r"No such option",
            r"unknown (?:shorthand )?(?:option|flag)\b",
            r"unexpected argument '",
            r"required option '.*' not specified",
            r"flag provided but not defined",
            r"bad option: ",
            r"^\s*usage:\s+\S",
        )
    ),
    re.IGNORECASE,
)
_OLDER_MCP: Final = re.compile(
    r"No module named 'mcp\.|cannot import name '\w+' from 'mcp\b|'(?:Server|FastMCP)' object has no attribute '"
)
"""Python's errors when a server for version 1 of the package `mcp` runs with version 2 or later."""
_MIGRATION: Final = ". This is mcp 2.x"
"""Begin of the part of such an error that is for the server's authors."""
_LOWEST_PYTHON: Final = re.compile(r"current Python version \([\d.]+\) does not satisfy Python ?>=(\d+\.\d+)")
"""uv's error when the interpreter that it has found is older than the package allows. Group 1: the lowest version."""
_MISSING_BUILTIN: Final = re.compile(r"No such built-in module: node:", re.IGNORECASE)
"""Error of a Node.js that is older than a module of its own, such as `node:sqlite`, which came with version 22.5."""
_UNREACHED_PYPI: Final = re.compile(r"Failed to fetch: `?https?://\S+/simple/")
"""uv's error when an index cannot be reached. uv asks the index also where the package is in its cache."""
_UNREACHED_PYTHON: Final = re.compile(r"Failed to download `?https?://\S+/python-build-standalone/")
"""uv's error when it cannot fetch the interpreter that `--python` or the package asks for."""
_NUMBER: Final = re.compile(r"[0-9a-f]*[0-9][0-9a-f]*", re.IGNORECASE)
"""Matches numbers, also hexadecimal, such as ports, process IDs and times."""


def without_numbers(text: str) -> str:
    """Replace each number in a text by `#`."""
    return _NUMBER.sub("#", text)


def is_same_failure(text: str, other: str) -> bool:
    """Whether two messages differ only in numbers, so that they report the same failure."""
    return without_numbers(text) == without_numbers(other)


def without_advice(output: str) -> str:
    """Remove advice after the cause of an error: the advice of the package `mcp` to the authors of a server for
    version 1 of `mcp`, and uv's list of the versions of a package that need a newer Python.
    """
    if lowest := _LOWEST_PYTHON.search(output):
        return output[: lowest.end()]
    return output.partition(_MIGRATION)[0] if _OLDER_MCP.search(output) else output


def is_permanent(output: str) -> bool:
    """Whether a start that failed with this output of uv, npx or the program would fail again.

    Failures of networks, quotas, locks and services that are still starting are not permanent.
    """
    return _PERMANENT.search(output) is not None or _OLDER_MCP.search(output) is not None


def advise(output: str) -> str:
    """Append advice to the last output of a program, if the failure is a frequent one."""
    advice = _advice_for(output)
    return output if advice is None else f"{output.rstrip('.:, ')}; {advice}"


def _advice_for(output: str) -> str | None:
    if _OLDER_MCP.search(output):
        return (
            "the server needs version 1 of the Python package mcp: with uvx, put --with 'mcp<2' in front of its name; "
            "elsewhere, install 'mcp<2' for it"
        )
    if lowest := _LOWEST_PYTHON.search(output):
        return f"with uvx, put --python {lowest[1]} in front of the server's name"
    if _MISSING_BUILTIN.search(output):
        return "the server needs a newer Node.js than the one in its PATH"
    if _UNREACHED_PYPI.search(output):
        return "where its package is in uv's cache, UV_OFFLINE=true in env starts it without the network"
    if _UNREACHED_PYTHON.search(output):
        return "uv cannot download this Python: check the network, or install it yourself"
    return None
