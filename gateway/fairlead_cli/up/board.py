"""State of all servers for the displays of `fairlead up`: one row per server, and recent moves of tools between tiers.

`Board` implements the local operator's `Audience`. This module has no I/O.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
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

MAX_TIER_CHANGES: Final = 100
"""Maximum number of recent tier changes that are stored; older changes are only counted."""
CHOSEN_TOOLS: Final = "the lists of tools in its entry (tools, disabledTools and the like) leave none to offer"
READING_SECONDS: Final = 10.0
"""Time for which a server whose user has signed in counts as starting, while the gateway reads its tools with the
user's grant.
"""

State = Literal["waiting", "installing", "starting", "ready", "offline", "sign-in", "failed", "skipped"]


@dataclass(frozen=True)
class Row:
    """State of one server."""

    key: ServerKey
    state: State
    reason: str = ""
    """Reason of the condition, if the server is not ready or needs attention."""
    cause: str = ""
    """Observation behind the reason, in one word (a `Cause`)."""
    message: str = ""
    tools: tuple[str, ...] = ()
    """Exposed names of its tools."""

    @property
    def name(self) -> str:
        """Name for people, with the namespace unless that is the default."""
        return plain_name(self.key)

    @property
    def short_message(self) -> str:
        """The message without the server's name at its beginning."""
        return self.message.removeprefix(f"{self.key} ")

    @property
    def text(self) -> str:
        """State and message in words."""
        if self.state == "ready":
            summary = f"ready, {len(self.tools)} tool{'' if len(self.tools) == 1 else 's'}"
            return f"{summary}: {self.short_message}" if self.message else summary
        if self.state == "sign-in":
            return f"wants you to sign in: {self.message}"
        return f"{self.state}: {self.short_message}" if self.message else self.state


@dataclass(frozen=True)
class TierChange:
    """One move of a tool out of a tier or back into it."""

    number: int
    """Sequence number, from 0."""
    key: ServerKey
    text: str


ToolsOf = Callable[[ServerKey], tuple[str, ...]]
STARTING_STATES: Final[tuple[State, ...]] = ("waiting", "starting")
"""States that look the same to people who wait for a server: a change between them does not count as a new state."""


