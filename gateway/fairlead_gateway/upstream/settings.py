"""Settings of connections to servers."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from fairlead_api.environment import EnvironmentSettings, prefixed
from fairlead_api.setting_types import Count, Seconds, SecondsOrZero, TokenDestinations
from fairlead_gateway.grants.settings import GrantSettings
from fairlead_mcp.egress_settings import EgressSettings


class PerClientSettings(EnvironmentSettings, frozen=True, kw_only=True):
    """Sessions of servers with `session: PerClient` or `auth.tokenExchange`."""

    max_sessions: Annotated[int, Meta(ge=1)] = field(default=100, name="upstream_sessions")
    """Limit on the sessions, or processes, of a server with `session: PerClient`; at most half of them may run a task.
    For a legacy server with `auth.tokenExchange`, limit on the sessions of users and clients.
    """
    each: Annotated[int, Meta(ge=0)] = field(default=0, name="upstream_sessions_each")
    """Limit on the sessions of one agent, or of one address without a credential, that are in use by a call or a task;
    further calls are refused with `RATE_LIMITED`. 0 stands for three quarters of all.
    """
    idle: Seconds = field(default=300.0, name="upstream_session_seconds")
    """Seconds without a call after which a session of a server with `session: PerClient` is ended, even with a task."""


class UpstreamSettings(EnvironmentSettings, frozen=True, kw_only=True, rename=prefixed("upstream_")):
    """Limits on the calls to one server."""

    connections: Count = 64
    """Limit on concurrent calls to one server; a server may set a lower one. Further calls wait."""
    waiting: Annotated[int, Meta(ge=0)] = 1024
    """Limit on the calls that wait for one server; further calls are refused."""
    queue_seconds: SecondsOrZero = 10.0
    """Seconds for which a call waits for a busy server before it is refused."""
    token_exchange_allowed: TokenDestinations = field(default=(), name="token_exchange_allowed")
    """Authorization servers to which `auth.tokenExchange` may send callers' tokens, besides the issuer of the token.
    Each is an issuer (whose token URL is discovered) or an exact token URL; `*` allows any. An authorization server
    that gets these tokens can call the gateway in the name of the callers. `fairlead up` sets `*`.
    """
    per_client: PerClientSettings = PerClientSettings()
    grants: GrantSettings = GrantSettings()
    egress: EgressSettings = EgressSettings()
