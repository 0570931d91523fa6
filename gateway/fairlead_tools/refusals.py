"""Converts errors to refusals, and refusals to `tools/call` results for clients. No I/O.

A failed call of a known tool is answered with a result with `isError`, so that the model reads the reason. The
refusal's code is in `_meta["fairlead.dev/error"]`. Only a call of an unknown tool gets a JSON-RPC error (-32602).
"""

from __future__ import annotations

import math
from typing import Final

from fairlead_api.meta import ServerKey
from fairlead_mcp import capabilities as client_capabilities
from fairlead_mcp import errors, jsonrpc, url_elicitation
from fairlead_mcp.oauth.errors import SIGN_IN_REQUIRED as SIGN_IN_CAUSE
from fairlead_mcp.oauth.errors import GrantFailed
from fairlead_mcp.url_elicitation import UrlElicitation
from fairlead_mcp.wording import without_address
from fairlead_tools.refusal import (
    CONNECTION_LOST,
    CREDENTIAL_UNAVAILABLE,
    INVALID_ARGUMENTS,
    META_ERROR,
    MISSING_CLIENT_CAPABILITY,
    RATE_LIMITED,
    RESULT_TOO_LARGE,
    SIGN_IN_REQUIRED,
    TIMEOUT,
    UPSTREAM_ERROR,
    AdmissionRefused,
    Refusal,
)

_CODES_BY_ERROR: Final[tuple[tuple[type[errors.McpError], str], ...]] = (
    (errors.ConnectFailed, CONNECTION_LOST),
    (errors.ConnectionLost, CONNECTION_LOST),
    (errors.Timeout, TIMEOUT),
    (errors.TooLarge, RESULT_TOO_LARGE),
    (errors.PoolFull, RATE_LIMITED),
    (errors.HeldUp, RATE_LIMITED),
    (errors.ArgumentsRefused, INVALID_ARGUMENTS),
)


def invalid_arguments(faults: str) -> Refusal:
    """Make the refusal of arguments that do not match the inputSchema; `faults` has one error per line."""
    fault_lines = "".join(f"\n- {line}" for line in faults.split("\n"))
    return Refusal(INVALID_ARGUMENTS, f"The arguments do not match the tool's inputSchema:{fault_lines}")


def missing_capability(tool: str, server: ServerKey, capabilities: tuple[str, ...]) -> Refusal:
    """Make the refusal for a client without the capabilities that a tool requires.

    Modern clients get the error MissingRequiredClientCapability (MCP 2026-07-28).
    """
    message = client_capabilities.missing_capability_message(f"{tool} of {server}", capabilities)
    return Refusal(
        MISSING_CLIENT_CAPABILITY, message, required=client_capabilities.missing_capability_data(capabilities)
    )


def limit_refusal(message: str, retry_after: float | None) -> Refusal:
    """Make the refusal of a call above a limit. `retry_after` is in seconds; None if waiting does not help."""
    retry_after_ms = None if retry_after is None else _in_milliseconds(retry_after)
    return Refusal(RATE_LIMITED, message[:1].upper() + message[1:], retry_after_ms)


def limit_of(error: Exception) -> str:
    """Return the scope of the limit that an error reports: `server`, or empty for other errors."""
    return "server" if isinstance(error, AdmissionRefused) and error.code == RATE_LIMITED else ""


def _in_milliseconds(seconds: float) -> int:
    return max(1, math.ceil(seconds * 1000))


def not_allowed(name: str, reason: str) -> str:
    """Make the message about a denied tool, for a principal that policies allow to read the reason (`denied:
    Explain`).
    """
    return f"The tool {name} is not allowed for you: {reason}"


def warning(code: str, message: str) -> bytes:
    """Make the raw value of META_WARNING."""
    return jsonrpc.encode({"code": code, "message": message})


def refusal_for(error: errors.McpError) -> Refusal:
    """Make the refusal for an error of the transport or of the server."""
    if isinstance(error, errors.RpcError):
        return _of_rpc_error(error)
    if isinstance(error, errors.HttpRefused):
        code = RATE_LIMITED if error.status == 429 else UPSTREAM_ERROR
        retry_after_s = error.retry_after_s
        return Refusal(code, without_address(error), None if retry_after_s is None else retry_after_s * 1000)
    if isinstance(error, AdmissionRefused):
        return Refusal(error.code, str(error), _in_milliseconds(error.retry_after))
    if isinstance(error, GrantFailed):
        if error.sign_in_url or error.cause == SIGN_IN_CAUSE:
            return _of_missing_grant(error)
        claims_clause = f"; the new token has to be requested with the claims {error.claims}" if error.claims else ""
        return Refusal(CREDENTIAL_UNAVAILABLE, f"{without_address(error)}{claims_clause}", claims=error.claims)
    for kind, code in _CODES_BY_ERROR:
        if isinstance(error, kind):
            return Refusal(code, without_address(error))
    return Refusal(UPSTREAM_ERROR, str(error))


def _of_missing_grant(error: GrantFailed) -> Refusal:
    message = str(error)
    if error.sign_in_url:
        message = url_elicitation.describe_pages([sign_in_page(error)])
    return Refusal(SIGN_IN_REQUIRED, message, sign_in_url=error.sign_in_url)


def sign_in_page(error: GrantFailed) -> UrlElicitation:
    """Make the page that a user has to open for a grant; `error` has a `sign_in_url`."""
    message = str(error)
    return UrlElicitation(error.sign_in_url, message[:1].upper() + message[1:])


def _of_rpc_error(error: errors.RpcError) -> Refusal:
    if error.code == jsonrpc.INVALID_PARAMS:
        return Refusal(INVALID_ARGUMENTS, str(error))
    if error.code == jsonrpc.MISSING_CLIENT_CAPABILITY:
        names = ", ".join(client_capabilities.names_in(error.data)) or "which the server does not name"
        message = f"The tool needs a client capability that this client has not declared ({names}): {error.message}"
        return Refusal(MISSING_CLIENT_CAPABILITY, message)
    pages = url_elicitation.pages_in_error(error)
    if pages:
        return Refusal(MISSING_CLIENT_CAPABILITY, url_elicitation.describe_pages(pages))
    return Refusal(UPSTREAM_ERROR, str(error))


def result(refusal: Refusal) -> bytes:
    """Make the raw `tools/call` result of a refusal, in the legacy form; `translate.result` makes the modern form."""
    detail: dict[str, str | int] = {"code": refusal.code, "message": refusal.message}
    if refusal.retry_after_ms is not None:
        detail["retryAfterMs"] = refusal.retry_after_ms
    if refusal.claims:
        detail["claims"] = refusal.claims
    if refusal.sign_in_url:
        detail["signInUrl"] = refusal.sign_in_url
    return b'{"content":[{"type":"text","text":%b}],"isError":true,"_meta":{"%b":%b}}' % (
        jsonrpc.encode(refusal.message),
        META_ERROR.encode(),
        jsonrpc.encode(detail),
    )
