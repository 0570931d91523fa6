"""How one server is reached: what all requests to it have in common."""

from __future__ import annotations

import msgspec

from fairlead_gateway.core.ports import AdmissionGuard, Upstream
from fairlead_gateway.core.server import Server


class ServerBinding(msgspec.Struct, frozen=True):
    """One server, for requests other than tool calls and as what its tools have in common."""

    server: Server
    upstream: Upstream
    guard: AdmissionGuard
    timeout: float
    """Seconds that a request may take."""
    max_bytes: int
    """Bound of a result."""
    server_info: bytes
    """Raw, for results that carry it; never without name and version."""
    retries: int = 0
    """Attempts after the first."""
    max_timeout: float = 0.0
    """Seconds that a request may take that goes on reporting progress."""
    caller_deadline: bool = False
    """Whether `timeout` is the caller's own or that of a tier, and says nothing of the server."""
