"""Servers that list their tools only to users who have signed in: the credential, the catalog until somebody signs in,
and the listing that a gateway read with a user's token. Pure.
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
from fairlead_operator.discovery.catalog_build import Reached, build_catalog
from fairlead_operator.discovery.state import DiscoveryState, RefusalMeaning
from fairlead_operator.ports import ConditionVerdict, Environment, ResolvedCredential
from fairlead_operator.server.presented_credentials import call_oauth_settings, present_client

_FRESH_INTERVALS: Final = 2
_FRESH_SLACK_S: Final = 60.0
"""Seconds that are added to the server's intervals for which a granted listing counts as fresh."""
_ONLY_EVENTS: Final = (
    "the server only speaks HTTP+SSE (MCP 2024-11-05) at this URL, whose connections carry the credential, while each "
    "person's calls have a token of their own: use its URL for streamable HTTP, often with /mcp in place of /sse"
)
NOT_SIGNED_IN: Final = "the server lists its tools only to people who have signed in, and nobody has yet"


@dataclass(frozen=True)
class TakenListing:
    """A listing that a gateway read with a user's token."""

    uid: str
    url: str
    at: float
    """When it was listed, in seconds since the epoch."""
    listing: RawListing | None
    """None if it was `refused`."""
    refused: str = ""
    """Why the gateway does not report the lists."""

    def is_of(self, uid: str, endpoint: Endpoint) -> bool:
        """Whether the listing is of the server with this UID at this endpoint."""
        reached = None if self.listing is None else self.listing.endpoint
        places = [self.url, *([reached.url] if isinstance(reached, HttpEndpoint | EventsEndpoint) else [])]
        return self.uid == uid and all(is_same_place(endpoint, url) for url in places)

    @property
    def by_events(self) -> bool:
        """Whether the server only speaks HTTP+SSE, over which calls cannot have tokens of their own."""
        return self.listing is not None and isinstance(self.listing.endpoint, EventsEndpoint)


def read_granted(granted: GrantedListing) -> tuple[ServerKey, TakenListing] | None:
    """The server and the listing of a report; None if it cannot be read."""
    key = ServerKey(granted.namespace, granted.server)
    if granted.refused:
        return key, TakenListing(granted.uid, granted.url, granted.at, None, granted.refused[:SENTENCE_CHARS])
    try:
        listing = msgspec.json.decode(granted.listing, type=RawListing)
    except jsonrpc.UNREADABLE:
        return None
    return key, TakenListing(granted.uid, granted.url, granted.at, listing)


def is_same_place(endpoint: Endpoint, url: str) -> bool:
    """Whether a URL is that of an HTTP endpoint. A trailing slash of the path makes no difference."""
    return isinstance(endpoint, HttpEndpoint) and _without_slash(endpoint.url) == _without_slash(url)


def _without_slash(url: str) -> tuple[str, str]:
    path, _, query = url.partition("?")
    return path.rstrip("/"), query


def refusal_meaning(server: McpServer, credential: Credential | None, environment: Environment) -> RefusalMeaning:
    """Meaning of a refusal of the operator's requests with this credential. On a laptop, a server that is declared
    without a credential may be one that users sign in to, unless their tokens would be readable on the network.
    """
    spec, local = server.spec, environment == "local"
    if spec.lists_with_first_grant(default=local):
        return RefusalMeaning.SIGN_IN
    headers = {} if credential is None else credential.headers
    is_bare = spec.auth is None and "authorization" not in map(str.lower, headers)
    speaks_http = spec.url is not None and spec.effective_transport == "streamable-http"
    if local and is_bare and speaks_http and is_confidential(spec.url or ""):
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
    """Whether a server's refusal may mean that a user has to sign in; it does if the server also offers sign-ins."""
    asks_for_credential = isinstance(error, HttpRefused) and error.status == 401
    return asks_for_credential and meaning is RefusalMeaning.SIGN_IN_IF_OFFERED


def with_consent(server: McpServer, credential: ResolvedCredential) -> ResolvedCredential:
    """The credential of a server that people sign in to; without `auth`, as if its spec had `userConsent: {}`."""
    if server.spec.auth is not None:
        return credential
    spec = server.spec.model_copy(update={"auth": Auth(user_consent=UserConsentAuth())})
    oauth = call_oauth_settings(present_client(UserConsentAuth(), None), spec, first_grant=True)
    return replace(credential, oauth=oauth)


def sign_in_catalog(server: McpServer, reached: Reached) -> Catalog:
    """Catalog that contains only the tool `sign_in`, which the gateway answers with a link."""
    name = server.metadata.name
    definition = {
        "name": SIGN_IN_TOOL,
        "title": f"Sign in at {name}",
        "description": f"{name} shows its tools after its user has signed in: call this tool for a link, which the "
        "user opens in a browser.",
        "inputSchema": {"type": "object", "properties": {}, "additionalProperties": False},
        "annotations": {"openWorldHint": True},
    }
    listing = RawListing(
        eras.MODERN_VERSION, capabilities=Raw(b'{"tools":{}}'), tools=(Raw(msgspec.json.encode(definition)),)
    )
    catalog, _ = build_catalog(server, listing, reached)
    tools = tuple(msgspec.structs.replace(tool, enabled=True) for tool in catalog.tools)
    return msgspec.structs.replace(catalog, tools=tools, sign_in=True)


