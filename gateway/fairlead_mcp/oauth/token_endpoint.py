"""Token endpoint of one server: set, or discovered from the issuer of the settings."""

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
"""Time for which a discovered endpoint is used, before the issuer's metadata is read again."""
RETRY_SECONDS: Final = 60.0
"""Shortest time between two discoveries, while an endpoint is known that may have moved."""
_PASSING: Final = frozenset({PROVIDER_ERROR, TIMEOUT, UNREACHABLE})
"""Causes for which an endpoint that was discovered before stays in use."""


class ResolvedEndpoint(NamedTuple):
    """Token endpoint to which the client's secret may be sent."""

    url: str
    name: str
    """Host and port, for messages."""
    authentication_methods: tuple[str, ...]
    until: float
    """Monotonic seconds until which its discovery is fresh."""
    http: TokenHttp


class TokenEndpoint:
    """Finds the token endpoint. Concurrent callers share one discovery."""

    def __init__(self, settings: OAuthSettings, access: TokenAccess) -> None:
        self._settings = settings
        self._access = access
        self._endpoint: ResolvedEndpoint | None = None
        self._discovered_at = 0.0
        """Monotonic seconds of the last discovery."""
        self._checked: str | None = None
        """`resource_metadata` of the last challenge that was compared with the issuer; empty for the well-known
        places, None before."""
        self._finding: SharedTask[ResolvedEndpoint] | None = None
        self._finding_for = ""
        """`resource_metadata` of `_finding`."""
        self._retired: TokenHttp | None = None
        """Connections to the endpoint before, as requests on them may still run."""

    async def find(self, resource_metadata: str = "") -> ResolvedEndpoint:
        """The endpoint; discovered where the settings name only an issuer. `resource_metadata` is the URL in the
        server's challenge. Raises GrantFailed.
        """
        while True:
            endpoint = self._endpoint
            fresh = endpoint is not None and self._access.monotonic() < endpoint.until
            if endpoint is not None and fresh and self._has_checked(resource_metadata):
                return endpoint
            finding = self._finding
            if finding is None or not finding.running:
                finding = self._finding = SharedTask(self._find(resource_metadata), f"discover {self._settings.issuer}")
                self._finding_for = resource_metadata
            if resource_metadata in ("", self._finding_for):
                return await finding.result()
            with contextlib.suppress(GrantFailed):  # another challenge, which may be at fault
                await finding.result()

    def doubt(self) -> None:
        """Discover the endpoint again before its next use, unless that was done within RETRY_SECONDS."""
        if self._endpoint is not None and not self._settings.token_url:
            soonest = self._discovered_at + RETRY_SECONDS
            self._endpoint = self._endpoint._replace(until=min(self._endpoint.until, soonest))

    async def aclose(self) -> None:
        if self._finding is not None:
            await self._finding.aclose()
        if self._endpoint is not None:
            await self._endpoint.http.aclose()
        if self._retired is not None:
            await self._retired.aclose()

    def _has_checked(self, resource_metadata: str) -> bool:
        """Whether the server's metadata may be left unread: always with a `token_url`, which is the way out for servers
        whose metadata is wrong.
        """
        return bool(self._settings.token_url) or not resource_metadata or resource_metadata == self._checked

    async def _find(self, resource_metadata: str) -> ResolvedEndpoint:
        settings = self._settings
        if settings.token_url:
            endpoint = await self._usable(settings.token_url, (), float("inf"))
        else:
            endpoint = await self._discover()
            consent = settings.grant == USER_CONSENT
            await check_issuer(self._access, settings.issuer, resource_metadata, consent=consent)
            self._checked = resource_metadata
        before = self._endpoint
        self._endpoint = endpoint
        if before is not None and before.http is not endpoint.http:
            unused = self._retired  # since the last discovery, which is longer than any request
            self._retired = before.http
            if unused is not None:
                await unused.aclose()
        return endpoint

    async def _discover(self) -> ResolvedEndpoint:
        before = self._endpoint
        now = self._access.monotonic()
        if before is not None and now < before.until:
            return before
        self._discovered_at = now
        try:
            metadata = await discover_issuer(self._access, self._settings.issuer, self._settings.ca_bundle)
        except GrantFailed as error:
            if before is None or error.cause not in _PASSING:
                raise
            return before._replace(until=now + RETRY_SECONDS)
        methods = metadata.authentication_methods
        return await self._usable(metadata.token_endpoint, methods, now + DISCOVERY_SECONDS)

    async def _usable(self, url: str, methods: tuple[str, ...], until: float) -> ResolvedEndpoint:
        """Make the endpoint. Raises GrantFailed unless the client's secret may be sent to it."""
        target = endpoint_target(self._settings, url, TOKEN_ENDPOINT)
        before = self._endpoint
        if before is not None and before.url == url:
            return before._replace(authentication_methods=methods, until=until)
        http = await open_http(target, self._access, self._settings.ca_bundle, TOKEN_ENDPOINT)
        return ResolvedEndpoint(url, authority(target.host, target.port), methods, until, http)


def endpoint_target(settings: OAuthSettings, url: str, kind: str) -> Target:
    """Parse the URL of an endpoint, of a `kind` for messages. Raises GrantFailed unless the client's secret may be sent
    to it.
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
