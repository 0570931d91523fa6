"""Decides who may read what servers print, and what of them is held back: administrators, or programs on this machine
without authentication.
"""

from __future__ import annotations

from typing import Final

from starlette.requests import Request

from fairlead_gateway.core.identity import Identity
from fairlead_mcp.addresses import is_loopback
from fairlead_offers.problems import FORBIDDEN, Problem
from fairlead_rest.context import RestContext

ADMINISTRATORS: Final = "administrators: see FAIRLEAD_ADMIN_GROUPS, of the chart gateway.settings.adminGroups"
"""Readers whom a refusal names, with the setting that makes them."""
_FORWARDED: Final = ("forwarded", "x-forwarded-for")


def admit(context: RestContext, request: Request, identity: Identity, what: str = "what servers print is") -> None:
    """Raises Problem for those who may not read what servers print, or `what` else administrators are shown."""
    if not context.administers(identity):
        raise Problem(FORBIDDEN, f"{what} shown to {ADMINISTRATORS}")
    if context.guard.identities.open and not is_here(request):
        raise Problem(
            FORBIDDEN,
            f"{what} shown to programs on the gateway's own machine, unless it asks who somebody is and they are in "
            "FAIRLEAD_ADMIN_GROUPS, of the chart gateway.settings.adminGroups",
        )


def may_read(context: RestContext, request: Request, identity: Identity) -> bool:
    """Whether a principal may read what servers print."""
    return context.administers(identity) and (not context.guard.identities.open or is_here(request))


def is_here(request: Request) -> bool:
    """Whether a request is from this machine. One that a proxy passed on may be from anywhere."""
    host = request.client.host if request.client is not None else ""
    return is_loopback(host) and not any(name in request.headers for name in _FORWARDED)
