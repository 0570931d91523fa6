"""Three displays of `fairlead up`: a live table, plain lines, and JSON lines.

Each display shows the states of servers on a `Board`. Its `refresh` runs in the event loop after every change of the
board, and must be quick.
"""

from __future__ import annotations

import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Protocol, Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from fairlead_api.load import ManifestProblem
from fairlead_api.meta import ServerKey
from fairlead_cli.up.board import STARTING_STATES, Board, Row, TierChange, plain_name
from fairlead_cli.up.clients import client_lines, keys_command, model_lines
from fairlead_cli.up.layout import CONSOLE, ScreenView, ServerRow, screen
from fairlead_cli.up.repeats import Repeats, times
from fairlead_cli.up.sign_in_keys import SignInKeys
from fairlead_cli.up.terminal_keys import KEYS_HINT, TerminalKeys, act_on_keys, wait_forever
from fairlead_cli.up.terminal_text import sanitize
from fairlead_cli.wording import ready_to_paste
from fairlead_mcp.refusals import is_same_failure

MAX_NAMES: Final = 6
"""Maximum number of tools of a server that a line names; further tools are counted."""


@dataclass(frozen=True)
class Addresses:
    """Where the gateway listens."""

    mcp: str
    metrics: str
    models: str = ""
    """Base URL for OpenAI's clients; empty without model endpoints."""
    model: str = ""
    """Name of the model for OpenAI's clients; empty if the client has to name a model itself."""
    client_files_command: str = ""
    """Command that serves the servers in the configuration files of MCP clients. Empty if paths were given, or if no
    such file was found.
    """
    console: str = ""
    """URL of the console, including the token for browsers of this machine unless the gateway wants keys; empty if the
    console is disabled.
    """
    wants_key: bool = False
    """Whether clients need a credential."""
    key_file: Path | None = None
    """File of the keys that clients may use; None if the gateway has no such file."""
    sign_in: str = ""
    """URL of the MCP endpoint at which people sign clients in; empty if they cannot."""


class Display(Protocol):
    """Display of a `fairlead up`, a context manager that is entered before the first output."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def show_addresses(self, addresses: Addresses) -> None:
        """Show where clients can connect, from now on."""
        ...

    def refresh(self, board: Board) -> None:
        """Show what changed on the board."""
        ...

    async def watch_keys(self, sign_in: SignInKeys) -> None:
        """Act on pressed keys until cancelled. `show_addresses` has been called before."""
        ...

    def show_stopping(self) -> None:
        """Show that the shutdown has begun."""
        ...


class LiveTable:
    """Live table for a terminal. It is redrawn after changes, when a duration advances, and when the window is
    resized.
    """

    def __init__(self, console: Console, keys: TerminalKeys | None = None) -> None:
        """`keys` reads the terminal's keys; None if they cannot be read."""
        self.console = console
        self._keys = keys
        self._sign_in: SignInKeys | None = None
        """Keys for signing in at servers; None while no keys are read."""
        self._suspended = False
        self._addresses: Addresses | None = None
        self._drawn_view: tuple[tuple[int, int], ScreenView] | None = None
        self._live = Live(console=console, auto_refresh=False, vertical_overflow="crop")

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()
        if self._keys is not None:
            self._keys.release()

    def show_addresses(self, addresses: Addresses) -> None:
        self._addresses = addresses

    async def watch_keys(self, sign_in: SignInKeys) -> None:
        if self._keys is None or self._addresses is None:
            await wait_forever()
        else:
            self._sign_in = sign_in
            await act_on_keys(self._keys, self, self._addresses.mcp, sign_in.press)

    def refresh(self, board: Board) -> None:
        """Draw as much as fits in the window, unless the window shows exactly that already."""
        if self._suspended:
            return
        size, view = (self.console.width, self.console.height), view_of(board, self._addresses, self._hint)
        if (size, view) == self._drawn_view:
            return
        if self._drawn_view is not None and size != self._drawn_view[0]:
            self.console.clear()  # the terminal rewrapped the old lines, so their number is unknown
        self._drawn_view = size, view
        lines = screen(view, size[0], size[1] - 1)  # the last line is the cursor's
        text = Text("\n").join(Text(line.text, style=line.style) for line in lines)
        text.no_wrap = True
        text.overflow = "ignore"
        self._live.update(text, refresh=True)

    @property
    def _hint(self) -> str:
        """Line about keys."""
        if self._keys is None:
            return ""
        sign_in = "" if self._sign_in is None else self._sign_in.hint
        return f"{sign_in}; {KEYS_HINT}" if sign_in else KEYS_HINT

    def suspend(self) -> None:
        """Leave the terminal to another program; until `resume`, nothing is drawn or printed."""
        self._suspended = self.console.quiet = True
        self._live.stop()

    def resume(self, *, clear: bool) -> None:
        """Draw again, from the next change on. `clear` empties the window first."""
        self._suspended = self.console.quiet = False
        self._drawn_view = None
        if clear:
            self.console.clear()
        self._live.start()

    def show_stopping(self) -> None:
        self.console.print("Stopping. Press Ctrl-C again to stop without waiting for calls to end.", style="dim")


