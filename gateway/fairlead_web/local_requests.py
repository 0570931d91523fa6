"""Recognizes requests from this machine that come from the user that runs the gateway."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request

from fairlead_gateway.core.identity import BY_OWNER
from fairlead_gateway.core.request import FORWARDED
from fairlead_mcp.addresses import is_loopback

_FORWARDED: Final = tuple(name.decode() for name in FORWARDED)


def is_local(request: Request) -> bool:
    """Whether a request comes from this machine, and from the user that runs the gateway. False for a request that a
    proxy forwards, because its sender may be on any machine.
    """
    host = request.client.host if request.client is not None else ""
    is_direct = is_loopback(host) and not any(name in request.headers for name in _FORWARDED)
    return is_direct and bool(request.scope[BY_OWNER]())
