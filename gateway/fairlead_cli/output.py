"""Output of commands: tables for people, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any, Final

MAX_NAMED: Final = 8
"""Maximum number of names in a sentence; further names are counted."""


class Output(StrEnum):
    """Values of `--output`."""

    table = "table"
    json = "json"


def print_json(value: Any) -> None:
    """Print one JSON value, indented, on standard output."""
    json.dump(value, sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print columns without borders. In a pipe, nothing is truncated or coloured."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold", expand=False)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    console = Console() if sys.stdout.isatty() else Console(width=10_000)
    with console.capture() as capture:  # if rich wrote to a closed pipe, it would end the process
        console.print(table)
    sys.stdout.write(capture.get())


def remark(verb: str, text: str) -> None:
    """Print a line on standard error that is not a failure."""
    from fairlead_cli.wording import ready_to_paste

    sys.stdout.flush()
    print(f"fairlead {verb}: {ready_to_paste(printable(text))}", file=sys.stderr)


def printable(text: str) -> str:
    """`text` of a foreign server without control characters."""
    return "".join(char if char.isprintable() or char == "\t" else " " for char in text)


def duration(value: float | None, otherwise: str = "unknown") -> str:
    """A duration as `8.5 ms` or `812 ms`; `otherwise` for None."""
    return otherwise if value is None else f"{value:.0f} ms" if value >= 10 else f"{value:.1f} ms"


def first_line(text: str, limit: int = 100) -> str:
    """The first line of a description, at most `limit` characters."""
    line = text.strip().partition("\n")[0].strip()
    return line if len(line) <= limit else f"{line[: limit - 1].rstrip()}…"


def some_names(names: Iterable[str]) -> str:
    """The first names, and the number of further names: `a, b and 3 more`."""
    all_names = list(names)
    rest_count = len(all_names) - MAX_NAMED
    return ", ".join(all_names[:MAX_NAMED]) + (f" and {rest_count} more" if rest_count > 0 else "")
