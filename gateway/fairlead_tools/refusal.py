"""Codes of refused calls, and the struct and exception that carry them.

Codes are part of the API: new codes may be added, existing codes are never renamed.
"""

from __future__ import annotations

from typing import Final

import msgspec

from fairlead_mcp.errors import McpError

META_ERROR: Final = "fairlead.dev/error"
META_WARNING: Final = "fairlead.dev/warning"
"""Member of `_meta` in a result that is passed on although it is faulty: `{code, message}`."""

INVALID_ARGUMENTS: Final = "INVALID_ARGUMENTS"
"""The arguments do not match the tool's inputSchema or a policy, or no request to its HTTP API can carry them."""
CONNECTION_LOST: Final = "CONNECTION_LOST"
"""The server cannot be reached, or the connection was lost during the call."""
STARTING: Final = "STARTING"
"""The server is starting and has not been ready yet."""
TIMEOUT: Final = "TIMEOUT"
"""The call exceeded its time limit and was canceled."""
RESULT_TOO_LARGE: Final = "RESULT_TOO_LARGE"
"""The result exceeds the size limit of the server."""
RATE_LIMITED: Final = "RATE_LIMITED"
"""A limit on concurrent calls, or on calls per minute, was reached."""
OVER_BUDGET: Final = "OVER_BUDGET"
"""The tool is too slow for the client's latency tier; the message names the tier that lists it."""
UPSTREAM_ERROR: Final = "UPSTREAM_ERROR"
"""The server refused the call, failed, or sent an answer that is not MCP."""
CREDENTIAL_UNAVAILABLE: Final = "CREDENTIAL_UNAVAILABLE"
"""There is no access token that the server accepts for the caller; the message says what to do."""
SIGN_IN_REQUIRED: Final = "SIGN_IN_REQUIRED"
"""The caller has to sign in to the server once; the message has the link, or says who can sign in."""
BREAKER_OPEN: Final = "BREAKER_OPEN"
"""The circuit breaker of the server is open: after several failures in a row, no calls are sent for some time."""
CANCELLED: Final = "CANCELLED"
"""The client canceled the call."""
MISSING_CLIENT_CAPABILITY: Final = "MISSING_CLIENT_CAPABILITY"
"""The tool requires a client capability that the client has not declared; the message names the capability."""
OUTPUT_SCHEMA_MISMATCH: Final = "OUTPUT_SCHEMA_MISMATCH"
"""Code of META_WARNING: the structured content does not fit the tool's `outputSchema`. The content is passed on
unchanged."""


class Refusal(msgspec.Struct, frozen=True):
    """Refused call: a code, a sentence for the model, and, if known, after how many milliseconds a retry makes
    sense.
    """

    code: str
    message: str
    retry_after_ms: int | None = None
    required: bytes | None = None
    """`data` (raw JSON) of the JSON-RPC error that modern clients get instead of a result; None: they get a result."""
    claims: str = ""
    """JSON that the client has to pass on as `claims` in a new authorization request (Microsoft Entra); or empty."""
    sign_in_url: str = ""
    """Page at which the caller can sign in to the server; or empty."""


class AdmissionRefused(McpError):
    """Refusal of a call by a circuit breaker or a limit. `code` is BREAKER_OPEN or RATE_LIMITED; `retry_after` is in
    seconds."""

    reason = "Refused"

    def __init__(self, message: str, *, code: str, retry_after: float) -> None:
        super().__init__(message)
        self.code = code
        self.retry_after = retry_after
