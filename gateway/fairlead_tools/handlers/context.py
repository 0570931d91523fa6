"""Context of a custom tool's call: timeout, cancellation, progress and log messages.

All methods may be called from a handler's thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal

Level = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
SendNotification = Callable[[str, dict[str, Any]], None]
"""Sends a notification, given by method and params; may be called in any thread."""


def _drop(method: str, params: dict[str, Any]) -> None:
    """Drop a notification, for callers that receive only the result."""


class Context:
    """Context of one call. A handler gets it by declaring a parameter of this type, with any name."""

    def __init__(
        self,
        tool: str,
        timeout: float,
        *,
        meta: Mapping[str, Any] = MappingProxyType({}),
        notify: SendNotification = _drop,
    ) -> None:
        self.tool = tool
        """Name of the tool, without a prefix."""
        self.timeout = timeout
        """Time limit of the call in seconds, from its start; after that the caller gets an error."""
        self.meta = meta
        """`_meta` of the request."""
        self._send = notify
        self._cancelled = threading.Event()

    @property
    def cancelled(self) -> bool:
        """Whether the call has ended without waiting for the result. An `async` handler is then canceled. A handler in
        a thread cannot be canceled, so a slow handler should check this property from time to time.
        """
        return self._cancelled.is_set()

    def wait_cancelled(self, seconds: float) -> bool:
        """Block a handler's thread for `seconds`, or until the call is canceled. Returns True if it was canceled."""
        return self._cancelled.wait(seconds)

    def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Send the caller a progress notification (MCP, "Progress"), if the request has a progress token.

        `progress` has to grow with each notification.
        """
        params = {"progress": progress, "total": total, "message": message}
        self._notify("notifications/progress", {name: value for name, value in params.items() if value is not None})

    def log(self, level: Level, data: Any) -> None:
        """Send the caller a log message (MCP, "Logging") of text or other JSON, if the caller requested this level."""
        self._notify("notifications/message", {"level": level, "logger": self.tool, "data": data})

    def _notify(self, method: str, params: dict[str, Any]) -> None:
        if not self._cancelled.is_set():
            self._send(method, params)

    def give_up(self) -> None:
        """Mark the call as canceled."""
        self._cancelled.set()
