"""Three ways to show what `fairlead up` does: a live table, lines, and JSON lines.

All draw a `Board`; `refresh` is called after news, in the event loop, and must be quick.
"""

from __future__ import annotations

import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol, Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from fairlead_api.load import ManifestProblem
from fairlead_api.meta import ServerKey
from fairlead_cli.up.board import COMING, Board, Row, TierChange, plain_name
from fairlead_cli.up.clients import client_lines, model_lines
from fairlead_cli.up.layout import CONSOLE, ScreenView, ServerRow, screen
from fairlead_cli.up.repeats import Repeats, times
from fairlead_cli.up.terminal_keys import KEYS_HINT, TerminalKeys, never, open_top_on_key
from fairlead_cli.up.terminal_text import harmless
from fairlead_cli.wording import ready_to_paste
from fairlead_mcp.refusals import is_same_failure

NAMES_TOLD: Final = 6
"""Tools of a server that a line names; the others are counted."""


@dataclass(frozen=True)
class Addresses:
    """Where the gateway listens."""

    mcp: str
    metrics: str
    models: str = ""
    """Base URL for OpenAI's clients; empty without endpoints in front of models."""
    model: str = ""
    """Name of the model for such a client; empty where the client has to know one."""
    files: str = ""
    """Command that serves the servers of other clients' files; empty where some were given, or there are none."""
    console: str = ""
    """Console for browsers of this machine, with the token that lets them in; empty where it is off."""
    wants_key: bool = False
    """Whether clients are answered with a credential alone."""


