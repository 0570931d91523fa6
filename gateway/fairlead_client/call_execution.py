"""Executes a call of a tool: parses and validates arguments, makes attempts with pauses, and returns the outcome.

Errors of tools and servers are returned, not raised.
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
from fairlead_client.retry_policy import Retry, failure, handler_failure, refusal_of
from fairlead_client.tools import Tool
from fairlead_formats.messages.call import InvalidCall, read_arguments
from fairlead_formats.schema.nulls import remove_nulls
from fairlead_formats.schema.property_names import restore_names
from fairlead_formats.tool_format import JsonObject
from fairlead_mcp import tool_results
from fairlead_mcp.backoff import Backoff
from fairlead_mcp.capabilities import missing_capability_message
from fairlead_mcp.errors import McpError
from fairlead_tools.handlers.problems import HandlerFailed
from fairlead_tools.refusal import MISSING_CLIENT_CAPABILITY, UPSTREAM_ERROR
from fairlead_tools.validation.schema_cache import Checks

Call: TypeAlias = Callable[[Tool, bytes, float], Awaitable[Raw]]
"""Makes one attempt with a tool, raw arguments and a timeout in seconds. Raises McpError and HandlerFailed."""

_COMPLETE: Final = "complete"
_NO_RESULT: Final = Raw(b"{}")
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Executor:
    """Calls tools with retries. `random` returns numbers from 0 to 1, which vary the pauses between attempts."""

    def __init__(self, call: Call, *, random: Callable[[], float] = randomness.random) -> None:
        self._call = call
        self._random = random
        self._checks = Checks()

    async def run(self, name: str, tool: Tool, arguments: object, *, timeout: float, retry: Retry) -> Outcome:
        """Call a tool with the arguments of a model or program. `name` is the tool's name in the call; `timeout` is the
        timeout of one attempt, in seconds.
        """
        if tool.requires:
            message = missing_capability_message(tool.name, tool.requires)
            return Outcome(name, tool.name, error=ExecutionError(tool.name, message, code=MISSING_CLIENT_CAPABILITY))
        began = time.monotonic()
        raw = encode_arguments(tool, arguments)
        check = self._checks.of(tool.server, tool.own_name, tool.raw, tool.key)
        if not isinstance(raw, InvalidArguments) and (problems := check.arguments(raw)) is not None:
            message = f"the arguments of {tool.name} do not match its inputSchema: {problems}"
            raw = InvalidArguments(tool.name, message, tuple(problems.splitlines()))
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
            pause = max(backoff.delay_after(0.0), error.retry_after or 0.0)
            if pause > retry.longest:
                break
            await asyncio.sleep(pause)
        warning = check.result(answer) if check.declares_output and error is None else None
        return Outcome(name, tool.name, result, error, warning, attempts, time.monotonic() - began)

    async def _attempt(
        self, tool: Tool, raw: bytes, timeout: float, retry: Retry
    ) -> tuple[JsonObject | None, ToolCallError | None, bytes | Raw]:
        """Make one attempt. Returns the decoded result, the error, and the raw result; the first two may be None."""
        repeatable = retry.repeatable or tool.repeatable
        try:
            answer, result = _decode_result(await self._call(tool, raw, timeout))
        except McpError as error:
            return None, failure(tool.name, error, repeatable=repeatable), _NO_RESULT
        except HandlerFailed as handler_error:
            return None, handler_failure(tool.name, handler_error.cause), _NO_RESULT
        except (msgspec.DecodeError, RecursionError) as error:
            message = f"the result of {tool.name} cannot be decoded: {error}"
            return None, ExecutionError(tool.name, message, code=UPSTREAM_ERROR, cause=error), _NO_RESULT
        kind = result.get("resultType", _COMPLETE)
        if kind != _COMPLETE:
            message = f"{tool.name} returned a result of type {str(kind)[:40]}, which a tool registry does not support"
            return None, ExecutionError(tool.name, message, code=UPSTREAM_ERROR), answer
        reported_error = refusal_of(tool.name, result, repeatable=repeatable)
        if reported_error is None and result.get("isError") is True:
            reported_error = ToolFailed(tool.name, result)
        return result, reported_error, answer


def _decode_result(answer: Raw) -> tuple[bytes | Raw, JsonObject]:
    """Decode a result and adapt it to MCP's schema. Returns the adapted result, first raw, then decoded."""
    result = _decode(answer)
    if result.get("resultType") not in (None, _COMPLETE):
        return answer, result
    repaired = tool_results.conform(answer)
    return (answer, result) if repaired is answer else (repaired, _decode(repaired))


def encode_arguments(tool: Tool, arguments: object) -> bytes | InvalidArguments:
    """Parse arguments and encode them for a tool. Original property names are restored. Nulls for optional properties
    are removed: in strict mode, a model cannot leave a property out and sends null instead. Returns the error if the
    arguments are not a JSON object.
    """
    call = arguments if isinstance(arguments, InvalidCall) else read_arguments(arguments)
    if isinstance(call, InvalidCall):
        return InvalidArguments(tool.name, call.reason, (call.reason,))
    return _encode(remove_nulls(restore_names(call, tool.other_names) if tool.other_names else call, tool.input_schema))
