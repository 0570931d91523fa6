"""Check of access to the output of servers and to definitions that are held back. Only administrators have access; if
authentication is off, only programs on this machine.
"""

from __future__ import annotations

from starlette.requests import Request

from fairlead_gateway.core.identity import Identity
from fairlead_offers.problems import FORBIDDEN, Problem
from fairlead_rest.context import RestContext
from fairlead_web.local_requests import is_local


def admit(
    context: RestContext, request: Request, identity: Identity, message_start: str = "output of servers is"
) -> None:
    """Raise Problem for principals that may not read the output of servers. `message_start` begins the message; pass
    another text if the request is for other data that only administrators may read.
    """
    if not context.administers(identity):
        raise Problem(FORBIDDEN, f"{message_start} shown only to administrators; {context.administration.setting_hint}")
    if context.guard.identities.open and not is_local(request):
        raise Problem(
            FORBIDDEN,
            f"{message_start} shown only to programs on the gateway's machine, because authentication is off; with "
            f"authentication, {message_start} shown to administrators; {context.administration.setting_hint}",
        )


def may_read(context: RestContext, request: Request, identity: Identity) -> bool:
    """Whether a principal may read the output of servers."""
    return context.administers(identity) and (not context.guard.identities.open or is_local(request))