class Display(Protocol):
    """Entered before anything is shown, left at the end."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def listening(self, addresses: Addresses) -> None:
        """Clients can connect from now on."""
        ...

    def refresh(self, board: Board) -> None:
        """Something on the board changed."""
        ...

    async def watch_keys(self) -> None:
        """Do what keys ask for, until cancelled; `listening` has been called."""
        ...

    def stopping(self) -> None:
        """The end has begun."""
        ...


class LiveTable:
    """For a terminal: drawn again after news, when a time moves on, and when the window changes its size."""

    def __init__(self, console: Console, keys: TerminalKeys | None = None) -> None:
        """`keys`: those of its terminal, where they can be read."""
        self.console = console
        self._keys = keys
        self._hint = "" if keys is None else KEYS_HINT
        self._suspended = False
        self._addresses: Addresses | None = None
        self._drawn: tuple[tuple[int, int], ScreenView] | None = None
        self._live = Live(console=console, auto_refresh=False, vertical_overflow="crop")

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()
        if self._keys is not None:
            self._keys.release()

    def listening(self, addresses: Addresses) -> None:
        self._addresses = addresses

    async def watch_keys(self) -> None:
        if self._keys is None or self._addresses is None:
            await never()
        else:
            await open_top_on_key(self._keys, self, self._addresses.mcp)

    def refresh(self, board: Board) -> None:
        """Draw what the window has room for; nothing where that is what it shows."""
        if self._suspended:
            return
        size, view = (self.console.width, self.console.height), view_of(board, self._addresses, self._hint)
        if (size, view) == self._drawn:
            return
        if self._drawn is not None and size != self._drawn[0]:
            self.console.clear()  # a terminal wraps the old lines again, and nobody knows how many they are now
        self._drawn = size, view
        lines = screen(view, size[0], size[1] - 1)  # the last line is the cursor's
        text = Text("\n").join(Text(line.text, style=line.style) for line in lines)
        text.no_wrap = True
        text.overflow = "ignore"
        self._live.update(text, refresh=True)

    def suspend(self) -> None:
        """Leave the terminal to another program; nothing is drawn or printed meanwhile."""
        self._suspended = self.console.quiet = True
        self._live.stop()

    def resume(self, *, clear: bool) -> None:
        """Draw again, from the next news on; `clear`: in a window without what is there."""
        self._suspended = self.console.quiet = False
        self._drawn = None
        if clear:
            self.console.clear()
        self._live.start()

    def stopping(self) -> None:
        self.console.print("Stopping; once more Ctrl-C does not wait for calls to end.", style="dim")


def view_of(board: Board, addresses: Addresses | None, hint: str = "") -> ScreenView:
    """Snapshot of a board for the screen, with a line about keys."""
    servers = tuple(
        ServerRow(
            row.name,
            row.state,
            ready_to_paste(row.short_message),
            row.tools,
            board.seconds(row.key) // 1
            if row.state in (*COMING, "installing")
            else 0.0,  # others look alike at all times
            board.restarts(row.key),
        )
        for row in board.rows
    )
    return ScreenView(
        mcp=addresses.mcp if addresses else "",
        metrics=addresses.metrics if addresses else "",
        clients=_client_lines(addresses) if addresses else (),
        servers=servers,
        problems=tuple(str(problem) for problem in board.problems if not problem.is_note),
        refused=board.refused,
        tier_changes=tuple(f"{plain_name(change.key)}: {change.text}" for change in board.tier_changes),
        earlier=board.earlier,
        hint=hint,
    )


class _Changes(ABC):
    """Lines below those printed so far: each change of the board is printed a single time."""

    def __init__(self) -> None:
        self._rows: dict[ServerKey, Row] = {}
        self._problems: dict[tuple[str, str, str], ManifestProblem] = {}
        self._last_change = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...  # noqa: B027 - nothing to end

    async def watch_keys(self) -> None:
        await never()

    def refresh(self, board: Board) -> None:
        rows = {row.key: row for row in board.rows}
        for key, row in rows.items():
            self._row(row, self._rows.get(key))
        for key in self._rows:
            if key not in rows:
                self._remove(key)
        for change in _unseen(board.tier_changes, self._last_change):
            self._last_change = change.number
            self._on_move(change)
        problems = {_wherever(problem): problem for problem in board.problems}
        for location, problem in problems.items():
            if location not in self._problems:
                self._problem(problem)
        for location, problem in sorted(self._problems.items()):
            if location not in problems:
                self._on_solved(problem)
        self._rows = rows
        self._problems = problems

    @abstractmethod
    def _row(self, row: Row, before: Row | None) -> None:
        """A server as it is now; it may be as before."""

    @abstractmethod
    def _remove(self, key: ServerKey) -> None: ...

    @abstractmethod
    def _on_move(self, change: TierChange) -> None: ...

    @abstractmethod
    def _problem(self, problem: ManifestProblem) -> None: ...

    def _on_solved(self, problem: ManifestProblem) -> None:  # noqa: B027 - programs see the servers that are there again
        """A problem is gone."""


class PlainLines(_Changes):
    """For a pipe, a log, or who prefers it: a line per change, with its time. What happens again and again is told ever
    more rarely, and a start that fails as the one before not at all.
    """

    def __init__(self, now: Callable[[], datetime] = datetime.now) -> None:
        super().__init__()
        self._now = now
        self._repeats = Repeats()
        self._shown: dict[ServerKey, Row] = {}
        """The last row of each server that is not starting."""

    def listening(self, addresses: Addresses) -> None:
        self._say(f"Serving MCP at {addresses.mcp} and metrics at {addresses.metrics}")
        for name, line in _client_lines(addresses):
            self._say(f"  {name + ':':<12} {line}")

    def stopping(self) -> None:
        self._say("Stopping")

    def _row(self, row: Row, before: Row | None) -> None:
        if before is not None and ((before.text, before.tools) == (row.text, row.tools) or _comes(row)):
            return  # where it is started again, what comes of that is told
        text = "starting" if _comes(row) else row.text
        if not _comes(row):
            last, self._shown[row.key] = self._shown.get(row.key), row
            if last is not None and last.state == row.state == "failed" and is_same_failure(last.text, row.text):
                return
        count = self._repeats.count(f"{row.key} {row.state} {row.cause}", f"{text} {' '.join(row.tools)}")
        if count:
            goes_on = before is not None and before.state == row.state != "failed"  # another step, or other tools
            self._say(
                f"{row.name}  {harmless(ready_to_paste(text))}{_some_tools(row)}{'' if goes_on else times(count)}"
            )

    def _remove(self, key: ServerKey) -> None:
        self._repeats.forget(f"{key} ")
        self._shown.pop(key, None)
        self._say(f"{plain_name(key)}  gone")

    def _on_move(self, change: TierChange) -> None:
        self._say(f"{plain_name(change.key)}  {harmless(change.text)}")

    def _problem(self, problem: ManifestProblem) -> None:
        self._say(f"{'note' if problem.is_note else 'problem'}: {harmless(str(problem))}")

    def _on_solved(self, problem: ManifestProblem) -> None:
        if not problem.is_note:
            self._say(f"solved: {harmless(str(problem))}")

    def _say(self, line: str) -> None:
        print(f"{self._now():%H:%M:%S}  {line}", flush=True)


class JsonChanges(_Changes):
    """For programs: one JSON object per line, `event` says which."""

    def listening(self, addresses: Addresses) -> None:
        models = {"models": addresses.models, "model": addresses.model} if addresses.models else {}
        console = {"console": addresses.console} if addresses.console else {}
        files = {"files": addresses.files} if addresses.files else {}
        self._emit("listening", url=addresses.mcp, metrics=addresses.metrics, **models, **console, **files)

    def stopping(self) -> None:
        self._emit("stopping")

    def _row(self, row: Row, before: Row | None) -> None:
        if row != before:
            told = {
                "state": row.state,
                "reason": row.reason,
                "cause": row.cause,
                "message": row.message,
                "tools": list(row.tools),
            }
            self._emit("server", server=str(row.key), **told)

    def _remove(self, key: ServerKey) -> None:
        self._emit("gone", server=str(key))

    def _on_move(self, change: TierChange) -> None:
        self._emit("moved", server=str(change.key), message=change.text)

    def _problem(self, problem: ManifestProblem) -> None:
        event = "note" if problem.is_note else "problem"
        self._emit(event, file=problem.file, line=problem.line, field=problem.field, message=problem.message)

    @staticmethod
    def _emit(event: str, **members: Any) -> None:
        sys.stdout.write(json.dumps({"event": event, **members}, ensure_ascii=False) + "\n")
        sys.stdout.flush()


def _client_lines(addresses: Addresses) -> tuple[tuple[str, str], ...]:
    console = ((CONSOLE, addresses.console),) if addresses.console else ()
    files = (("Your servers", addresses.files),) if addresses.files else ()
    clients = client_lines(addresses.mcp, wants_key=addresses.wants_key)
    return (
        *console,
        *clients,
        *model_lines(addresses.models, addresses.model),
        *files,
    )


def _wherever(problem: ManifestProblem) -> tuple[str, str, str]:
    """File, field (else line) and message: a problem of a field stays what it is where lines above it come and go."""
    return problem.file, problem.field or f"{problem.line}:{problem.column}", problem.message


def _comes(row: Row) -> bool:
    """Whether it starts, and there is nothing to say about that."""
    return row.state in COMING and not row.message


def _some_tools(row: Row) -> str:
    """Some of its tools."""
    if row.state != "ready" or not row.tools:
        return ""
    left = len(row.tools) - NAMES_TOLD
    more = f" and {left} more" if left > 0 else ""
    return f" ({', '.join(map(harmless, row.tools[:NAMES_TOLD]))}{more})"


def _unseen(changes: Sequence[TierChange], last: int) -> list[TierChange]:
    return [change for change in changes if change.number > last]
