"""Messages to clients about transport errors, without the server's address. No I/O."""

from __future__ import annotations

from typing import Final

from fairlead_mcp.errors import ConnectFailed, HttpRefused

_CONNECT_MESSAGES: Final = {
    "ConnectionRefused": "the server refuses connections",
    "UnknownHost": "the host name of the server is unknown",
    "ConnectTimeout": "the server accepted no connection in time",
    "TLSFailed": "TLS with the server failed",
    "Unreachable": "the server cannot be reached",
    "AddressNotAllowed": "the server's address is not allowed",
}
"""Messages by reason of a ConnectFailed; its own message names host, port or address."""


def without_address(error: Exception) -> str:
    """Return the message of an error without host, port and address."""
    if isinstance(error, HttpRefused) and 300 <= error.status < 400:
        return f"the server redirects ({error.status}); redirects are not followed"
    message = _CONNECT_MESSAGES.get(error.reason) if isinstance(error, ConnectFailed) else None
    return str(error) if message is None else message
