"""Result of a tool, translated to the client's era."""

from __future__ import annotations

from msgspec import Raw


class TranslatedResult:
    """A result for the client's era, raw, and whether it says that the tool failed, or asks the client for more."""

    __slots__ = ("is_error", "is_task", "left_out", "mended", "needs_input", "result")

    def __init__(self, result: bytes | Raw, is_error: bool, needs_input: bool = False, is_task: bool = False) -> None:
        self.result = result
        self.is_error = is_error
        self.needs_input = needs_input
        self.is_task = is_task
        """Whether it is no result yet, but a task that goes on (SEP-2663)."""
        self.mended = ""
        """Why clients would have refused it as its server sent it; empty for a result that they take."""
        self.left_out = False
        """Whether its `structuredContent` was left out, which is not as the client's revision has it."""
