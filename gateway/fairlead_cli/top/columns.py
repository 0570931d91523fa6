"""Columns of the tables of `fairlead top`: formats their cells, and chooses the columns that fit the window. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic

from fairlead_api.load import DEFAULT_NAMESPACE
from fairlead_cli.output import printable
from fairlead_cli.top.rows import Row, WatchedServerRow, WatchedToolRow

UNKNOWN: Final = "-"
GAP: Final = 2
"""Spaces between two columns."""
MIN_NAME_WIDTH: Final = 14
"""Smallest width of the name column; columns are left out to keep it."""


@dataclass(frozen=True)
class TopColumn(Generic[Row]):
    """One column. A column of rank 0 is always shown. If the window is too narrow, the columns with the highest ranks
    are left out first.
    """

    heading: str
    width: int
    rank: int
    cell: Callable[[Row], str]
    numeric: bool = True


@dataclass(frozen=True)
class TableLayout(Generic[Row]):
    """Columns that fit the window, and the remaining width for the name, which is the first column."""

    name_width: int
    columns: tuple[TopColumn[Row], ...]

    def cells(self, row: Row) -> list[str]:
        """The cells of a row, padded to the widths of their columns."""
        cells = [shorten(short_name(row.name), self.name_width).ljust(self.name_width)]
        for column in self.columns:
            text = shorten(printable(column.cell(row)), column.width)
            cells.append(text.rjust(column.width) if column.numeric else text.ljust(column.width))
        return cells


def layout_of(columns: Sequence[TopColumn[Row]], width: int, names: Sequence[str]) -> TableLayout[Row]:
    """The layout for a window of `width` cells: the column of names gets the width that it needs, the other columns get
    the rest.
    """
    longest = max((len(short_name(name)) for name in names), default=0)
    name_width = max(MIN_NAME_WIDTH, min(longest, width // 2))
    fitting_columns = list(columns)
    while (
        fitting_columns
        and sum(column.width + GAP for column in fitting_columns) + name_width > width
        and max(column.rank for column in fitting_columns) > 0
    ):
        fitting_columns.remove(max(fitting_columns, key=lambda column: column.rank))
    name_room = width - sum(column.width + GAP for column in fitting_columns)
    return TableLayout(max(MIN_NAME_WIDTH, min(name_room, longest)), tuple(fitting_columns))


def short_name(name: str) -> str:
    """A server's or tool's name for people, without the default namespace."""
    return printable(name.removeprefix(f"{DEFAULT_NAMESPACE}/"))


def shorten(text: str, width: int) -> str:
    """The text shortened to `width` cells. Its end stays, because it distinguishes tools of one server."""
    if len(text) <= width:
        return text
    if width < 8:
        return text[: max(0, width - 1)] + "…"
    end = (width - 1) // 2
    return f"{text[: width - 1 - end]}…{text[-end:]}"


def per_minute(value: float | None) -> str:
    """A rate as text, with one decimal place below ten."""
    if value is None:
        return UNKNOWN
    return "0" if value == 0 else f"{value:.1f}" if value < 10 else f"{value:,.0f}"


def milliseconds(value: float | None) -> str:
    """A duration as `8.5 ms`, `812 ms` or `12.5 s`."""
    if value is None:
        return UNKNOWN
    if value >= 10_000:
        return f"{value / 1000:,.1f} s"
    return f"{value:.1f} ms" if value < 10 else f"{value:,.0f} ms"


def count(value: int | None) -> str:
    """A number with thousands separators."""
    return UNKNOWN if value is None else f"{value:,}"


SERVER_COLUMNS: Final[tuple[TopColumn[WatchedServerRow], ...]] = (
    TopColumn("STATE", 10, 0, lambda row: row.state, numeric=False),
    TopColumn("CALLS/MIN", 9, 1, lambda row: per_minute(row.figures.calls_per_minute)),
    TopColumn("ERR/MIN", 7, 2, lambda row: per_minute(row.figures.errors_per_minute)),
    TopColumn("P50", 8, 6, lambda row: milliseconds(row.figures.p50_ms)),
    TopColumn("P95", 8, 3, lambda row: milliseconds(row.figures.p95_ms)),
    TopColumn("RESTARTS", 8, 5, lambda row: count(row.restarts)),
    TopColumn("TOOLS", 5, 7, lambda row: count(row.tools)),
    TopColumn("WHY", 18, 4, lambda row: row.cause, numeric=False),
)
TOOL_COLUMNS: Final[tuple[TopColumn[WatchedToolRow], ...]] = (
    TopColumn("TIER", 10, 4, lambda row: row.tier or UNKNOWN, numeric=False),
    TopColumn("CALLS/MIN", 9, 0, lambda row: per_minute(row.figures.calls_per_minute)),
    TopColumn("ERR/MIN", 7, 1, lambda row: per_minute(row.figures.errors_per_minute)),
    TopColumn("P50", 8, 3, lambda row: milliseconds(row.figures.p50_ms)),
    TopColumn("P95", 8, 2, lambda row: milliseconds(row.figures.p95_ms)),
    TopColumn("CALLS", 7, 5, lambda row: count(row.figures.calls)),
    TopColumn("ERRORS", 7, 6, lambda row: count(row.figures.errors)),
)
