"""Servers that list their tools only to users who have signed in. Pure.

Decides which refusals require a sign-in, builds the catalog that is published until a user signs in, and reads the
listings that gateways read with a user's token.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

import msgspec
from msgspec import Raw

from fairlead_api.documents.catalog import SIGN_IN_TOOL, Catalog, Credential, Endpoint, EventsEndpoint, HttpEndpoint
from fairlead_api.meta import ServerKey
from fairlead_api.reports import SENTENCE_CHARS, GrantedListing
from fairlead_api.v1alpha1.causes import Cause
from fairlead_api.v1alpha1.mcpserver import Auth, McpServer, UserConsentAuth
from fairlead_mcp import eras, jsonrpc
from fairlead_mcp.credential_hosts import is_confidential
from fairlead_mcp.errors import HttpRefused, McpError
from fairlead_mcp.oauth.challenge import Challenge
from fairlead_mcp.server_listing import RawListing
from fairlead_operator.discovery.catalog_build import CallAccess, build_catalog
from fairlead_operator.discovery.state import DiscoveryState, RefusalMeaning
from fairlead_operator.ports import ConditionVerdict, Environment, ResolvedCredential
from fairlead_operator.server.presented_credentials import call_oauth_settings, present_client

_FRESH_INTERVALS: Final = 2
"""Number of discovery intervals for which a user's listing counts as fresh."""
_FRESH_SLACK_S: Final = 60.0
"""Seconds that are added to these intervals."""
_ONLY_EVENTS: Final = (
    "the server speaks only HTTP+SSE (MCP 2024-11-05) at this URL, where a connection carries one credential, but each "
    "user's calls have a token of their own: use the server's URL for streamable HTTP, often with /mcp in place of /sse"
)
NOT_SIGNED_IN: Final = (
    "the server lists its tools only to people who have signed in or entered their key, and it has accepted nobody yet"
)


@dataclass(frozen=True)
class UserListing:
    """A listing that a gateway read with a user's token."""

    uid: str
    """UID of the McpServer."""
    url: str
    """URL of the server that the gateway read the lists from."""
    at: float
    """When the gateway read the lists, in seconds since the epoch."""
    listing: RawListing | None
    """None if the gateway `refused` to report the lists."""
    refused: str = ""
    """Why the gateway does not report the lists; else empty."""

    def is_of(self, uid: str, endpoint: Endpoint) -> bool:
        """Whether the listing is of the server with this UID at this endpoint."""
        urls = [self.url]
        used_endpoint = None if self.listing is None else self.listing.endpoint
        if isinstance(used_endpoint, HttpEndpoint | EventsEndpoint):
            urls.append(used_endpoint.url)
        return self.uid == uid and all(is_same_url(endpoint, url) for url in urls)

    @property
    def by_events(self) -> bool:
        """Whether the server speaks only HTTP+SSE, which cannot send a token per call."""
        return self.listing is not None and isinstance(self.listing.endpoint, EventsEndpoint)


def read_user_listing(report: GrantedListing) -> tuple[ServerKey, UserListing] | None:
    """The server and the listing in a gateway's report; None if the listing cannot be decoded."""
    key = ServerKey(report.namespace, report.server)
    if report.refused:
        return key, UserListing(report.uid, report.url, report.at, None, report.refused[:SENTENCE_CHARS])
    try:
        listing = msgspec.json.decode(report.listing, type=RawListing)
    except jsonrpc.UNREADABLE:
        return None
    return key, UserListing(report.uid, report.url, report.at, listing)


def is_same_url(endpoint: Endpoint, url: str) -> bool:
    """Whether a URL is the URL of an HTTP endpoint, apart from a trailing slash of the path."""
    return isinstance(endpoint, HttpEndpoint) and _without_slash(endpoint.url) == _without_slash(url)


def _without_slash(url: str) -> tuple[str, str]:
    path, _, query = url.partition("?")
    return path.rstrip("/"), query


