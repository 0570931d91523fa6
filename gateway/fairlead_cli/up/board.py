"""State of the servers for the screen: one row per server, and news of tools that changed tiers. Changed by calls
alone, otherwise pure.

Implements the local platform's Audience; `display` draws it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Final, Literal, cast

from fairlead_api.load import DEFAULT_NAMESPACE, ManifestProblem
from fairlead_api.meta import ServerKey
from fairlead_api.v1alpha1.causes import Cause, cause_of
from fairlead_api.v1alpha1.common import Condition, Resource
from fairlead_api.v1alpha1.condition_types import ABNORMAL, ConditionType, Reason
from fairlead_api.v1alpha1.mcpserver import McpServer, McpServerStatus
from fairlead_cli.up.quickstart import Skipped
from fairlead_gateway.custom.load import LoadedTools
from fairlead_operator.ports import TIER_MOVED, Announcement
from fairlead_operator.server.document_entries import state_of

NEWS_KEPT: Final = 100
"""More of them between two looks at the board are not told one by one."""

State = Literal["waiting", "installing", "starting", "ready", "offline", "failed", "skipped"]


@dataclass(frozen=True)
class Row:
    """One server."""

    key: ServerKey
    state: State
    reason: str = ""
    """The condition's, where it is not ready or has something to mend."""
    cause: str = ""
    """Observation behind the reason, in one word."""
    message: str = ""
    tools: tuple[str, ...] = ()
    """Names under which its tools are offered."""

    @property
    def name(self) -> str:
        """As its user calls it: with the namespace only where that is not the default."""
        return plain_name(self.key)

    @property
    def short_message(self) -> str:
        """The message without the server's name, which stands before it."""
        return self.message.removeprefix(f"{self.key} ")

    @property
    def text(self) -> str:
        """The state in words."""
        if self.state == "ready":
            counted = f"ready, {len(self.tools)} tool{'' if len(self.tools) == 1 else 's'}"
            return f"{counted}: {self.short_message}" if self.message else counted
        return f"{self.state}: {self.short_message}" if self.message else self.state


@dataclass(frozen=True)
class TierChange:
    """A tool of a server that left a tier or came back to it."""

    number: int
    """Grows from one to the next."""
    key: ServerKey
    text: str


ToolsOf = Callable[[ServerKey], tuple[str, ...]]
COMING: Final[tuple[State, ...]] = ("waiting", "starting")
"""One state to who waits for a server."""


