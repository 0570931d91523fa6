"""Refusals of calls of known tools: the codes of the gateway's contract, and what carries them.

Codes are added, never renamed. `refusals` makes results of them.
"""

from __future__ import annotations

from typing import Final

import msgspec

from fairlead_mcp.errors import McpError

META_ERROR: Final = "fairlead.dev/error"
META_WARNING: Final = "fairlead.dev/warning"
"""In a result that is passed on although something about it is wrong: `{code, message}`."""

INVALID_ARGUMENTS: Final = "INVALID_ARGUMENTS"
"""The arguments do not fit the tool, or its policy."""
CONNECTION_LOST: Final = "CONNECTION_LOST"
"""The server cannot be reached, or went away while it worked on the call."""
STARTING: Final = "STARTING"
"""The server of that name has not answered for the first time yet."""
TIMEOUT: Final = "TIMEOUT"
"""The call took longer than allowed and was cancelled."""
RESULT_TOO_LARGE: Final = "RESULT_TOO_LARGE"
"""The result exceeds the bound of this server."""
RATE_LIMITED: Final = "RATE_LIMITED"
"""More calls at once, or in this time, than allowed."""
OVER_BUDGET: Final = "OVER_BUDGET"
"""The tool is too slow for the tier that the client is in; the message names the tier that has it."""
UPSTREAM_ERROR: Final = "UPSTREAM_ERROR"
"""The server refused the call, failed, or answered with something that is not MCP."""
BREAKER_OPEN: Final = "BREAKER_OPEN"
"""The server failed several times in a row, and is left alone for a while."""
CANCELLED: Final = "CANCELLED"
"""The client gave the call up."""
MISSING_CLIENT_CAPABILITY: Final = "MISSING_CLIENT_CAPABILITY"
"""The tool asks something of its client that this one has not declared; the message names the capability."""
OUTPUT_SCHEMA_MISMATCH: Final = "OUTPUT_SCHEMA_MISMATCH"
"""In META_WARNING: the structured content does not fit the tool's `outputSchema`. It is passed on as it is."""


class Refusal(msgspec.Struct, frozen=True):
    """A code, a sentence for the model, and when it makes sense to try again, where that is known."""

    code: str
    message: str
    retry_after_ms: int | None = None
    required: bytes | None = None
    """`data` of the JSON-RPC error that a modern client gets in place of the result, raw JSON; None: the result."""


class AdmissionRefused(McpError):
    """A guard does not let a call through. `code` is BREAKER_OPEN or RATE_LIMITED, `retry_after` in seconds."""

    reason = "Refused"

    def __init__(self, message: str, *, code: str, retry_after: float) -> None:
        super().__init__(message)
        self.code = code
        self.retry_after = retry_after
