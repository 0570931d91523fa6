"""Check of access to the output of servers and to definitions that are held back. Only administrators have access; if
authentication is off, only programs on this machine.
"""

from __future__ import annotations

from starlette.requests import Request

from fairlead_gateway.core.identity import Identity
from fairlead_offers.problems import FORBIDDEN, Problem
from fairlead_rest.context import RestContext
from fairlead_web.local_requests import is_local


def admit(context: RestContext, request: Request, identity: Identity, data_is: str = "output of servers is") -> None:
    """Raise Problem for principals that may not read the output of servers. `data_is` begins the message; pass another
    text if the request is for other data that only administrators may read.
    """
    if not context.administers(identity):
        raise Problem(FORBIDDEN, f"{data_is} shown only to administrators; {context.administration.who}")
    if context.guard.identities.open and not is_local(request):
        raise Problem(
            FORBIDDEN,
            f"{data_is} shown only to programs on the gateway's machine, because authentication is off; with "
            f"authentication, {data_is} shown to administrators; {context.administration.who}",
        )


def may_read(context: RestContext, request: Request, identity: Identity) -> bool:
    """Whether a principal may read the output of servers."""
    return context.administers(identity) and (not context.guard.identities.open or is_local(request))
