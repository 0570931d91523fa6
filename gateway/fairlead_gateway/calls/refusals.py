"""Refusals of calls and their codes, the gateway's contract with clients.

Pure module. Whatever goes wrong behind a known tool reaches the model as a result that says so (`isError`), with
the code in `_meta["fairlead.dev/error"]`; only an unknown tool is a JSON-RPC error (-32602). Codes are added, never
renamed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from fairlead_api.meta import ServerKey
from fairlead_gateway.core import refusal as codes
from fairlead_gateway.core.refusal import Refusal
from fairlead_gateway.limits.limiter import Limited
from fairlead_gateway.upstream import guard
from fairlead_mcp import capabilities as client_capabilities
from fairlead_mcp import errors, jsonrpc
from fairlead_mcp.wording import without_address

if TYPE_CHECKING:
    from fairlead_gateway.core.route import Route

META_ERROR: Final = "fairlead.dev/error"
META_WARNING: Final = "fairlead.dev/warning"
"""In a result that is passed on although something about it is wrong: `{code, message}`."""

INVALID_ARGUMENTS: Final = codes.INVALID_ARGUMENTS
"""The arguments do not fit the tool."""
CONNECTION_LOST: Final = "CONNECTION_LOST"
"""The server cannot be reached, or went away while it worked on the call."""
STARTING: Final = "STARTING"
"""The server of that name has not answered for the first time yet."""
TIMEOUT: Final = "TIMEOUT"
"""The call took longer than allowed and was cancelled."""
RESULT_TOO_LARGE: Final = "RESULT_TOO_LARGE"
"""The result exceeds the bound of this server."""
RATE_LIMITED: Final = guard.RATE_LIMITED
"""More calls at once, or in this time, than allowed."""
OVER_BUDGET: Final = codes.OVER_BUDGET
"""The tool is too slow for the tier that the client is in; the message names the tier that has it."""
UPSTREAM_ERROR: Final = "UPSTREAM_ERROR"
"""The server refused the call, failed, or answered with something that is not MCP."""
BREAKER_OPEN: Final = guard.BREAKER_OPEN
"""The server failed several times in a row, and is left alone for a while."""
CANCELLED: Final = "CANCELLED"
"""The client gave the call up."""
MISSING_CLIENT_CAPABILITY: Final = codes.MISSING_CLIENT_CAPABILITY
"""The tool asks something of its client that this one has not declared; the message names the capability."""


OUTPUT_SCHEMA_MISMATCH: Final = "OUTPUT_SCHEMA_MISMATCH"
"""In META_WARNING: the structured content does not fit the tool's `outputSchema`. It is passed on as it is."""


_OF_ERROR: Final[tuple[tuple[type[errors.McpError], str], ...]] = (
    (errors.ConnectFailed, CONNECTION_LOST),
    (errors.ConnectionLost, CONNECTION_LOST),
    (errors.Timeout, TIMEOUT),
    (errors.TooLarge, RESULT_TOO_LARGE),
    (errors.PoolFull, RATE_LIMITED),
    (errors.HeldUp, RATE_LIMITED),
)


def invalid_arguments(wrong: str) -> Refusal:
    """Refusal of arguments that do not fit the input schema; `wrong` has one error a line."""
    listed = "".join(f"\n- {line}" for line in wrong.split("\n"))
    return Refusal(INVALID_ARGUMENTS, f"The arguments do not fit the tool's input schema:{listed}")


def lacking(tool: str, server: ServerKey, capabilities: tuple[str, ...]) -> Refusal:
    """Refusal for a client that has not declared what a tool requires. A modern one gets the error that the protocol
    has for it (MCP 2026-07-28, MissingRequiredClientCapability).
    """
    message = client_capabilities.sentence(f"{tool} of {server}", capabilities)
    return Refusal(MISSING_CLIENT_CAPABILITY, message, required=client_capabilities.required(capabilities))


def limited(found: Limited) -> Refusal:
    """Refusal of a call above a limit."""
    after = None if found.retry_after is None else _in_milliseconds(found.retry_after)
    return Refusal(RATE_LIMITED, found.message[:1].upper() + found.message[1:], after)


def limit_of(error: Exception) -> str:
    """Scope of the limit that an error of a guard is due to: `server`; empty for none."""
    return "server" if isinstance(error, guard.AdmissionRefused) and error.code == RATE_LIMITED else ""


def _in_milliseconds(seconds: float) -> int:
    return max(1, math.ceil(seconds * 1000))


def not_allowed(name: str, reason: str) -> str:
    """Message for a principal that may know why a tool is kept from it."""
    return f"Not allowed: {name}: {reason}"


def warning(code: str, message: str) -> bytes:
    """The value of META_WARNING, raw."""
    return jsonrpc.encode({"code": code, "message": message})


def refusal_for(error: errors.McpError) -> Refusal:
    """Refusal for an error of transport or of the server."""
    if isinstance(error, errors.RpcError):
        return _of_rpc_error(error)
    if isinstance(error, errors.HttpRefused):
        code = RATE_LIMITED if error.status == 429 else UPSTREAM_ERROR
        return Refusal(code, without_address(error), _milliseconds(error.retry_after))
    if isinstance(error, guard.AdmissionRefused):
        return Refusal(error.code, str(error), _in_milliseconds(error.retry_after))
    for kind, code in _OF_ERROR:
        if isinstance(error, kind):
            return Refusal(code, without_address(error))
    return Refusal(UPSTREAM_ERROR, str(error))


def timed_out(route: Route) -> str:
    """Message for a call that timed out at the server."""
    return f"{route.name} of {route.server.key} did not answer within {route.timeout:g} s, {route.bound_by}"


def _of_rpc_error(error: errors.RpcError) -> Refusal:
    if error.code == jsonrpc.INVALID_PARAMS:
        return Refusal(INVALID_ARGUMENTS, str(error))
    if error.code == jsonrpc.MISSING_CLIENT_CAPABILITY:
        named = ", ".join(client_capabilities.named(error.data)) or "which the server does not name"
        message = f"The tool needs a client capability that this client has not declared ({named}): {error.message}"
        return Refusal(MISSING_CLIENT_CAPABILITY, message)
    return Refusal(UPSTREAM_ERROR, str(error))


def _milliseconds(retry_after: str | None) -> int | None:
    """`Retry-After` in seconds (RFC 9110 section 10.2.3); its date form is not looked at."""
    if retry_after is None or not retry_after.isdigit() or len(retry_after) > 7:
        return None
    return int(retry_after) * 1000


def result(refusal: Refusal) -> bytes:
    """The refusal as a raw `tools/call` result in the legacy era; `translate.result` makes it a modern one."""
    detail: dict[str, str | int] = {"code": refusal.code, "message": refusal.message}
    if refusal.retry_after_ms is not None:
        detail["retryAfterMs"] = refusal.retry_after_ms
    return b'{"content":[{"type":"text","text":%b}],"isError":true,"_meta":{"%b":%b}}' % (
        jsonrpc.encode(refusal.message),
        META_ERROR.encode(),
        jsonrpc.encode(detail),
    )
