"""Failures of a start that come again: in the same words, or until somebody changes the command, the package or the
machine. Pure module.
"""

from __future__ import annotations

import re
from typing import Final

_PERMANENT: Final = re.compile(
    "|".join(
        (
            # a module or package that is missing
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
            # another version of Python or Node.js
            r"does not satisfy Python ?[<>=!~]",
            r"No interpreter found for Python",
            r"requires a different Python",
            r"Unsupported engine|EBADENGINE",
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
        )
    ),
    re.IGNORECASE,
)
_OLDER_MCP: Final = re.compile(
    r"No module named 'mcp\.|cannot import name '\w+' from 'mcp\b|'(?:Server|FastMCP)' object has no attribute '"
)
"""Words of Python about a server that was written for version 1 of the package `mcp`, under version 2 or newer."""
_NUMBER: Final = re.compile(r"[0-9a-f]*[0-9][0-9a-f]*", re.IGNORECASE)
"""Numbers, also hexadecimal: ports, process ids and times, in which two messages about one failure differ."""


def without_numbers(text: str) -> str:
    """The text with `#` for each number."""
    return _NUMBER.sub("#", text)


def alike(text: str, other: str) -> bool:
    """Whether two messages differ in numbers alone."""
    return without_numbers(text) == without_numbers(other)


def is_permanent(words: str) -> bool:
    """Whether a start that failed with these words of uv, npx or the program itself would fail again.

    Network, quotas, locks and services that are not up yet pass by themselves and are none of it.
    """
    return _PERMANENT.search(words) is not None or _OLDER_MCP.search(words) is not None


def advise(words: str) -> str:
    """Words of a program that ended, with what to do about them where many programs fail so."""
    if _OLDER_MCP.search(words) is None:
        return words
    advice = "it was written for version 1 of the Python package mcp: with uvx, put --with 'mcp<2' in front of its name"
    return f"{words.rstrip('.')}; {advice}"