def is_needless(state: DiscoveryState, stored: Catalog) -> bool:
    """Whether a stored catalog asks for a sign-in that the server's spec no longer requires."""
    return stored.sign_in and state.target.refusal is RefusalMeaning.FAILURE


def stored_listing(state: DiscoveryState, stored: Catalog | None) -> RawListing | None:
    """The listing that a stored catalog was built from, for a server that people sign in to and that no gateway has
    listed for this operator yet; None if there is another listing, or the catalog is of another endpoint.
    """
    if not state.wants_sign_in or state.listing is not None or stored is None or stored.sign_in:
        return None
    if not isinstance(stored.endpoint, HttpEndpoint) or not is_same_place(state.target.endpoint, stored.endpoint.url):
        return None
    return RawListing(
        protocol_version=stored.protocol_version,
        server_info=stored.server_info,
        capabilities=stored.capabilities,
        instructions=stored.instructions,
        tools=tuple(tool.definition for tool in stored.tools),
        resources=tuple(definition.definition for definition in stored.resources),
        resource_templates=tuple(definition.definition for definition in stored.resource_templates),
        prompts=tuple(definition.definition for definition in stored.prompts),
        skills=tuple(definition.definition for definition in stored.skills),
        requires={tool.name: tool.requires for tool in stored.tools if tool.requires},
        announced=stored.announced,
        gateways=stored.gateways,
        endpoint=stored.endpoint if stored.endpoint != state.target.endpoint else None,
    )


def published_listing(server: McpServer, state: DiscoveryState, listing: RawListing) -> RawListing:
    """The published part of a listing: with a user's token, the tools and what `discovery.shared` names."""
    return listing.with_shared(server.spec.discovery.shared) if state.wants_sign_in else listing


def verdict(state: DiscoveryState, of_listing: ConditionVerdict, interval: float, now: datetime) -> ConditionVerdict:
    """The verdict Verified of a server that people sign in to. `of_listing` is that about its listing, `interval` that
    of its discovery in seconds.
    """
    if state.only_events:
        return ConditionVerdict(False, Cause.UNSUPPORTED_VERSION, _ONLY_EVENTS)
    if state.listing is None and state.granted_refused:
        return ConditionVerdict(False, Cause.LISTING_TOO_LARGE, state.granted_refused)
    if state.listing is None:
        return ConditionVerdict(False, Cause.SIGN_IN_REQUIRED, not_signed_in(state))
    message = of_listing.message + _age(state, interval, now)
    if not state.granted_refused:
        return ConditionVerdict(of_listing.ok, of_listing.cause, message)
    cause = Cause.VERIFIED_IN_PART if of_listing.cause is Cause.VERIFIED else of_listing.cause
    return ConditionVerdict(of_listing.ok, cause, f"{message}; the newest list is not used: {state.granted_refused}")


def not_signed_in(state: DiscoveryState) -> str:
    """Sentence that nobody has signed in. It quotes a refusal that may have another reason, such as a firewall: 403
    without a challenge.
    """
    return f"{NOT_SIGNED_IN}; the server refused: {state.refused}" if state.refused else NOT_SIGNED_IN


def odd_refusal(error: McpError) -> str:
    """The words of a refusal that does not ask for a credential; else empty. See `not_signed_in`."""
    is_odd = isinstance(error, HttpRefused) and error.status == 403 and Challenge.parse(error.challenge) is None
    return error.problem[:SENTENCE_CHARS] if is_odd else ""


def keeps_granted(state: DiscoveryState, interval: float, now: float) -> bool:
    """Whether a listing with a user's token goes before what the server lists without one, which may be less: while
    gateways renew it. `interval` is that of the discovery, `now` in seconds since the epoch.
    """
    if state.target.refusal is RefusalMeaning.FAILURE or state.listing is None:
        return False
    return _is_fresh(state, interval, now)


def _is_fresh(state: DiscoveryState, interval: float, now: float) -> bool:
    return state.granted_at > 0 and now - state.granted_at <= _FRESH_INTERVALS * interval + _FRESH_SLACK_S


def _age(state: DiscoveryState, interval: float, now: datetime) -> str:
    """Clause about the age of a granted listing; without a time while it is fresh, so that the next one does not change
    the status.
    """
    if not state.granted_at:
        return "; listed with the grant of a user before this operator started: who signs in again renews the list"
    if _is_fresh(state, interval, now.timestamp()):
        return "; listed with the grant of a user who signed in"
    listed = datetime.fromtimestamp(state.granted_at, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"; listed with the grant of a user, for the last time on {listed}: who signs in again renews the list"
