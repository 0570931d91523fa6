"""Tables of the screen of `fairlead top`, as Textual widgets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Generic

from rich.text import Text
from textual.widgets import DataTable

from fairlead_api.documents.servers import FAILED, OFFLINE, READY, SIGN_IN
from fairlead_cli.top.columns import TableLayout, TopColumn, layout_of
from fairlead_cli.top.rows import Row, WatchedRow, WatchedServerRow

MAX_ROWS: Final = 300
"""Maximum number of rows that are drawn. The title has the number of the other rows, which a filter can find."""
_CELL_PADDING: Final = 1
_SCROLL_BAR: Final = 2
_ERRORS: Final = frozenset({"ERR/MIN", "ERRORS"})
_STATES: Final = {FAILED: "bold red", OFFLINE: "bold yellow", SIGN_IN: "bold yellow", READY: ""}


class WatchedTable(DataTable[Text], Generic[Row]):
    """Table of servers or of tools, in the columns that fit the window. When the order changes, the cursor follows its
    row; a cursor in the first row stays at the top.
    """

    def __init__(self, kind: str, columns: Sequence[TopColumn[Row]]) -> None:
        super().__init__(id=kind, cursor_type="row", cell_padding=_CELL_PADDING)
        self._kind = kind
        self._all_columns = columns
        self._rows: tuple[Row, ...] = ()
        self._total = 0
        self._layout: TableLayout[Row] | None = None

    @property
    def current(self) -> Row | None:
        """The row at the cursor."""
        return self._rows[self.cursor_row] if 0 <= self.cursor_row < len(self._rows) else None

    def show(self, rows: Sequence[Row]) -> None:
        """Draw the rows in this order."""
        current, scroll = self.current, self.scroll_y
        self._rows = tuple(rows[:MAX_ROWS])
        self._total = len(rows)
        self._draw()
        names = [row.name for row in self._rows]
        if current is not None and self.cursor_row >= 0 and current.name in names and self._cursor_moved:
            self.move_cursor(row=names.index(current.name), animate=False, scroll=False)
        self.scroll_to(y=scroll, animate=False)

    def on_resize(self) -> None:
        """Choose the columns for the new width."""
        self.show(self._rows) if self._total <= MAX_ROWS else self._draw()

    def _draw(self) -> None:
        cursor = self.cursor_row
        self._cursor_moved = cursor > 0
        layout = layout_of(self._all_columns, self._available_width, [row.name for row in self._rows])
        self.clear(columns=layout != self._layout)
        if layout != self._layout:
            self._layout = layout
            self.add_column(Text(self._kind.upper().removesuffix("S")), width=layout.name_width)
            for column in layout.columns:
                heading = column.heading.rjust(column.width) if column.numeric else column.heading
                self.add_column(Text(heading), width=column.width)
        for row in self._rows:
            self.add_row(*_styled_cells(row, layout))
        self.move_cursor(row=cursor, animate=False, scroll=False)
        undrawn_count = self._total - len(self._rows)
        noun = self._kind if self._total != 1 else self._kind.removesuffix("s")
        self.border_title = f"{self._total:,} {noun}" + (
            f", {undrawn_count:,} of them not drawn: use /" if undrawn_count else ""
        )

    @property
    def _available_width(self) -> int:
        width = self.size.width or self.app.size.width
        return width - 2 * _CELL_PADDING - _SCROLL_BAR


def _styled_cells(row: Any, layout: TableLayout[Any]) -> list[Text]:
    """The cells of a row; errors are coloured, in addition to their text."""
    name, *others = layout.cells(row)
    cells = [Text(name)]
    for column, text in zip(layout.columns, others, strict=True):
        cells.append(Text(text, style=_style(row, column.heading)))
    return cells


def _style(row: WatchedRow, heading: str) -> str:
    if heading == "STATE" and isinstance(row, WatchedServerRow):
        return _STATES.get(row.state, "dim")
    if heading in _ERRORS:
        figures = row.figures
        value = figures.errors_per_minute if heading == "ERR/MIN" else figures.errors
        return "red" if value else ""
    return ""
