"""Outcomes of calls through a registry: a result, or one of four errors, which the registry returns and never raises.

No I/O. The codes of the errors are those of the gateway's refusals (`fairlead_tools.refusals`) and the constants below.

    ToolCallError
      UnknownFunction     no tool has this name
      InvalidArguments    the arguments do not match the tool's schema, or are not a JSON object; nothing was called
      ExecutionError      the call failed without a result; the error has the cause, and whether a retry makes sense
      ToolFailed          the tool returned a result with `isError`; the error has the unchanged result
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from fairlead_formats.names import unknown_tool
from fairlead_formats.tool_format import JsonObject
from fairlead_tools.refusal import INVALID_ARGUMENTS, META_ERROR

UNKNOWN_TOOL: Final = "UNKNOWN_TOOL"
"""No tool has the name in the call. MCP servers answer such calls with the JSON-RPC error -32602."""
TOOL_FAILED: Final = "TOOL_FAILED"
CLOSED: Final = "CLOSED"
"""The registry was closed."""


class ToolCallError(Exception):
    """Base class of the errors. `str(error)` is a sentence for the model, `code` a stable word for programs."""

    code: str = "ERROR"
    retryable: bool = False
    """Whether the call may be repeated without harm and with a chance of another outcome."""
    retry_after: float | None = None
    """Seconds that the server asks to wait before a retry; None if the server did not say."""
    sign_in_url: str = ""
    """Page at which a person has to sign in before the call can be made (`SIGN_IN_REQUIRED`); or empty."""

    def __init__(self, tool: str, message: str) -> None:
        super().__init__(message)
        self.tool = tool
        """The name in the call."""


class UnknownFunction(ToolCallError):
    """No tool of this registry has the name. `did_you_mean` is the most similar name of a tool; None if none is
    similar.
    """

    code = UNKNOWN_TOOL

    def __init__(self, tool: str, did_you_mean: str | None = None) -> None:
        super().__init__(tool, unknown_tool(tool, did_you_mean))
        self.did_you_mean = did_you_mean


class InvalidArguments(ToolCallError):
    """The arguments are not valid. `problems` are sentences, each with the location (JSON Pointer, RFC 6901)."""

    code = INVALID_ARGUMENTS

    def __init__(self, tool: str, message: str, problems: tuple[str, ...] = ()) -> None:
        super().__init__(tool, message)
        self.problems = problems


class ExecutionError(ToolCallError):
    """The call failed without a result. `__cause__` is the underlying exception: a `fairlead_mcp.errors.McpError` of
    the connection, or the exception of a local handler. `code` is one of `refusals`, or `CLOSED`.
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
        claims: str = "",
        sign_in_url: str = "",
    ) -> None:
        super().__init__(tool, message)
        self.code = code
        self.retryable = retryable
        self.retry_after = retry_after
        self.claims = claims
        """JSON that the program passes on as `claims` in its next authorization request, where Microsoft Entra demands
        more of the person; empty for all other errors.
        """
        self.sign_in_url = sign_in_url
        self.__cause__ = cause

    @property
    def cause(self) -> BaseException | None:
        """The underlying exception; None if there is none."""
        return self.__cause__


class ToolFailed(ToolCallError):
    """The tool reported a failure (`isError`). `result` is its unchanged `CallToolResult`."""

    code = TOOL_FAILED

    def __init__(self, tool: str, result: JsonObject) -> None:
        super().__init__(tool, text_of(result) or "the tool reported an error without a message")
        self.result = result


@dataclass(frozen=True)
class Outcome:
    """Outcome of one call. `error` is None if the tool returned a result without `isError`."""

    name: str
    """The name in the call."""
    tool: str | None = None
    """The registry's name of the tool; None if no tool was found."""
    result: JsonObject | None = None
    """The tool's `CallToolResult` (MCP 2026-07-28, Tools), also if it reports a failure."""
    error: ToolCallError | None = None
    warning: str | None = None
    """Violations of the tool's `outputSchema` by the structured content, one per line."""
    attempts: int = 0
    """Number of attempts."""
    seconds: float = 0.0
    """Duration of all attempts, including the pauses between them."""

    @property
    def ok(self) -> bool:
        """Whether the call succeeded."""
        return self.error is None

    @property
    def text(self) -> str:
        """The text blocks of the result, one per line; after a failure, the error's message."""
        return str(self.error) if self.error is not None else text_of(self.result or {})

    @property
    def value(self) -> Any:
        """Value that the tool returned: `structuredContent` if there is one, else `text`; None after a failure."""
        if self.error is not None or self.result is None:
            return None
        structured_content = self.result.get("structuredContent")
        return text_of(self.result) if structured_content is None else structured_content

    def unwrap(self) -> Any:
        """Return `value`, or raise `error` if there is one."""
        if self.error is not None:
            raise self.error
        return self.value

    def as_result(self) -> JsonObject:
        """Result for a model: the tool's result, or the error as a result with `isError`."""
        if self.result is not None:
            return self.result
        error = self.error
        detail: JsonObject = {"code": error.code if error else "", "message": str(error)}
        if error is not None and error.retry_after is not None:
            detail["retryAfterMs"] = round(error.retry_after * 1000)
        if isinstance(error, ExecutionError) and error.claims:
            detail["claims"] = error.claims
        if error is not None and error.sign_in_url:
            detail["signInUrl"] = error.sign_in_url
        content = [{"type": "text", "text": str(error)}]
        return {"content": content, "isError": True, "_meta": {META_ERROR: detail}}


def invalid_call_outcome(value: object) -> Outcome:
    """Outcome for a value that is not a call, such as None or an object of a provider's SDK."""
    kind = "None" if value is None else f"an object of type {type(value).__name__}"
    message = (
        f"{kind} is not a valid call: pass a tool's name, a Request or a ModelCall. Pass a whole message of a model to "
        "execute_message, also one without calls"
    )
    return Outcome("", error=InvalidArguments("", message, (message,)))


def text_of(result: JsonObject) -> str:
    """The text blocks of a result, one per line; everything else is ignored."""
    content = result.get("content")
    blocks = content if isinstance(content, list) else []
    texts = [block["text"] for block in blocks if isinstance(block, dict) and isinstance(block.get("text"), str)]
    return "\n".join(texts)