class Board:
    """The rows of all servers, updated by the operator's reports. `on_change` is called after each update.

    `starts_of` returns the number of starts of a server's process. `refused_count` returns the number of servers that
    do not run because of problems in their files. `clock` returns seconds.
    """

    def __init__(
        self,
        tools_of: ToolsOf,
        on_change: Callable[[], None],
        starts_of: Callable[[ServerKey], int] = lambda key: 0,
        refused_count: Callable[[], int] = lambda: 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tools_of = tools_of
        self._on_change = on_change
        self._starts_of = starts_of
        self._refused_count = refused_count
        self._clock = clock
        self._rows: dict[ServerKey, Row] = {}
        self._since: dict[ServerKey, float] = {}
        self._problems: tuple[ManifestProblem, ...] = ()
        self._numbers = count()
        self._tier_changes: deque[TierChange] = deque(maxlen=MAX_TIER_CHANGES)
        self._sign_ins: frozenset[ServerKey] | None = None
        """Servers at which the terminal's user has to sign in; None while that is unknown."""
        self._no_person = ""
        """Condition under which users could sign in; empty if the terminal's user can."""
        self._custom_key: ServerKey | None = None
        """Key of the server of the gateway's custom tools; None without such tools."""
        self._custom_problems: tuple[ManifestProblem, ...] = ()

    @property
    def rows(self) -> list[Row]:
        """All rows, sorted by key."""
        return [self._for_user(self._rows[key]) for key in sorted(self._rows)]

    @property
    def problems(self) -> tuple[ManifestProblem, ...]:
        """Faults of the custom tools, which are loaded once, and current faults of the files."""
        return (*self._custom_problems, *self._problems)

    @property
    def tier_changes(self) -> tuple[TierChange, ...]:
        """The latest tier changes, the newest last."""
        return tuple(self._tier_changes)

    @property
    def refused_count(self) -> int:
        """Number of servers that do not run because of problems in their files, and have no row."""
        return self._refused_count()

    @property
    def sign_ins(self) -> list[ServerKey]:
        """Servers at which the terminal's user has to sign in and is able to, sorted."""
        return [] if self._no_person else [row.key for row in self.rows if row.state == "sign-in"]

    def seconds(self, key: ServerKey) -> float:
        """Seconds since the server entered its state."""
        return self._clock() - self._since.get(key, self._clock())

    def restarts(self, key: ServerKey) -> int:
        """Number of restarts of the server's process."""
        return max(0, self._starts_of(key) - 1)

    @property
    def older_change_count(self) -> int:
        """Number of older tier changes that are no longer stored."""
        return self._tier_changes[0].number if self._tier_changes else 0

    def add_custom_tools(self, key: ServerKey, custom: LoadedTools) -> None:
        """Add the gateway's custom tools, which the operator does not report."""
        self._custom_problems = tuple(ManifestProblem(item.source, 0, "", item.message) for item in custom.problems)
        if len(custom.tools):
            self._custom_key = key
            self._put(Row(key, "ready", tools=tuple(sorted(item.name for item in custom.tools))))

    def declare(self, key: ServerKey) -> None:
        """Add a server whose state is unknown so far."""
        if key not in self._rows:
            self._put(Row(key, "waiting"))

    def skip(self, skipped: Skipped) -> None:
        """Add a server that is shown but not run."""
        self._put(Row(skipped.key, "skipped", message=skipped.why))

    def set_sign_ins(self, servers: Collection[ServerKey], no_person: str = "") -> None:
        """Replace the servers at which the terminal's user has to sign in. `no_person` is the condition under which the
        user could sign in; empty if the user can.
        """
        if (self._sign_ins, self._no_person) == (frozenset(servers), no_person):
            return
        for key in frozenset(servers) ^ (self._sign_ins or frozenset()):
            if key in self._rows:
                self._since[key] = self._clock()
        self._sign_ins = frozenset(servers)
        self._no_person = no_person
        self._on_change()

    def set_problems(self, problems: tuple[ManifestProblem, ...]) -> None:
        """Replace the problems of the files."""
        if problems != self._problems:
            self._problems = problems
            self._on_change()

    def on_status(self, server: McpServer, status: McpServerStatus) -> None:
        """Implements Audience."""
        if server.key == self._custom_key:
            name_problem = ManifestProblem(
                str(server.key), 0, "", "the name is taken by the gateway's custom tools: rename the server"
            )
            if name_problem not in self._custom_problems:
                self._custom_problems += (name_problem,)
                self._on_change()
            return
        row = row_for(server.key, status, self._tools_of(server.key))
        if row.state == "ready" and not (row.tools or row.message) and self._starts_of(row.key):
            has_tool_choice = server.spec.discovery.tools != "All" or not all(
                tool.enabled for tool in server.spec.tools
            )
            row = replace(
                row, message=CHOSEN_TOOLS if has_tool_choice else f"its output may say why: fairlead logs {row.name}"
            )
        if self._rows.get(server.key) != row:
            self._put(row)
            self._on_change()

    def on_announcement(self, resource: Resource, announcement: Announcement) -> None:
        """Implements Audience. Only moves between tiers are added; the rows already show everything else."""
        if announcement.reason == TIER_MOVED and isinstance(resource, McpServer):
            self._tier_changes.append(TierChange(next(self._numbers), resource.key, announcement.note))
            self._on_change()

    def on_removal(self, key: ServerKey) -> None:
        """Implements Audience."""
        if key != self._custom_key and self._rows.pop(key, None) is not None:
            self._since.pop(key, None)
            self._on_change()

    def _for_user(self, row: Row) -> Row:
        """A row as the terminal's user sees it: the operator knows nothing about grants of users."""
        if row.state == "sign-in" and self._no_person:
            return replace(row, message=self._no_person)
        if self._sign_ins is None or self._no_person:
            return row
        if row.state == "ready" and row.key in self._sign_ins:
            reason, cause = str(Reason.SIGN_IN_REQUIRED), str(Cause.SIGN_IN_REQUIRED)
            return replace(row, state="sign-in", reason=reason, cause=cause, message=login_command(row.key))
        if row.state == "sign-in" and row.key not in self._sign_ins and self.seconds(row.key) < READING_SECONDS:
            return Row(row.key, "starting", tools=row.tools)
        return row

    def _put(self, row: Row) -> None:
        previous_row = self._rows.get(row.key)
        is_same_state = previous_row is not None and (
            previous_row.state == row.state or {previous_row.state, row.state} <= {*STARTING_STATES}
        )
        if not is_same_state:
            self._since[row.key] = self._clock()
        self._rows[row.key] = row


def plain_name(key: ServerKey) -> str:
    """A server's name for people, without the default namespace."""
    return key.name if key.namespace == DEFAULT_NAMESPACE else str(key)


def login_command(key: ServerKey) -> str:
    """Command by which a user signs in at a server."""
    return f"fairlead login {plain_name(key)}"


def row_for(key: ServerKey, status: McpServerStatus, tools: tuple[str, ...]) -> Row:
    """The row of a server with that status."""
    ready_condition = status.condition(ConditionType.READY)
    if ready_condition is None:
        return Row(key, "waiting", tools=tools)
    if ready_condition.status == "True":
        condition = ready_condition if ready_condition.reason != Reason.AS_EXPECTED else _attention_condition(status)
        return Row(key, "ready", *(_reason_cause_message(condition) if condition else ("", "", "")), tools)
    state = cast("State", state_of(status))
    reason, cause, message = _reason_cause_message(ready_condition)
    if state == "sign-in":
        return Row(key, state, reason, cause, login_command(key))
    return Row(key, state, reason, cause, "" if state == "starting" and cause != Cause.SILENT else message, tools)


def _reason_cause_message(condition: Condition) -> tuple[str, str, str]:
    """Reason, cause and message of a condition."""
    cause, message = cause_of(condition)
    return condition.reason, str(cause or condition.reason), message


def _attention_condition(status: McpServerStatus) -> Condition | None:
    """Condition of a ready server that needs a person's attention; None if there is none."""
    kinds = (*sorted(ABNORMAL), ConditionType.APPROVED, ConditionType.DEFINITIONS_CLEAN)
    conditions = [condition for kind in kinds if (condition := status.condition(kind)) is not None]
    return next(
        (condition for condition in conditions if (condition.status == "True") == (condition.type in ABNORMAL)), None
    )
