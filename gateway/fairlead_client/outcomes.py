"""Outcomes of calls through the registry: a result, or one of four errors. Values, never raised by the registry.

Pure module. The codes are those of the gateway's contract (`refusals`), and `UNKNOWN_TOOL`, which MCP says with
the JSON-RPC error -32602.

    ToolCallError
      UnknownFunction     no tool has this name
      InvalidArguments    the arguments do not fit the tool's schema, or are not a JSON object; nothing was called
      ExecutionError      the tool did not answer: the cause, and whether trying again makes sense
      ToolFailed          the tool answered, and says that it failed: its own result, unchanged
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from fairlead_formats.names import unknown_tool
from fairlead_formats.tool_format import JsonObject
from fairlead_tools.refusal import INVALID_ARGUMENTS, META_ERROR

UNKNOWN_TOOL: Final = "UNKNOWN_TOOL"
TOOL_FAILED: Final = "TOOL_FAILED"
CLOSED: Final = "CLOSED"
"""The registry was closed."""


class ToolCallError(Exception):
    """Base of the tree. `str(error)` is a sentence for the model, `code` a stable word for programs."""

    code: str = "ERROR"
    retryable: bool = False
    """Whether the same call may be made again without harm, and with a chance of another outcome."""
    retry_after: float | None = None
    """Seconds that the server asks to wait before that, where it said so."""

    def __init__(self, tool: str, message: str) -> None:
        super().__init__(message)
        self.tool = tool
        """The name that was asked for."""


class UnknownFunction(ToolCallError):
    """No tool of this registry has the name; `did_you_mean` is the nearest one that does exist, or None."""

    code = UNKNOWN_TOOL

    def __init__(self, tool: str, did_you_mean: str | None = None) -> None:
        super().__init__(tool, unknown_tool(tool, did_you_mean))
        self.did_you_mean = did_you_mean


class InvalidArguments(ToolCallError):
    """The arguments do not fit. `problems` are sentences, each with the place (JSON Pointer, RFC 6901)."""

    code = INVALID_ARGUMENTS

    def __init__(self, tool: str, message: str, problems: tuple[str, ...] = ()) -> None:
        super().__init__(tool, message)
        self.problems = problems


class ExecutionError(ToolCallError):
    """The tool did not answer. `__cause__` is what was raised underneath: a `fairlead_mcp.errors.McpError` of the
    connection, or the exception of a local handler. `code` is one of `refusals`, or `CLOSED`.
    """

    def __init__(
        self,
        tool: str,
        message: str,
        *,
        code: str,
        cause: BaseException | None = None,
        retryable: bool = False,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(tool, message)
        self.code = code
        self.retryable = retryable
        self.retry_after = retry_after
        self.__cause__ = cause

    @property
    def cause(self) -> BaseException | None:
        """Exception that was raised underneath."""
        return self.__cause__


class ToolFailed(ToolCallError):
    """The tool says that it failed (`isError`). `result` is its `CallToolResult`, as it came."""

    code = TOOL_FAILED

    def __init__(self, tool: str, result: JsonObject) -> None:
        super().__init__(tool, text_of(result) or "the tool reports an error and does not say which")
        self.result = result


@dataclass(frozen=True)
class Outcome:
    """One call: `error` is None exactly when the tool answered and does not say that it failed."""

    name: str
    """As it was asked for."""
    tool: str | None = None
    """The registry's name of the tool; None where there is none."""
    result: JsonObject | None = None
    """The tool's `CallToolResult` (MCP 2026-07-28, Tools), also where it says that it failed."""
    error: ToolCallError | None = None
    warning: str | None = None
    """Parts of the structured content that do not fit the tool's `outputSchema`: one error a line."""
    attempts: int = 0
    """How often the tool was called."""
    seconds: float = 0.0
    """From first to last attempt, the pauses included."""

    @property
    def ok(self) -> bool:
        """Whether the tool did what it was asked."""
        return self.error is None

    @property
    def text(self) -> str:
        """The text blocks of the result, one per line; of a failure its message."""
        return str(self.error) if self.error is not None else text_of(self.result or {})

    @property
    def value(self) -> Any:
        """Value that the tool returned: `structuredContent` where it gave one, else `text`; None after a failure."""
        if self.error is not None or self.result is None:
            return None
        structured = self.result.get("structuredContent")
        return text_of(self.result) if structured is None else structured

    def unwrap(self) -> Any:
        """`value`. Raises `error` where there is one, for those who prefer exceptions."""
        if self.error is not None:
            raise self.error
        return self.value

    def as_result(self) -> JsonObject:
        """Result for a model: the tool's, or the error in the form of one (`isError`)."""
        if self.result is not None:
            return self.result
        error = self.error
        detail: JsonObject = {"code": error.code if error else "", "message": str(error)}
        if error is not None and error.retry_after is not None:
            detail["retryAfterMs"] = round(error.retry_after * 1000)
        content = [{"type": "text", "text": str(error)}]
        return {"content": content, "isError": True, "_meta": {META_ERROR: detail}}


def no_call(given: object) -> Outcome:
    """Outcome of a call that names no tool: of None, or of an object of a provider's SDK."""
    what = "None" if given is None else f"an object of type {type(given).__name__}"
    message = (
        f"{what} is not a call: give a tool's name, a Request or a ModelCall. A model's message goes to "
        "execute_message as a whole, also one without calls"
    )
    return Outcome("", error=InvalidArguments("", message, (message,)))


def text_of(result: JsonObject) -> str:
    """The text blocks of a result. Tolerant of every other shape."""
    content = result.get("content")
    blocks = content if isinstance(content, list) else []
    texts = [block["text"] for block in blocks if isinstance(block, dict) and isinstance(block.get("text"), str)]
    return "\n".join(texts)
