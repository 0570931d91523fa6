"""Dependencies of `Registry` and `UpstreamFactory` on the rest of the gateway."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from fairlead_api.meta import ServerKey
from fairlead_gateway.core.credentials import Credentials
from fairlead_gateway.core.identity import Identity, SessionSubject
from fairlead_gateway.core.ports import Upstream
from fairlead_gateway.core.sign_in import SignInLinks
from fairlead_gateway.upstream.server_session import CompleteElicitation, forward_nothing
from fairlead_mcp import eras
from fairlead_mcp.host import ChildHost
from fairlead_mcp.http.dial import Resolve
from fairlead_mcp.oauth.errors import GrantFailed
from fairlead_mcp.oauth.stored_grant import GrantStore

if TYPE_CHECKING:
    from fairlead_gateway.upstream.openapi import MakeResult


class UpstreamAccess(msgspec.Struct, frozen=True, kw_only=True):
    """Access of the gateway to servers. Without `children`, the gateway cannot run child processes. With
    `shared_children`, the operator runs them.
    """

    client: eras.Client
    installation: str
    """Value of `Via` in requests (RFC 9110, 7.6.3)."""
    credentials: Credentials
    resolve: Callable[[ServerKey], Resolve]
    """Returns the resolver for a server's host."""
    resolve_recent: Callable[[ServerKey], Resolve]
    """Returns a resolver for a server's host that shares the look-ups of a second (`CachedNames.recent`)."""
    children: ChildHost | None
    shared_children: bool
    local: Callable[[int], Upstream]
    """Creates the upstream of the gateway's own tools, for the given number of concurrent calls."""
    make_result: MakeResult
    """Makes the results of large answers of HTTP APIs."""
    keep_tokens: Callable[[bool], None] = lambda _: None
    """Called with True if any server needs the raw tokens of callers (RFC 8693), else with False."""
    observe_grant: Callable[[ServerKey, Identity, GrantFailed | None, float], None] = lambda *_: None
    """`ObserveOutcome` of the credentials of a server."""
    forget_grants: Callable[[ServerKey], None] = lambda _: None
    """Called when a server's credentials are replaced or removed: earlier outcomes say nothing about the new ones."""
    complete_elicitation: CompleteElicitation = forward_nothing
    """Forwards the notification that an elicitation is complete to the client, if the server sends it while no call of
    the client is running.
    """
    is_own_audience: Callable[[str], bool] = lambda _: False
    """Whether this gateway accepts tokens of an audience."""
    links: SignInLinks
    """Creates the links by which users sign in at servers."""
    session_subject: SessionSubject
    """Returns the provider's token of a caller who has a token of this gateway."""
    grants: GrantStore | None
    """Grants that users made for servers; None if none can be stored."""
