"""Settings of connections to servers."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from fairlead_api.environment import EnvironmentSettings, prefixed
from fairlead_api.setting_types import Count, OptionalSeconds, Seconds
from fairlead_mcp.egress_settings import EgressSettings


class PerClientSettings(EnvironmentSettings, frozen=True, kw_only=True):
    """Sessions of servers with `session: PerClient`."""

    most: Annotated[int, Meta(ge=1)] = field(default=100, name="upstream_sessions")
    """Clients at once that a server with `session: PerClient` has a session, or a process, for. At most half of them
    may have a task.
    """
    each: Annotated[int, Meta(ge=0)] = field(default=0, name="upstream_sessions_each")
    """Those of one agent, or of one address without a credential, that a call or a task uses at the same time; more
    are refused with `RATE_LIMITED`. 0: three quarters of all.
    """
    idle: Seconds = field(default=300.0, name="upstream_session_seconds")
    """How long one of them is kept without a call, with a task too."""


class UpstreamSettings(EnvironmentSettings, frozen=True, kw_only=True, rename=prefixed("upstream_")):
    """Calls to one server at once."""

    connections: Count = 64
    """Calls at once to one server, where it sets less; the rest waits."""
    waiting: Annotated[int, Meta(ge=0)] = 1024
    """Calls to one server that wait for another to end; more are refused."""
    queue_seconds: OptionalSeconds = 10.0
    """How long a call waits so before it is refused."""
    per_client: PerClientSettings = PerClientSettings()
    egress: EgressSettings = EgressSettings()