def refusal_meaning(server: McpServer, credential: Credential | None, environment: Environment) -> RefusalMeaning:
    """Meaning of a refusal of the operator's requests with this credential.

    On a laptop, users may be able to sign in to a server that is declared without a credential, unless their tokens
    would be readable on the network.
    """
    spec, is_local = server.spec, environment == "local"
    if spec.lists_with_first_grant(default=is_local):
        return RefusalMeaning.SIGN_IN
    headers = {} if credential is None else credential.headers
    sends_no_credential = spec.auth is None and "authorization" not in map(str.lower, headers)
    speaks_http = spec.url is not None and spec.effective_transport == "streamable-http"
    if is_local and sends_no_credential and speaks_http and is_confidential(spec.url or ""):
        return RefusalMeaning.SIGN_IN_IF_OFFERED
    return RefusalMeaning.FAILURE


def wants_sign_in(error: McpError, meaning: RefusalMeaning) -> bool:
    """Whether a server's refusal requires a user to sign in."""
    if not isinstance(error, HttpRefused) or error.status not in (401, 403):
        return False
    if meaning is RefusalMeaning.SIGN_IN:
        return True
    return may_want_sign_in(error, meaning) and Challenge.parse(error.challenge) is not None


def may_want_sign_in(error: McpError, meaning: RefusalMeaning) -> bool:
    """Whether a server's refusal means that a user has to sign in, provided that the server offers sign-ins."""
    asks_for_credential = isinstance(error, HttpRefused) and error.status == 401
    return asks_for_credential and meaning is RefusalMeaning.SIGN_IN_IF_OFFERED


def with_consent(server: McpServer, credential: ResolvedCredential) -> ResolvedCredential:
    """The credential of a server that users sign in to; without `auth`, as if its spec had `userConsent: {}`."""
    if server.spec.auth is not None:
        return credential
    spec = server.spec.model_copy(update={"auth": Auth(user_consent=UserConsentAuth())})
    oauth = call_oauth_settings(present_client(UserConsentAuth(), None), spec, first_grant=True)
    return replace(credential, oauth=oauth)


def sign_in_catalog(server: McpServer, access: CallAccess) -> Catalog:
    """Catalog that contains only the tool `sign_in`, which the gateway answers with a link."""
    name = server.metadata.name
    definition = {
        "name": SIGN_IN_TOOL,
        "title": f"Sign in at {name}",
        "description": f"{name} shows its tools after its user has signed in: call this tool to get a link, which the "
        "user opens in a browser.",
        "inputSchema": {"type": "object", "properties": {}, "additionalProperties": False},
        "annotations": {"openWorldHint": True},
    }
    listing = RawListing(
        eras.MODERN_VERSION, capabilities=Raw(b'{"tools":{}}'), tools=(Raw(msgspec.json.encode(definition)),)
    )
    catalog, _ = build_catalog(server, listing, access)
    tools = tuple(msgspec.structs.replace(tool, enabled=True) for tool in catalog.tools)
    return msgspec.structs.replace(catalog, tools=tools, sign_in=True)


def is_obsolete(state: DiscoveryState, stored_catalog: Catalog) -> bool:
    """Whether a stored catalog asks for a sign-in that the server's spec no longer requires."""
    return stored_catalog.sign_in and state.target.refusal is RefusalMeaning.FAILURE


def stored_listing(state: DiscoveryState, stored_catalog: Catalog | None) -> RawListing | None:
    """The listing from which a stored catalog was built, for a server that users sign in to and of which no gateway has
    reported a listing to this operator yet; None if there is another listing, or the endpoint has changed.
    """
    if not state.wants_sign_in or state.listing is not None or stored_catalog is None or stored_catalog.sign_in:
        return None
    if not isinstance(stored_catalog.endpoint, HttpEndpoint) or not is_same_url(
        state.target.endpoint, stored_catalog.endpoint.url
    ):
        return None
    return RawListing(
        protocol_version=stored_catalog.protocol_version,
        server_info=stored_catalog.server_info,
        capabilities=stored_catalog.capabilities,
        instructions=stored_catalog.instructions,
        tools=tuple(tool.definition for tool in stored_catalog.tools),
        resources=tuple(definition.definition for definition in stored_catalog.resources),
        resource_templates=tuple(definition.definition for definition in stored_catalog.resource_templates),
        prompts=tuple(definition.definition for definition in stored_catalog.prompts),
        skills=tuple(definition.definition for definition in stored_catalog.skills),
        requires={tool.name: tool.requires for tool in stored_catalog.tools if tool.requires},
        announced=stored_catalog.announced,
        gateways=stored_catalog.gateways,
        endpoint=stored_catalog.endpoint if stored_catalog.endpoint != state.target.endpoint else None,
    )


