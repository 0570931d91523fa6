"""Three ways to show what `fairlead up` does: a live table, lines, and JSON lines.

All draw a `Board`; `refresh` is called after news, in the event loop, and must be quick.
"""

from __future__ import annotations

import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Protocol, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fairlead_api.load import Problem
from fairlead_api.meta import ServerKey
from fairlead_cli.output import printable
from fairlead_cli.up.board import Board, News, Row, State
from fairlead_cli.up.clients import client_lines

_LAST_NEWS: Final = 3
"""Under the live table."""
_STYLES: Final[dict[State, str]] = {
    "waiting": "dim",
    "installing": "cyan",
    "starting": "cyan",
    "ready": "green",
    "offline": "yellow",
    "failed": "red",
    "skipped": "dim",
}


@dataclass(frozen=True)
class Addresses:
    """Where the gateway listens."""

    mcp: str
    metrics: str


class Display(Protocol):
    """Entered before anything is shown, left at the end."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def listening(self, addresses: Addresses) -> None:
        """Clients can connect from now on."""
        ...

    def refresh(self, board: Board) -> None:
        """Something on the board changed."""
        ...

    def stopping(self) -> None:
        """The end has begun."""
        ...


class LiveTable:
    """For a terminal."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._addresses: Addresses | None = None
        self._live = Live(console=console, auto_refresh=False, vertical_overflow="ellipsis")

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def listening(self, addresses: Addresses) -> None:
        self._addresses = addresses

    def refresh(self, board: Board) -> None:
        """Every tool has a line of its own as long as the terminal has room for them."""
        parts: list[RenderableType] = [*_header(self._addresses)]
        lines = sum(max(1, len(row.tools)) for row in board.rows)
        below = [*_news_lines(board.news[-_LAST_NEWS:]), *_problem_lines(board.problems)]
        roomy = lines + len(parts) + len(below) + 4 <= self.console.height
        parts += [Padding(_table(board.rows, roomy=roomy), (1, 0, 0, 0)), *below]
        self._live.update(Group(*parts), refresh=True)

    def stopping(self) -> None:
        self.console.print("Stopping; once more Ctrl-C does not wait for calls to end.", style="dim")


class _Changes(ABC):
    """What goes on below what is there already: each change of the board is told once."""

    def __init__(self) -> None:
        self._rows: dict[ServerKey, Row] = {}
        self._problems: frozenset[Problem] = frozenset()
        self._news = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(  # noqa: B027 - nothing to end
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def refresh(self, board: Board) -> None:
        rows = {row.key: row for row in board.rows}
        for key, row in rows.items():
            self._row(row, self._rows.get(key))
        for key in self._rows:
            if key not in rows:
                self._gone(key)
        for news in _unseen(board.news, self._news):
            self._news = news.number
            self._moved(news)
        for problem in board.problems:
            if problem not in self._problems:
                self._problem(problem)
        self._rows, self._problems = rows, frozenset(board.problems)

    @abstractmethod
    def _row(self, row: Row, before: Row | None) -> None:
        """A server as it is now; it may be as before."""

    @abstractmethod
    def _gone(self, key: ServerKey) -> None: ...

    @abstractmethod
    def _moved(self, news: News) -> None: ...

    @abstractmethod
    def _problem(self, problem: Problem) -> None: ...


class Lines(_Changes):
    """For a pipe, a log, or who prefers it: a line per change."""

    def listening(self, addresses: Addresses) -> None:
        self._say(f"Serving MCP at {addresses.mcp} and metrics at {addresses.metrics}")
        for name, line in client_lines(addresses.mcp):
            self._say(f"  {name + ':':<13}{line}")

    def stopping(self) -> None:
        self._say("Stopping")

    def _row(self, row: Row, before: Row | None) -> None:
        if before is None or (before.text, before.tools) != (row.text, row.tools):
            self._say(f"{row.key}  {row.text}")
            if row.state == "ready" and row.tools:
                self._say(f"  {', '.join(row.tools)}")

    def _gone(self, key: ServerKey) -> None:
        self._say(f"{key}  gone")

    def _moved(self, news: News) -> None:
        self._say(f"{news.key}  {news.text}")

    def _problem(self, problem: Problem) -> None:
        self._say(f"problem: {problem}")

    @staticmethod
    def _say(line: str) -> None:
        print(printable(line), flush=True)


class JsonLines(_Changes):
    """For programs: one JSON object per line, `event` says which."""

    def listening(self, addresses: Addresses) -> None:
        self._emit("listening", url=addresses.mcp, metrics=addresses.metrics)

    def stopping(self) -> None:
        self._emit("stopping")

    def _row(self, row: Row, before: Row | None) -> None:
        if row != before:
            told = {"state": row.state, "reason": row.reason, "message": row.message, "tools": list(row.tools)}
            self._emit("server", server=str(row.key), **told)

    def _gone(self, key: ServerKey) -> None:
        self._emit("gone", server=str(key))

    def _moved(self, news: News) -> None:
        self._emit("moved", server=str(news.key), message=news.text)

    def _problem(self, problem: Problem) -> None:
        self._emit("problem", file=problem.file, line=problem.line, field=problem.field, message=problem.message)

    @staticmethod
    def _emit(event: str, **members: Any) -> None:
        sys.stdout.write(json.dumps({"event": event, **members}, ensure_ascii=False) + "\n")
        sys.stdout.flush()


def _header(addresses: Addresses | None) -> list[Text]:
    if addresses is None:
        return [Text("Starting …", style="dim")]
    lines = [Text.assemble("Serving MCP at ", (addresses.mcp, "bold"), (f"   metrics at {addresses.metrics}", "dim"))]
    for name, line in client_lines(addresses.mcp):
        lines.append(Text.assemble((f"  {name:<12}", "dim"), line, overflow="fold"))
    return lines


def _table(rows: list[Row], *, roomy: bool) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("SERVER", no_wrap=True)
    table.add_column("STATE", ratio=1, overflow="fold")
    table.add_column("TOOLS", ratio=1, overflow="fold")
    for row in rows:
        tools = ("\n" if roomy else ", ").join(row.tools)
        state = Text(printable(row.text), style=_STYLES[row.state])
        table.add_row(Text(str(row.key)), state, Text(tools))
    return table


def _unseen(news: Sequence[News], last: int) -> list[News]:
    return [one for one in news if one.number > last]


def _news_lines(news: Sequence[News]) -> list[Text]:
    return [Text(f"{one.key}: {printable(one.text)}", style="yellow") for one in news]


def _problem_lines(problems: tuple[Problem, ...]) -> list[Text]:
    return [Text(f"problem: {printable(str(problem))}", style="red") for problem in problems]
