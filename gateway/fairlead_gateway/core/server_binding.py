"""Connection data and limits that all requests to one server share."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fairlead_gateway.core.outbound import CallCredentials
from fairlead_gateway.core.ports import AdmissionGuard, Upstream
from fairlead_gateway.core.server import Server


class ServerBinding(msgspec.Struct, frozen=True):
    """A server with its upstream, guard and limits; routes of its tools and all other requests use it."""

    server: Server
    upstream: Upstream
    guard: AdmissionGuard
    timeout: float
    """Timeout of a request in seconds."""
    max_bytes: int
    """Maximum number of bytes of a result."""
    server_info: bytes
    """Raw `serverInfo` for modern results; it always has a name and a version."""
    retries: int = 0
    """Attempts after the first."""
    max_timeout: float = 0.0
    """Maximum duration in seconds of a request that keeps reporting progress."""
    credentials: CallCredentials | None = None
    """Access tokens per call; None if `upstream` has the credential of all requests."""
    secret_arguments: Mapping[str, Mapping[str, str]] = {}
    """Values of hidden arguments, by the server's names of the tool and the argument."""
    caller_deadline: bool = False
    """Whether the caller or its tier set `timeout`, so that a timeout does not count against the server."""
