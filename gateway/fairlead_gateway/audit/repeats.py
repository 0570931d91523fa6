"""Sums up denials that come in crowds, so that nobody fills the audit log or pushes the lines of others out of it.

Pure module. The loop offers entries, the thread of the log takes sums: a lock is between them.
"""

from __future__ import annotations

import threading
from typing import Final

import msgspec

from fairlead_gateway.audit.entry import DENIED, LIMITED, AuditEntry
from fairlead_gateway.core.identity import Identity
from fairlead_mcp.addresses import client_of

WINDOW_S: Final = 1.0
LINES_OF_TOOL: Final = 10
"""Denials of one asker and tool that are lines of their own, in a window."""
LINES: Final = 100
"""Denials of one asker that are, of all tools."""
MAX_TOOLS: Final = 256
"""Tools of one asker that have a sum of their own, in a window; all others share one that names no tool."""
MAX_SUMS: Final = 10_000
"""Sums of all askers that name a tool."""
MAX_ASKERS: Final = 4_096
"""Askers whose denials are counted apart; those of all further ones count as one asker's."""
OTHERS: Final = Identity(kind="anonymous", principal="others")
"""Who a sum of many askers names."""

_SUMMED: Final = frozenset({DENIED, LIMITED})
_OTHERS: Final = ("", "")
_Key = tuple[str, ...]


class _Window:
    """Denials of one asker since `began`, in seconds since the epoch."""

    __slots__ = ("began", "lines", "lines_of_tools", "shared", "sums")

    def __init__(self, began: float, *, shared: bool) -> None:
        self.began = began
        self.shared = shared
        """Whether it is that of many askers."""
        self.lines = 0
        self.lines_of_tools: dict[_Key, int] = {}
        self.sums: dict[_Key, AuditEntry] = {}


class RepeatedDenials:
    """Counts denials by asker (principal, and address or /64 network) and tool. Names that no tool has count as one
    tool.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._windows: dict[tuple[str, str], _Window] = {}
        self._named_sums = 0

    def absorbs(self, entry: AuditEntry) -> bool:
        """Whether the entry is a part of a sum, and gets no line of its own."""
        if entry.decision not in _SUMMED:
            return False
        with self._lock:
            return self._count(self._window(entry), entry)

    def take(self, now: float, *, everything: bool = False) -> list[AuditEntry]:
        """Entries with `times`, of windows that are over at `now`, in seconds since the epoch."""
        taken: list[AuditEntry] = []
        with self._lock:
            for asker, window in [*self._windows.items()]:
                if everything or _is_over(window, now):
                    del self._windows[asker]
                    taken += window.sums.values()
                    self._named_sums -= sum(bool(key) for key in window.sums)
        return taken

    @property
    def counts(self) -> bool:
        """Whether a window is open: `take` has to be called again."""
        return bool(self._windows)

    def _window(self, entry: AuditEntry) -> _Window:
        asker = (entry.identity.principal, client_of(entry.address))
        if asker not in self._windows and len(self._windows) >= MAX_ASKERS:
            asker = _OTHERS
        window = self._windows.get(asker)
        if window is not None and (window.sums or not _is_over(window, entry.at)):
            return window  # sums wait for the thread, however long its disk takes
        window = self._windows[asker] = _Window(entry.at, shared=asker is _OTHERS)
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
        total = window.sums.get(key)
        if total is None and (len(window.sums) >= MAX_TOOLS or self._named_sums >= MAX_SUMS):
            key = ()
            total = window.sums.get(key)
        if total is None:
            self._named_sums += bool(key)
            total = window.sums[key] = _sum_of(entry, named=bool(key) and entry.server is not None)
            if window.shared:
                total.identity = OTHERS
                total.address = ""
        else:
            total.at = entry.at
            total.times += 1
        return True


def _is_over(window: _Window, now: float) -> bool:
    return abs(now - window.began) >= WINDOW_S  # a clock that was set back ends it as well


def _sum_of(entry: AuditEntry, *, named: bool) -> AuditEntry:
    """The first entry of a sum, without what its client chose."""
    return msgspec.structs.replace(
        entry,
        times=1,
        tool=entry.tool if named else "",
        server=entry.server if named else None,
        traceparent=b"",
        meta=None,
        arguments=None,
        arguments_bytes=0,
        span=None,
    )
