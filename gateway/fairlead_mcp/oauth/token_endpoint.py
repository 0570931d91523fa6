"""Finds the token endpoint of one server: in the settings, or in the metadata of their issuer."""

from __future__ import annotations

import contextlib
from typing import Final, NamedTuple

from fairlead_api.documents.oauth import USER_CONSENT, OAuthSettings
from fairlead_mcp.addresses import authority
from fairlead_mcp.credential_hosts import hosts_allow
from fairlead_mcp.http.target import InvalidTarget, Target
from fairlead_mcp.oauth.discovery import check_issuer, discover_issuer
from fairlead_mcp.oauth.errors import (
    CONFIGURATION,
    HOST_NOT_ALLOWED,
    PROVIDER_ERROR,
    TIMEOUT,
    UNREACHABLE,
    GrantFailed,
)
from fairlead_mcp.oauth.metadata import require_confidential
from fairlead_mcp.oauth.shared_task import SharedTask
from fairlead_mcp.oauth.token_access import TokenAccess
from fairlead_mcp.oauth.token_http import TOKEN_ENDPOINT, TokenHttp, open_http

DISCOVERY_SECONDS: Final = 3_600.0
"""Time for which a discovered endpoint is used before the issuer's metadata is read again."""
RETRY_SECONDS: Final = 60.0
"""Minimum time between two discoveries while an endpoint is known."""
_TRANSIENT: Final = frozenset({PROVIDER_ERROR, TIMEOUT, UNREACHABLE})
"""Causes of a failed discovery after which the known endpoint remains in use."""


class ResolvedEndpoint(NamedTuple):
    """Token endpoint to which the client's secret may be sent."""

    url: str
    name: str
    """Host and port, for messages."""
    authentication_methods: tuple[str, ...]
    until: float
    """Monotonic seconds until which the discovery is fresh."""
    http: TokenHttp


class TokenEndpoint:
    """Finds the token endpoint. Concurrent callers share one discovery."""

    def __init__(self, settings: OAuthSettings, access: TokenAccess) -> None:
        self._settings = settings
        self._access = access
        self._endpoint: ResolvedEndpoint | None = None
        self._discovered_at = 0.0
        """Monotonic seconds of the last discovery."""
        self._checked_metadata: str | None = None
        """`resource_metadata` of the last challenge whose metadata was compared with the issuer; empty for the metadata
        at the well-known URLs; None before any comparison.
        """
        self._discovery: SharedTask[ResolvedEndpoint] | None = None
        self._discovery_metadata = ""
        """`resource_metadata` for which `_discovery` was started."""
        self._previous_http: TokenHttp | None = None
        """Connections to the previous endpoint, on which requests may still run."""

    async def find(self, resource_metadata: str = "") -> ResolvedEndpoint:
        """The endpoint, discovered if the settings name only an issuer. `resource_metadata` is the URL in the server's
        challenge. Raises GrantFailed.
        """
        while True:
            endpoint = self._endpoint
            is_fresh = endpoint is not None and self._access.monotonic() < endpoint.until
            if endpoint is not None and is_fresh and self._has_checked(resource_metadata):
                return endpoint
            discovery = self._discovery
            if discovery is None or not discovery.running:
                work = self._find(resource_metadata)
                discovery = self._discovery = SharedTask(work, f"discover {self._settings.issuer}")
                self._discovery_metadata = resource_metadata
            if resource_metadata in ("", self._discovery_metadata):
                return await discovery.result()
            with contextlib.suppress(GrantFailed):  # a discovery for another challenge, which may be the reason
                await discovery.result()

    def invalidate_discovery(self) -> None:
        """Discover the endpoint again before its next use, but not within RETRY_SECONDS of the last discovery."""
        if self._endpoint is not None and not self._settings.token_url:
            soonest = self._discovered_at + RETRY_SECONDS
            self._endpoint = self._endpoint._replace(until=min(self._endpoint.until, soonest))

    async def aclose(self) -> None:
        if self._discovery is not None:
            await self._discovery.aclose()
        if self._endpoint is not None:
            await self._endpoint.http.aclose()
        if self._previous_http is not None:
            await self._previous_http.aclose()

    def _has_checked(self, resource_metadata: str) -> bool:
        """Whether the server's metadata need not be read. With a `token_url`, it never is, so that servers with wrong
        metadata can be used.
        """
        return bool(self._settings.token_url) or not resource_metadata or resource_metadata == self._checked_metadata

    async def _find(self, resource_metadata: str) -> ResolvedEndpoint:
        settings = self._settings
        if settings.token_url:
            endpoint = await self._resolve(settings.token_url, (), float("inf"))
        else:
            endpoint = await self._discover()
            is_consent = settings.grant == USER_CONSENT
            await check_issuer(self._access, settings.issuer, resource_metadata, consent=is_consent)
            self._checked_metadata = resource_metadata
        previous = self._endpoint
        self._endpoint = endpoint
        if previous is not None and previous.http is not endpoint.http:
            unused_http = self._previous_http  # since the last discovery: no request takes that long
            self._previous_http = previous.http
            if unused_http is not None:
                await unused_http.aclose()
        return endpoint

    async def _discover(self) -> ResolvedEndpoint:
        previous = self._endpoint
        now = self._access.monotonic()
        if previous is not None and now < previous.until:
            return previous
        self._discovered_at = now
        try:
            metadata = await discover_issuer(self._access, self._settings.issuer, self._settings.ca_bundle)
        except GrantFailed as error:
            if previous is None or error.cause not in _TRANSIENT:
                raise
            return previous._replace(until=now + RETRY_SECONDS)
        methods = metadata.authentication_methods
        return await self._resolve(metadata.token_endpoint, methods, now + DISCOVERY_SECONDS)

    async def _resolve(self, url: str, methods: tuple[str, ...], until: float) -> ResolvedEndpoint:
        """The endpoint at `url`. Raises GrantFailed unless the client's secret may be sent to it."""
        target = endpoint_target(self._settings, url, TOKEN_ENDPOINT)
        previous = self._endpoint
        if previous is not None and previous.url == url:
            return previous._replace(authentication_methods=methods, until=until)
        http = await open_http(target, self._access, self._settings.ca_bundle, TOKEN_ENDPOINT)
        return ResolvedEndpoint(url, authority(target.host, target.port), methods, until, http)


def endpoint_target(settings: OAuthSettings, url: str, kind: str) -> Target:
    """Parse the URL of an endpoint. Raises GrantFailed unless the client's secret may be sent to it. `kind` names the
    endpoint in messages.
    """
    try:
        target = Target.from_url(url)
    except InvalidTarget as error:
        raise GrantFailed(f"the {kind} is invalid: {error}", cause=CONFIGURATION) from error
    require_confidential(url, kind)
    if not hosts_allow(settings.token_hosts or None, url):
        raise GrantFailed(
            f"the {kind} is at {authority(target.host, target.port)}, to which the client's secret may not be sent: "
            "add this host to the annotation fairlead.dev/hosts of its Secret",
            cause=HOST_NOT_ALLOWED,
        )
    return target
