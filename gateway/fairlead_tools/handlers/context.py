"""Context of a custom tool's call: its caller, its deadline, progress and logs.

Every method may be used from a handler's thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal

Level = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
Tell = Callable[[str, dict[str, Any]], None]
"""Takes the method of a notification and its params, in any thread."""


def _unheard(method: str, params: dict[str, Any]) -> None:
    """Notification to a caller that receives nothing but the result: dropped."""


class Context:
    """One call. A handler gets it by a parameter of this type, whatever its name."""

    def __init__(
        self,
        tool: str,
        timeout: float,
        *,
        meta: Mapping[str, Any] = MappingProxyType({}),
        tell: Tell = _unheard,
    ) -> None:
        self.tool = tool
        """The tool's own name."""
        self.timeout = timeout
        """Seconds that the call had when it began; then its caller is told that it took too long."""
        self.meta = meta
        """`_meta` of the request."""
        self._tell = tell
        self._given_up = threading.Event()

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for the result any more. An `async` handler is cancelled, one in a thread cannot be:
        if it takes long, it should look here now and then.
        """
        return self._given_up.is_set()

    def wait_cancelled(self, seconds: float) -> bool:
        """Wait in a handler's thread, at most so long; True as soon as nobody waits for the result any more."""
        return self._given_up.wait(seconds)

    def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Tell the caller how far the work is (MCP, "Progress"); nothing happens where it did not ask. `progress`
        grows with each call.
        """
        params = {"progress": progress, "total": total, "message": message}
        self._say("notifications/progress", {name: value for name, value in params.items() if value is not None})

    def log(self, level: Level, data: Any) -> None:
        """Send the caller a log message (MCP, "Logging"): a text or any other JSON. It gets those from the level on
        that it asked for.
        """
        self._say("notifications/message", {"level": level, "logger": self.tool, "data": data})

    def _say(self, method: str, params: dict[str, Any]) -> None:
        if not self._given_up.is_set():
            self._tell(method, params)

    def give_up(self) -> None:
        """Cancel the context, when nobody waits for the handler any more."""
        self._given_up.set()
