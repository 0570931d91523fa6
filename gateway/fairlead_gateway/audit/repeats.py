"""Sums up repeated denials in one line, so that a caller who is denied again and again cannot fill the audit log.

Pure module. The event loop adds entries, and the audit log's thread takes the sums. A lock protects the entries and
sums.
"""

from __future__ import annotations

import threading
from typing import Final

import msgspec

from fairlead_gateway.audit.entry import DENIED, LIMITED, AuditEntry
from fairlead_gateway.core.identity import Identity
from fairlead_mcp.addresses import client_of

WINDOW_S: Final = 1.0
"""Seconds over which denials are summed up."""
LINES_OF_TOOL: Final = 10
"""Number of denials per caller, tool and window that get a line each; further denials are summed up."""
LINES: Final = 100
"""Number of denials per caller and window, over all tools, that get a line each."""
MAX_TOOLS: Final = 256
"""Maximum number of tools per caller and window with a sum of their own; all other tools share one sum that names no
tool."""
MAX_SUMS: Final = 10_000
"""Maximum number of sums that name a tool, over all callers."""
MAX_CALLERS: Final = 4_096
"""Maximum number of callers that are counted separately; all further callers are counted as one."""
OTHERS: Final = Identity(kind="anonymous", principal="others")
"""Identity in a sum over the callers beyond `MAX_CALLERS`."""

_COUNTED_DECISIONS: Final = frozenset({DENIED, LIMITED})
"""Decisions whose entries are counted, and summed up when there are many."""
_OTHERS: Final = ("", "")
_Key = tuple[str, ...]


class _Window:
    """Denials of one caller in the WINDOW_S seconds since `started_at`, which is in seconds since the epoch."""

    __slots__ = ("is_shared", "lines", "lines_of_tools", "started_at", "sums")

    def __init__(self, started_at: float, *, is_shared: bool) -> None:
        self.started_at = started_at
        self.is_shared = is_shared
        """Whether the window counts the denials of many callers."""
        self.lines = 0
        """Number of denials that got a line of their own."""
        self.lines_of_tools: dict[_Key, int] = {}
        """Number of denials with a line of their own, by decision, method, outcome, server and tool."""
        self.sums: dict[_Key, AuditEntry] = {}
        """Sums of all further denials, by the same key; the empty key sums up all tools beyond the limits."""


class RepeatedDenials:
    """Counts denials by caller and tool.

    A caller is a principal at an address or IPv6 /64 network. All unknown tool names count as one tool.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._windows: dict[tuple[str, str], _Window] = {}
        self._named_sums = 0

    def absorbs(self, entry: AuditEntry) -> bool:
        """Count an entry. Returns True if the entry becomes part of a sum, so that it gets no line of its own."""
        if entry.decision not in _COUNTED_DECISIONS:
            return False
        with self._lock:
            return self._count(self._window(entry), entry)

    def take(self, now: float, *, everything: bool = False) -> list[AuditEntry]:
        """Remove the windows that have ended at `now` (seconds since the epoch), and return their sums.

        A sum is an entry with `times`. With `everything`, windows that have not ended are taken too.
        """
        sums: list[AuditEntry] = []
        with self._lock:
            for caller, window in [*self._windows.items()]:
                if everything or _is_over(window, now):
                    del self._windows[caller]
                    sums += window.sums.values()
                    self._named_sums -= sum(bool(key) for key in window.sums)
        return sums

    @property
    def has_windows(self) -> bool:
        """Whether a window is open, so that `take` has to be called again."""
        return bool(self._windows)

    def _window(self, entry: AuditEntry) -> _Window:
        caller = (entry.identity.principal, client_of(entry.address))
        if caller not in self._windows and len(self._windows) >= MAX_CALLERS:
            caller = _OTHERS
        window = self._windows.get(caller)
        if window is not None and (window.sums or not _is_over(window, entry.at)):
            return window  # a window with sums stays open until the thread has taken the sums, even if the disk is slow
        window = self._windows[caller] = _Window(entry.at, is_shared=caller is _OTHERS)
        return window

    def _count(self, window: _Window, entry: AuditEntry) -> bool:
        key: _Key = (entry.decision, entry.method, entry.outcome)
        if entry.server is not None:
            key += (str(entry.server), entry.tool)
        lines = window.lines_of_tools.get(key, 0)
        if lines < LINES_OF_TOOL and window.lines < LINES:
            window.lines += 1
            window.lines_of_tools[key] = lines + 1
            return False
        sum_entry = window.sums.get(key)
        if sum_entry is None and (len(window.sums) >= MAX_TOOLS or self._named_sums >= MAX_SUMS):
            key = ()
            sum_entry = window.sums.get(key)
        if sum_entry is None:
            self._named_sums += bool(key)
            sum_entry = window.sums[key] = _sum_of(entry, names_tool=bool(key) and entry.server is not None)
            if window.is_shared:
                sum_entry.identity = OTHERS
                sum_entry.address = ""
        else:
            sum_entry.at = entry.at
            sum_entry.times += 1
        return True


def _is_over(window: _Window, now: float) -> bool:
    return abs(now - window.started_at) >= WINDOW_S  # `abs`, so that a window also ends if the clock was set back


def _sum_of(entry: AuditEntry, *, names_tool: bool) -> AuditEntry:
    """Start a sum with its first entry, without the data that the client chose."""
    return msgspec.structs.replace(
        entry,
        times=1,
        tool=entry.tool if names_tool else "",
        server=entry.server if names_tool else None,
        traceparent=b"",
        meta=None,
        arguments=None,
        arguments_bytes=0,
        span=None,
    )