class Board:
    """The rows, renewed as the operator reports. `changed` is called after each news.

    `starts_of` says how often the process of a server was started, `refused` how many servers are not run for problems
    of their files; `clock` counts seconds.
    """

    def __init__(
        self,
        tools_of: ToolsOf,
        changed: Callable[[], None],
        starts_of: Callable[[ServerKey], int] = lambda key: 0,
        refused: Callable[[], int] = lambda: 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tools_of = tools_of
        self._changed = changed
        self._starts_of = starts_of
        self._refused = refused
        self._clock = clock
        self._rows: dict[ServerKey, Row] = {}
        self._since: dict[ServerKey, float] = {}
        self._problems: tuple[ManifestProblem, ...] = ()
        self._numbers = count()
        self._tier_changes: deque[TierChange] = deque(maxlen=NEWS_KEPT)
        self._own: ServerKey | None = None
        self._own_problems: tuple[ManifestProblem, ...] = ()

    @property
    def rows(self) -> list[Row]:
        """By key."""
        return [self._rows[key] for key in sorted(self._rows)]

    @property
    def problems(self) -> tuple[ManifestProblem, ...]:
        """Faults of the files now, and of the custom tools at the start."""
        return (*self._own_problems, *self._problems)

    @property
    def tier_changes(self) -> tuple[TierChange, ...]:
        """The last ones, the newest at the end."""
        return tuple(self._tier_changes)

    @property
    def refused(self) -> int:
        """How many servers are not run, and have a problem in place of a row."""
        return self._refused()

    def seconds(self, key: ServerKey) -> float:
        """Since the server is in its state."""
        return self._clock() - self._since.get(key, self._clock())

    def restarts(self, key: ServerKey) -> int:
        """How often its process was started again."""
        return max(0, self._starts_of(key) - 1)

    @property
    def earlier(self) -> int:
        """How many news are not kept any more."""
        return self._tier_changes[0].number if self._tier_changes else 0

    def own(self, key: ServerKey, custom: LoadedTools) -> None:
        """The gateway's own tools, which no operator reports."""
        self._own_problems = tuple(ManifestProblem(item.source, 0, "", item.message) for item in custom.problems)
        if len(custom.tools):
            self._own = key
            self._put(Row(key, "ready", tools=tuple(sorted(item.name for item in custom.tools))))

    def declare(self, key: ServerKey) -> None:
        """A server that nothing is known of yet."""
        if key not in self._rows:
            self._put(Row(key, "waiting"))

    def skip(self, skipped: Skipped) -> None:
        """A server that is shown, and not run."""
        self._put(Row(skipped.key, "skipped", message=skipped.why))

    def complain(self, problems: tuple[ManifestProblem, ...]) -> None:
        """The problems with the files, all of them."""
        if problems != self._problems:
            self._problems = problems
            self._changed()

    def on_status(self, server: McpServer, status: McpServerStatus) -> None:
        """Implements Audience."""
        if server.key == self._own:
            taken = ManifestProblem(
                str(server.key), 0, "", "custom tools are published under this name: rename the server"
            )
            if taken not in self._own_problems:
                self._own_problems += (taken,)
                self._changed()
            return
        row = row_for(server.key, status, self._tools_of(server.key))
        if self._rows.get(server.key) != row:
            self._put(row)
            self._changed()

    def on_announcement(self, resource: Resource, announcement: Announcement) -> None:
        """Implements Audience: what it says stands in the rows already, but for moves between tiers."""
        if announcement.reason == TIER_MOVED and isinstance(resource, McpServer):
            self._tier_changes.append(TierChange(next(self._numbers), resource.key, announcement.note))
            self._changed()

    def on_removal(self, key: ServerKey) -> None:
        """Implements Audience."""
        if key != self._own and self._rows.pop(key, None) is not None:
            self._since.pop(key, None)
            self._changed()

    def _put(self, row: Row) -> None:
        before = self._rows.get(row.key)
        same = before is not None and (before.state == row.state or {before.state, row.state} <= {*COMING})
        if not same:
            self._since[row.key] = self._clock()
        self._rows[row.key] = row


def plain_name(key: ServerKey) -> str:
    """A server's name for people."""
    return key.name if key.namespace == DEFAULT_NAMESPACE else str(key)


def row_for(key: ServerKey, status: McpServerStatus, tools: tuple[str, ...]) -> Row:
    """A status in one word, its reason, cause and message."""
    ready = status.condition(ConditionType.READY)
    if ready is None:
        return Row(key, "waiting", tools=tools)
    if ready.status == "True":
        worth = ready if ready.reason != Reason.AS_EXPECTED else _worth_a_look(status)
        return Row(key, "ready", *(_reason_cause_message(worth) if worth else ("", "", "")), tools)
    state = cast("State", state_of(status))
    reason, cause, message = _reason_cause_message(ready)
    return Row(key, state, reason, cause, "" if state == "starting" and cause != Cause.SILENT else message, tools)


def _reason_cause_message(condition: Condition) -> tuple[str, str, str]:
    """Reason, cause and message of a condition."""
    cause, message = cause_of(condition)
    return condition.reason, str(cause or condition.reason), message


def _worth_a_look(status: McpServerStatus) -> Condition | None:
    """Condition that a person should look at although all works."""
    kinds = (*sorted(ABNORMAL), ConditionType.APPROVED, ConditionType.DEFINITIONS_CLEAN)
    shown = [condition for kind in kinds if (condition := status.condition(kind)) is not None]
    return next(
        (condition for condition in shown if (condition.status == "True") == (condition.type in ABNORMAL)), None
    )
