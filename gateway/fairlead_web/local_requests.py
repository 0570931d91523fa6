"""Recognizes requests from this machine."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request

from fairlead_mcp.addresses import is_loopback

_FORWARDED: Final = ("forwarded", "x-forwarded-for")


def is_local(request: Request) -> bool:
    """Whether a request is from this machine. False for a request that a proxy forwards, as its sender may be
    anywhere.
    """
    host = request.client.host if request.client is not None else ""
    return is_loopback(host) and not any(name in request.headers for name in _FORWARDED)