def published_listing(server: McpServer, state: DiscoveryState, listing: RawListing) -> RawListing:
    """The part of a listing that may be published: if it was read with a user's token, the tools and the lists in
    `discovery.shared`; else all of it.
    """
    return listing.with_shared(server.spec.discovery.shared) if state.wants_sign_in else listing


def verdict(
    state: DiscoveryState, listing_verdict: ConditionVerdict, interval: float, now: datetime
) -> ConditionVerdict:
    """The verdict Verified of a server that users sign in to. `listing_verdict` is the verdict about its listing,
    `interval` the discovery interval in seconds.
    """
    if state.only_events:
        return ConditionVerdict(False, Cause.UNSUPPORTED_VERSION, _ONLY_EVENTS)
    if state.listing is None and state.user_listing_refusal:
        return ConditionVerdict(False, Cause.LISTING_TOO_LARGE, state.user_listing_refusal)
    if state.listing is None:
        return ConditionVerdict(False, Cause.SIGN_IN_REQUIRED, not_signed_in(state))
    message = listing_verdict.message + _age(state, interval, now)
    if not state.user_listing_refusal:
        return ConditionVerdict(listing_verdict.ok, listing_verdict.cause, message)
    cause = Cause.VERIFIED_IN_PART if listing_verdict.cause is Cause.VERIFIED else listing_verdict.cause
    return ConditionVerdict(
        listing_verdict.ok, cause, f"{message}; the newest list is not used: {state.user_listing_refusal}"
    )


def not_signed_in(state: DiscoveryState) -> str:
    """Message that nobody has signed in. It quotes the server's refusal if that may have another reason."""
    return f"{NOT_SIGNED_IN}; the server refused: {state.refused}" if state.refused else NOT_SIGNED_IN


def ambiguous_refusal(error: McpError) -> str:
    """Text of a refusal that may have another reason than the missing sign-in, such as a firewall: 403 without a
    challenge. Empty for other refusals.
    """
    is_ambiguous = isinstance(error, HttpRefused) and error.status == 403 and Challenge.parse(error.challenge) is None
    return error.problem[:SENTENCE_CHARS] if is_ambiguous else ""


def prefers_user_listing(state: DiscoveryState, interval: float, now: float) -> bool:
    """Whether the listing that was read with a user's token takes precedence over a listing without token, which may
    lack tools. It does as long as gateways renew it.

    `interval` is the discovery interval in seconds, `now` in seconds since the epoch.
    """
    if state.target.refusal is RefusalMeaning.FAILURE or state.listing is None:
        return False
    return _is_fresh(state, interval, now)


def _is_fresh(state: DiscoveryState, interval: float, now: float) -> bool:
    return state.granted_at > 0 and now - state.granted_at <= _FRESH_INTERVALS * interval + _FRESH_SLACK_S


def _age(state: DiscoveryState, interval: float, now: datetime) -> str:
    """Clause about the age of a user's listing. It contains no time while the listing is fresh, so that a renewed
    listing does not change the status.
    """
    if not state.granted_at:
        return "; listed with the grant of a user before this operator started: sign in again to renew the list"
    if _is_fresh(state, interval, now.timestamp()):
        return "; listed with the grant of a user who signed in"
    listed_at = datetime.fromtimestamp(state.granted_at, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"; listed with the grant of a user, for the last time on {listed_at}: sign in again to renew the list"
