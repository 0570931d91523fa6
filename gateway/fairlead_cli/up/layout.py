"""Layout of the screen of `fairlead up`: makes lines that fit in the window from the states of servers. No I/O.

Items that need a person come first: broken files, then servers that failed, are offline or take long to start. In a
smaller window, tool names become counts, messages are shortened, and ready servers share lines. What is left out is
counted: `… 3 more`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from rich.cells import cell_len

from fairlead_cli.up.board import State
from fairlead_cli.up.terminal_text import cut, fold, fold_to, pad, sanitize

CONSOLE: Final = "Console"
"""Name of the line with the address of the console."""
LONG_SECONDS: Final = 10.0
"""A server that starts for longer than this is listed with the servers that need attention."""
MIN_WIDTH: Final = 20
MIN_HEIGHT: Final = 4
_RANKS: Final[tuple[State, ...]] = (
    "failed",
    "offline",
    "sign-in",
    "installing",
    "starting",
    "waiting",
    "ready",
    "skipped",
)
_STYLES: Final[dict[State, str]] = {
    "waiting": "dim",
    "installing": "cyan",
    "starting": "cyan",
    "ready": "green",
    "offline": "yellow",
    "sign-in": "yellow",
    "failed": "red",
    "skipped": "dim",
}


class ScreenLine(NamedTuple):
    """One line, in one style of rich."""

    text: str
    style: str = ""


@dataclass(frozen=True)
class ServerRow:
    """One server as it is now."""

    name: str
    state: State
    message: str = ""
    tools: tuple[str, ...] = ()
    seconds: float = 0.0
    """Time in this state."""
    restarts: int = 0

    @property
    def is_slow(self) -> bool:
        """Whether the server takes long to start. Installations report their own progress and do not count."""
        return self.state in ("starting", "waiting") and self.seconds >= LONG_SECONDS

    @property
    def order(self) -> tuple[int, str]:
        """Sort key: servers that need attention are first."""
        if self.state in ("failed", "offline", "sign-in"):
            return _RANKS.index(self.state), self.name
        has_remark = self.state == "ready" and bool(self.message)
        return 3 if self.is_slow else 4 if has_remark else 5 + _RANKS.index(self.state), self.name


@dataclass(frozen=True)
class ScreenView:
    """Content of the screen."""

    mcp: str = ""
    """URL of the MCP endpoint; empty until it listens."""
    metrics: str = ""
    clients: tuple[tuple[str, str], ...] = ()
    """Names of clients, each with the line that connects it."""
    servers: tuple[ServerRow, ...] = ()
    problems: tuple[str, ...] = ()
    """Lines about problems of the files."""
    refused_count: int = 0
    """Servers that do not run because of such a problem, and have no row."""
    tier_changes: tuple[str, ...] = ()
    """Recent moves of tools between tiers, the newest last."""
    older_change_count: int = 0
    """Number of older moves, which `tier_changes` no longer has."""
    hint: str = ""
    """Line about keys; empty if no keys are read."""


@dataclass(frozen=True)
class _Detail:
    """Level of detail."""

    message: int
    """Lines of one message."""
    tier_changes: int
    problems: int
    names: bool = False
    clients: bool = False
    packed: bool = False
    """Whether ready servers without a message share lines."""


_DETAILS: Final = (
    _Detail(message=8, tier_changes=5, problems=20, names=True, clients=True),
    _Detail(message=8, tier_changes=5, problems=20, clients=True),
    _Detail(message=3, tier_changes=3, problems=10, clients=True),
    _Detail(message=8, tier_changes=3, problems=20),
    _Detail(message=3, tier_changes=3, problems=10),
    _Detail(message=2, tier_changes=2, problems=6),
    _Detail(message=3, tier_changes=3, problems=10, packed=True),
    _Detail(message=2, tier_changes=2, problems=4, packed=True),
    _Detail(message=2, tier_changes=1, problems=2, packed=True),
    _Detail(message=1, tier_changes=1, problems=1, packed=True),
)


def screen(view: ScreenView, width: int, height: int) -> list[ScreenLine]:
    """At most `height` lines of at most `width` cells, with the highest level of detail that fits."""
    width, height = max(width, MIN_WIDTH), max(height, MIN_HEIGHT)
    for detail in _DETAILS:
        lines = [*_head(view, width), *_problems(view, width, detail), *_summary(view, width)]
        lines += (
            _rows(_by_urgency(view), width, detail) + _tier_changes(view, width, detail) + _clients(view, width, detail)
        )
        if len(lines) <= height:
            return lines
    return _crowded_lines(view, width, height)


def _crowded_lines(view: ScreenView, width: int, height: int) -> list[ScreenLine]:
    """Lines for a window that is too small for all servers: the most urgent servers, then a count of the others."""
    lowest_detail = _DETAILS[-1]
    servers = _by_urgency(view)
    top = [*_head(view, width), *_problems(view, width, lowest_detail), *_summary(view, width)][: height - 1]
    below = [*_tier_changes(view, width, lowest_detail)[1:], *_clients(view, width, lowest_detail)]
    if len(top) + len(below) + 3 > height:
        below = []
    room = height - len(top) - len(below) - 1
    column = _column(servers[:room], width)
    rows, row_count = list[ScreenLine](), 0
    for server in servers:
        row_lines = _row(server, column, width, lowest_detail)
        if len(rows) + len(row_lines) > room:
            break
        rows, row_count = rows + row_lines, row_count + 1
    hidden_servers = servers[row_count:]
    if hidden_servers:
        rest = (
            f"… {len(hidden_servers)} more server{'' if len(hidden_servers) == 1 else 's'}: {_states(hidden_servers)}"
        )
        rows.append(ScreenLine(cut(rest, width), "dim"))
    return [*top, *rows, *below]


def _head(view: ScreenView, width: int) -> list[ScreenLine]:
    if not view.mcp:
        return [ScreenLine("Starting …", "dim")]
    return [ScreenLine(text, "bold") for text in fold(f"Serving MCP at {view.mcp}", width)]


def _problems(view: ScreenView, width: int, detail: _Detail) -> list[ScreenLine]:
    lines = [
        ScreenLine(text, "red")
        for problem in view.problems[: detail.problems]
        for text in fold_to(f"problem: {sanitize(problem)}", width, max(2, detail.message))
    ]
    rest_count = len(view.problems) - detail.problems
    if rest_count > 0:
        lines.append(ScreenLine(f"… {rest_count} more problem{'' if rest_count == 1 else 's'}", "red"))
    return lines


def _summary(view: ScreenView, width: int) -> list[ScreenLine]:
    server_count = len(view.servers) + view.refused_count
    if not server_count:
        return [ScreenLine(text, "yellow") for text in fold("No server is declared.", width)]
    tools = sum(len(server.tools) for server in view.servers if server.state == "ready")
    servers = f"{server_count} server{'' if server_count == 1 else 's'}"
    summary = f"{servers}: {_states(view.servers, view.refused_count)}; {_tools(tools)}"
    return [ScreenLine(text) for text in fold(summary, width)]


def _states(servers: Iterable[ServerRow], refused_count: int = 0) -> str:
    counts: Counter[State] = Counter(server.state for server in servers)
    counts["failed"] += refused_count
    return ", ".join(f"{counts[state]} {state}" for state in _RANKS if counts[state])


def _by_urgency(view: ScreenView) -> list[ServerRow]:
    return sorted(view.servers, key=lambda server: server.order)


def _rows(servers: Sequence[ServerRow], width: int, detail: _Detail) -> list[ScreenLine]:
    packed_servers = [server for server in servers if detail.packed and server.state == "ready" and not server.message]
    other_servers = [server for server in servers if server not in packed_servers]
    column = _column(other_servers, width)
    lines = [line for server in other_servers for line in _row(server, column, width, detail)]
    if packed_servers:
        first, *others = packed_servers
        summary = f"ready: {sanitize(first.name)} {_tools(len(first.tools))}"
        summary += "".join(f", {sanitize(server.name)} {len(server.tools)}" for server in others)
        lines += [ScreenLine(text, _STYLES["ready"]) for text in fold(summary, width)]
    return lines


def _column(servers: Iterable[ServerRow], width: int) -> int:
    """Width of the column of names. A name that is wider than two fifths of the window gets a separate line, and does
    not widen the column.
    """
    sizes = (cell_len(sanitize(server.name)) for server in servers)
    return max((size for size in sizes if size <= width * 2 // 5), default=0)


def _row(server: ServerRow, column: int, width: int, detail: _Detail) -> list[ScreenLine]:
    name = sanitize(server.name)
    style = "yellow" if server.is_slow else _STYLES[server.state]
    description = _describe(server, names=detail.names)
    max_lines = detail.message if not detail.names else max(detail.message, 20)
    if cell_len(name) > column:
        return [ScreenLine(text, style) for part in (name, description) for text in fold_to(part, width, max_lines)]
    first, *others = fold_to(description, width - column - 2, max_lines)
    indent = " " * (column + 2)
    return [
        ScreenLine(f"{pad(name, column)}  {first}", style),
        *(ScreenLine(indent + text, style) for text in others),
    ]


def _describe(server: ServerRow, *, names: bool) -> str:
    """The state of a server in words."""
    text: str = "wants you to sign in" if server.state == "sign-in" else server.state
    if server.state == "ready":
        text += f", {_tools(len(server.tools))}"
    elif server.is_slow or (server.state == "installing" and server.seconds >= LONG_SECONDS):
        text += f" for {duration(server.seconds)}"
    if server.restarts and server.state != "ready":
        text += f", {server.restarts} restart{'' if server.restarts == 1 else 's'}"
    message = sanitize(server.message)
    if message:
        text += f": {message}"
    if names and server.tools:
        text += f"{'; its tools' if message else ''}: {', '.join(map(sanitize, server.tools))}"
    return text


def _tier_changes(view: ScreenView, width: int, detail: _Detail) -> list[ScreenLine]:
    if not view.tier_changes:
        return []
    shown_changes = view.tier_changes[-detail.tier_changes :]
    lines = [ScreenLine("")]
    for change in shown_changes:
        lines += [ScreenLine(text, "yellow") for text in fold_to(sanitize(change), width, max(2, detail.message))]
    older_count = view.older_change_count + len(view.tier_changes) - len(shown_changes)
    if older_count:
        lines.append(ScreenLine(f"… {older_count} more move{'' if older_count == 1 else 's'} before", "dim"))
    return lines


def _clients(view: ScreenView, width: int, detail: _Detail) -> list[ScreenLine]:
    if not view.mcp:
        return []
    lines = [ScreenLine(text, "dim") for text in fold(f"Metrics at {view.metrics}", width)]
    console = list[ScreenLine]()
    for name, line in view.clients:
        folded_lines = [ScreenLine(text) for text in fold(f"{name}: {line}", width)]
        lines += folded_lines
        console += folded_lines if name == CONSOLE and len(folded_lines) == 1 else []
    if view.hint:
        lines += [ScreenLine(text, "dim") for text in fold(view.hint, width)]
    if detail.clients:
        return [ScreenLine(""), *lines]
    hidden_parts = "clients, metrics" if console or CONSOLE not in dict(view.clients) else "console, clients"
    rest = f"… {len(lines) - len(console)} more lines in a taller window: {hidden_parts}"
    return [*console, ScreenLine(cut(rest, width), "dim")]  # the token in the console's address cannot be guessed


def _tools(count: int) -> str:
    return f"{count} tool{'' if count == 1 else 's'}"


def duration(seconds: float) -> str:
    """A duration as text: `42 s`, `3 min 5 s`, `2 h 10 min`."""
    total = int(seconds)
    if total < 60:
        return f"{total} s"
    if total < 3600:
        return f"{total // 60} min {total % 60} s"
    return f"{total // 3600} h {total % 3600 // 60} min"
