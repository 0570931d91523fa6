"""One call of one tool: arguments read and checked, attempts, pauses, and what it all comes to.

Raises nothing for what a tool or a server does.
"""

from __future__ import annotations

import asyncio
import random as randomness
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Raw

from fairlead_client.outcomes import ExecutionError, InvalidArguments, Outcome, ToolCallError, ToolFailed
from fairlead_client.policy import Retry, failure, handler_failure, refusal_of
from fairlead_client.tools import Tool
from fairlead_formats.messages.call import InvalidCall, read_arguments
from fairlead_formats.schema.nulls import un_null
from fairlead_formats.schema.property_names import restore_names
from fairlead_formats.tool_format import JsonObject
from fairlead_mcp import tool_results
from fairlead_mcp.backoff import Backoff
from fairlead_mcp.capabilities import missing_capability_message
from fairlead_mcp.errors import McpError
from fairlead_tools.handlers.problems import HandlerFailed
from fairlead_tools.refusal import MISSING_CLIENT_CAPABILITY, UPSTREAM_ERROR
from fairlead_tools.validation.shelf import Checks

Call: TypeAlias = Callable[[Tool, bytes, float], Awaitable[Raw]]
"""Makes one attempt: the tool, raw arguments, seconds. Raises McpError and HandlerFailed."""

_COMPLETE: Final = "complete"
_NOTHING: Final = Raw(b"{}")
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Executor:
    """Calls tools with retries. `random`, from 0 to 1, spreads the pauses between attempts."""

    def __init__(self, call: Call, *, random: Callable[[], float] = randomness.random) -> None:
        self._call = call
        self._random = random
        self._checks = Checks()

    async def run(self, name: str, tool: Tool, given: object, *, timeout: float, retry: Retry) -> Outcome:
        """Call a tool with arguments as a model or a program gave them; `timeout` is that of one attempt."""
        if tool.requires:
            message = missing_capability_message(tool.name, tool.requires)
            return Outcome(name, tool.name, error=ExecutionError(tool.name, message, code=MISSING_CLIENT_CAPABILITY))
        began = time.monotonic()
        raw = arguments_of(tool, given)
        check = self._checks.of(tool.server, tool.own_name, tool.raw, tool.key)
        if not isinstance(raw, InvalidArguments) and (wrong := check.arguments(raw)) is not None:
            message = f"the arguments of {tool.name} do not fit: {wrong}"
            raw = InvalidArguments(tool.name, message, tuple(wrong.splitlines()))
        if isinstance(raw, InvalidArguments):
            return Outcome(name, tool.name, error=raw)
        timeout = timeout if tool.longest is None else min(timeout, tool.longest)
        backoff = Backoff(self._random, base=retry.first, cap=retry.longest)
        attempts = 0
        while True:
            attempts += 1
            result, error, answer = await self._attempt(tool, raw, timeout, retry)
            if error is None or not error.retryable or attempts == retry.attempts:
                break
            pause = max(backoff.after(0.0), error.retry_after or 0.0)
            if pause > retry.longest:
                break
            await asyncio.sleep(pause)
        warning = check.result(answer) if check.declares_output and error is None else None
        return Outcome(name, tool.name, result, error, warning, attempts, time.monotonic() - began)

    async def _attempt(
        self, tool: Tool, raw: bytes, timeout: float, retry: Retry
    ) -> tuple[JsonObject | None, ToolCallError | None, bytes | Raw]:
        """Result and error, and the raw result."""
        repeatable = retry.repeatable or tool.repeatable
        try:
            answer, result = _read(await self._call(tool, raw, timeout))
        except McpError as error:
            return None, failure(tool.name, error, repeatable=repeatable), _NOTHING
        except HandlerFailed as failed:
            return None, handler_failure(tool.name, failed.cause), _NOTHING
        except (msgspec.DecodeError, RecursionError) as error:
            message = f"the result of {tool.name} cannot be read: {error}"
            return None, ExecutionError(tool.name, message, code=UPSTREAM_ERROR, cause=error), _NOTHING
        kind = result.get("resultType", _COMPLETE)
        if kind != _COMPLETE:
            message = f"{tool.name} asks for more ({str(kind)[:40]}), which a registry cannot give"
            return None, ExecutionError(tool.name, message, code=UPSTREAM_ERROR), answer
        error_said = refusal_of(tool.name, result, repeatable=repeatable)
        if error_said is None and result.get("isError") is True:
            error_said = ToolFailed(tool.name, result)
        return result, error_said, answer


def _read(answer: Raw) -> tuple[bytes | Raw, JsonObject]:
    """The result of a call in the form that MCP has for it, raw and decoded."""
    result = _decode(answer)
    if result.get("resultType") not in (None, _COMPLETE):
        return answer, result
    strict = tool_results.conform(answer)
    return (answer, result) if strict is answer else (strict, _decode(strict))


def arguments_of(tool: Tool, given: object) -> bytes | InvalidArguments:
    """Raw arguments for the tool: read within bounds, under the original names of properties, and without the nulls by
    which a strict model leaves out what is optional.
    """
    call = given if isinstance(given, InvalidCall) else read_arguments(given)
    if isinstance(call, InvalidCall):
        return InvalidArguments(tool.name, call.reason, (call.reason,))
    return _encode(un_null(restore_names(call, tool.other_names) if tool.other_names else call, tool.input_schema))
