"""Explains why no connection could be opened, from errors of the resolver, of TLS and of the operating system. No I/O.

The texts of such errors are of no use to a user: asyncio's say `Connect call failed` in place of the cause, and the
numbers of the resolver and of TLS are not those of the operating system, so `os.strerror` names another cause.
"""

from __future__ import annotations

import os
import socket
import ssl
from typing import Final

from fairlead_mcp.errors import ConnectFailed

_OTHER_HOST: Final = frozenset({62, 64})
"""OpenSSL's codes of certificates for another host name and for another IP address, whose texts contain the host."""


def connect_error(
    error: Exception, peer: str, *, tls: bool, certificate_host: str = "its host", from_resolver: bool = False
) -> ConnectFailed:
    """Make the exception for a failure to connect to `peer`, such as `example.com:443`. Its message has no other
    address.

    `tls`: whether the connection was to use TLS. `certificate_host`: the host name that the certificate must be valid
    for. `from_resolver`: whether `error` is that of a resolver; a `socket.gaierror` always is.
    """
    if isinstance(error, socket.gaierror) or from_resolver:
        reason = getattr(error, "strerror", None) or type(error).__name__
        return ConnectFailed(f"the host name of {peer} cannot be resolved ({reason})", reason="UnknownHost")
    if isinstance(error, ConnectionRefusedError):
        return ConnectFailed(f"{peer} refused the connection", reason="ConnectionRefused")
    if isinstance(error, ssl.SSLError) and error.reason == "WRONG_VERSION_NUMBER":
        message = f"{peer} does not speak TLS: use http:// instead of https://"
        return ConnectFailed(message, reason="InvalidURL")  # advice about certificates would lead away
    if isinstance(error, ssl.SSLError):
        return ConnectFailed(f"TLS with {peer} failed ({_tls_text(error, certificate_host)})", reason="TLSFailed")
    if tls and isinstance(error, ConnectionError):
        return ConnectFailed(f"TLS with {peer} failed ({_system_text(error)})", reason="TLSFailed")
    return ConnectFailed(f"{peer} cannot be reached ({_system_text(error)})")


def _tls_text(error: ssl.SSLError, certificate_host: str) -> str:
    if not isinstance(error, ssl.SSLCertVerificationError):
        return str(error)
    if error.verify_code in _OTHER_HOST:
        return f"the certificate is not valid for {certificate_host}"
    return f"certificate verify failed: {error.verify_message}"


def _system_text(error: Exception) -> str:
    """Describe the cause by the error's number, as the error's text may contain an address."""
    number = error.errno if isinstance(error, OSError) else None
    if number:
        return os.strerror(number)
    if isinstance(error, ConnectionError):  # asyncio's, while the connection is set up
        return "the connection was closed"
    return "none of its addresses accepts connections" if type(error) is OSError else type(error).__name__
