"""Settings of the console."""

from __future__ import annotations

from msgspec import field

from fairlead_api.environment import CommaSeparated, EnvironmentSettings, prefixed
from fairlead_api.setting_types import HttpUrl, TraceUrl


class ConsoleSettings(EnvironmentSettings, frozen=True, kw_only=True, rename=prefixed("console_")):
    """Console."""

    enabled: bool = field(default=True, name="console")
    """Whether the gateway serves the console at `/console/`. The console shows what the REST API returns to the
    principal.
    """
    client_id: str = ""
    """Client ID of the console at an issuer in `identity`, which enables the sign-in by OpenID Connect."""
    client_secret: str = ""
    """Client secret. Without a secret, the console is a public client, and only PKCE protects its codes."""
    scopes: CommaSeparated = ()
    """Scopes to request, such as `groups`, in addition to `openid` and the scopes that all tokens must have."""
    issuer: str = ""
    """Name or URL of the issuer for the sign-in; required if `identity` has several issuers."""
    url: HttpUrl = ""
    """URL of the console for browsers, such as `https://tools.example.com`; by default `public_url`. The provider
    redirects browsers to the path `/console/sign-in/oidc/callback` of this URL.
    """
    trace_url: TraceUrl = ""
    """URL of a trace in a trace viewer, with the placeholder `{trace_id}`, such as
    `https://grafana.example.com/explore?traceId={trace_id}`. Pages of calls link to the trace.
    """