def view_of(board: Board, addresses: Addresses | None, hint: str = "") -> ScreenView:
    """Snapshot of a board for the screen, with a line about keys."""
    servers = tuple(
        ServerRow(
            row.name,
            row.state,
            ready_to_paste(row.short_message),
            row.tools,
            board.seconds(row.key) // 1
            if row.state in (*STARTING_STATES, "installing")
            else 0.0,  # the other states show no duration
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
        refused_count=board.refused_count,
        tier_changes=tuple(f"{plain_name(change.key)}: {change.text}" for change in board.tier_changes),
        older_change_count=board.older_change_count,
        hint=hint,
    )


class _Changes(ABC):
    """Base of the displays that print one line per change of the board, each change a single time."""

    def __init__(self) -> None:
        self._rows: dict[ServerKey, Row] = {}
        self._problems: dict[tuple[str, str, str], ManifestProblem] = {}
        self._last_change = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...  # noqa: B027 - nothing to end

    async def watch_keys(self, sign_in: SignInKeys) -> None:
        await wait_forever()

    def refresh(self, board: Board) -> None:
        rows = {row.key: row for row in board.rows}
        for key, row in rows.items():
            self._row(row, self._rows.get(key))
        for key in self._rows:
            if key not in rows:
                self._remove(key)
        for change in _newer_than(board.tier_changes, self._last_change):
            self._last_change = change.number
            self._on_tier_change(change)
        problems = {_identify(problem): problem for problem in board.problems}
        for location, problem in problems.items():
            if location not in self._problems:
                self._problem(problem)
        for location, problem in sorted(self._problems.items()):
            if location not in problems:
                self._on_solved(problem)
        self._rows = rows
        self._problems = problems

    @abstractmethod
    def _row(self, row: Row, previous_row: Row | None) -> None:
        """Print a server's current state, if it differs from `previous_row`."""

    @abstractmethod
    def _remove(self, key: ServerKey) -> None: ...

    @abstractmethod
    def _on_tier_change(self, change: TierChange) -> None: ...

    @abstractmethod
    def _problem(self, problem: ManifestProblem) -> None: ...

    def _on_solved(self, problem: ManifestProblem) -> None:  # noqa: B027 - optional
        """Print that a problem is solved. JSON lines have no event for it: the events of the servers show it."""


class PlainLines(_Changes):
    """Plain text for pipes, logs and `--plain`: one line per change, with its time. A change that repeats is printed
    less and less often. A start that fails for the same reason as the start before is not printed.
    """

    def __init__(self, now: Callable[[], datetime] = datetime.now) -> None:
        super().__init__()
        self._now = now
        self._repeats = Repeats()
        self._shown_rows: dict[ServerKey, Row] = {}
        """For each server, its newest row whose state was not `starting`."""

    def show_addresses(self, addresses: Addresses) -> None:
        self._print(f"Serving MCP at {addresses.mcp} and metrics at {addresses.metrics}")
        for name, line in _client_lines(addresses):
            self._print(f"  {name + ':':<12} {line}")

    def show_stopping(self) -> None:
        self._print("Stopping")

    def _row(self, row: Row, previous_row: Row | None) -> None:
        if previous_row is not None and (
            (previous_row.text, previous_row.tools) == (row.text, row.tools) or _is_starting(row)
        ):
            return  # the outcome of a restart is printed, not the restart
        text = "starting" if _is_starting(row) else row.text
        if not _is_starting(row):
            shown_row, self._shown_rows[row.key] = self._shown_rows.get(row.key), row
            if shown_row is not None and _says_the_same(shown_row, row):
                return
            if shown_row is not None and {shown_row.state, row.state} == {"ready", "sign-in"}:
                self._repeats.forget(f"{row.key} {row.state}")  # the user did something in between
        count = self._repeats.count(f"{row.key} {row.state} {row.cause}", f"{text} {' '.join(row.tools)}")
        if count:
            # The state is the same, but its step or its tools changed: not a repetition
            is_progress = previous_row is not None and previous_row.state == row.state != "failed"
            suffix = "" if is_progress else times(count)
            self._print(f"{row.name}  {sanitize(ready_to_paste(text))}{_some_tools(row)}{suffix}")

    def _remove(self, key: ServerKey) -> None:
        self._repeats.forget(f"{key} ")
        self._shown_rows.pop(key, None)
        self._print(f"{plain_name(key)}  gone")

    def _on_tier_change(self, change: TierChange) -> None:
        self._print(f"{plain_name(change.key)}  {sanitize(change.text)}")

    def _problem(self, problem: ManifestProblem) -> None:
        self._print(f"{'note' if problem.is_note else 'problem'}: {sanitize(str(problem))}")

    def _on_solved(self, problem: ManifestProblem) -> None:
        if not problem.is_note:
            self._print(f"solved: {sanitize(str(problem))}")

    def _print(self, line: str) -> None:
        print(f"{self._now():%H:%M:%S}  {line}", flush=True)


class JsonChanges(_Changes):
    """JSON lines for programs. The member `event` names the kind of change."""

    def show_addresses(self, addresses: Addresses) -> None:
        models = {"models": addresses.models, "model": addresses.model} if addresses.models else {}
        console = {"console": addresses.console} if addresses.console else {}
        files = {"files": addresses.client_files_command} if addresses.client_files_command else {}
        self._emit("listening", url=addresses.mcp, metrics=addresses.metrics, **models, **console, **files)

    def show_stopping(self) -> None:
        self._emit("stopping")

    def _row(self, row: Row, previous_row: Row | None) -> None:
        if row != previous_row:
            members = {
                "state": row.state,
                "reason": row.reason,
                "cause": row.cause,
                "message": row.message,
                "tools": list(row.tools),
            }
            self._emit("server", server=str(row.key), **members)

    def _remove(self, key: ServerKey) -> None:
        self._emit("gone", server=str(key))

    def _on_tier_change(self, change: TierChange) -> None:
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
    files = (("Your servers", addresses.client_files_command),) if addresses.client_files_command else ()
    url, signs_in = addresses.sign_in or addresses.mcp, bool(addresses.sign_in)
    clients = client_lines(
        url, wants_key=addresses.wants_key, signs_in=signs_in, make_key=keys_command(addresses.key_file)
    )
    return (
        *console,
        *clients,
        *model_lines(addresses.models, addresses.model),
        *files,
    )


def _identify(problem: ManifestProblem) -> tuple[str, str, str]:
    """Key of a problem: file, field (else line) and message. It stays the same if lines are inserted above a field."""
    return problem.file, problem.field or f"{problem.line}:{problem.column}", problem.message


def _is_starting(row: Row) -> bool:
    """Whether a server is starting without a message to show."""
    return row.state in STARTING_STATES and not row.message


def _says_the_same(shown_row: Row, row: Row) -> bool:
    """Whether a failure, or the want of a sign-in, is the one that was printed before. The tools of a server whose user
    has just signed in are known a moment before the sign-in is.
    """
    if shown_row.state == row.state == "failed":
        return is_same_failure(shown_row.text, row.text)
    return shown_row.state == row.state == "sign-in" and shown_row.text == row.text


def _some_tools(row: Row) -> str:
    """The first `MAX_NAMES` tools of a ready server in parentheses, and how many more it has."""
    if row.state != "ready" or not row.tools:
        return ""
    rest_count = len(row.tools) - MAX_NAMES
    suffix = f" and {rest_count} more" if rest_count > 0 else ""
    return f" ({', '.join(map(sanitize, row.tools[:MAX_NAMES]))}{suffix})"


def _newer_than(changes: Sequence[TierChange], last_number: int) -> list[TierChange]:
    return [change for change in changes if change.number > last_number]
