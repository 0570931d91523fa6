"""Settings of the console."""

from __future__ import annotations

from msgspec import field

from fairlead_api.environment import CommaSeparated, EnvironmentSettings, prefixed
from fairlead_api.setting_types import HttpUrl, TraceUrl


class ConsoleSettings(EnvironmentSettings, frozen=True, kw_only=True, rename=prefixed("console_")):
    """Console."""

    enabled: bool = field(default=True, name="console")
    """Whether the gateway serves its console at `/console/`: pages of what the REST API tells the same principal."""
    client_id: str = ""
    """Id of the console as a client of an issuer in `identity`. With it people sign in by OpenID Connect."""
    client_secret: str = ""
    """Secret of that client, where it has one; without it the client is a public one, and PKCE alone protects codes."""
    scopes: CommaSeparated = ()
    """Scopes to ask for beside `openid` and those that every token must have, such as `groups`."""
    issuer: str = ""
    """Which issuer signs people in, by its name or URL; needed where there are several."""
    url: HttpUrl = ""
    """Where browsers reach the console, such as `https://tools.example.com`; by default `public_url`. The provider
    sends them back to `/console/sign-in/oidc/callback` there.
    """
    trace_url: TraceUrl = ""
    """Where a trace is looked at, with `{trace_id}` in place of its id, such as
    `https://grafana.example.com/explore?traceId={trace_id}`: pages of calls link there.
    """
