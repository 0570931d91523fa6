"""Token exchange in two steps by an identity assertion (ID-JAG, draft-ietf-oauth-identity-assertion-authz-grant
section 4).

First, the identity provider exchanges the user's token for an assertion. Then, the authorization server of the MCP
server exchanges the assertion for an access token. Each step has a client of its own. The assertion can be used once:
it is not stored, and it is never sent to the MCP server.
"""

from __future__ import annotations

import dataclasses
from typing import Final, NamedTuple

import msgspec

from fairlead_api.documents.catalog import Credential
from fairlead_api.documents.oauth import OAuthSettings, ResourceClientSettings
from fairlead_mcp.oauth.access_token import AccessToken
from fairlead_mcp.oauth.discovery import discover_issuer, discover_resource
from fairlead_mcp.oauth.errors import DISCOVERY, GrantFailed
from fairlead_mcp.oauth.grants import assertion_parameters, check_subject, ordered_scopes, redemption_parameters
from fairlead_mcp.oauth.id_jag import require_assertion
from fairlead_mcp.oauth.issuer_client import IssuerClient, TokenForm
from fairlead_mcp.oauth.metadata import require_issuer
from fairlead_mcp.oauth.refusal_advice import ASSERTION_STEP, REDEMPTION_STEP
from fairlead_mcp.oauth.shared_task import SharedTask
from fairlead_mcp.oauth.stored_grant import StoredGrant
from fairlead_mcp.oauth.subject import TokenSubject
from fairlead_mcp.oauth.token_access import TokenAccess
from fairlead_mcp.oauth.token_endpoint import DISCOVERY_SECONDS
from fairlead_mcp.oauth.token_grants import GrantRequest, TokenGrants

AT_PROVIDER: Final = "step 1 of 2, the assertion of the identity provider"
AT_SERVER: Final = "step 2 of 2, the access token of the server's authorization server (resourceClient)"


class _RedemptionTarget(NamedTuple):
    """Authorization server at which the assertion is redeemed."""

    issuer: str
    """Issuer of the authorization server, as its metadata spells it."""
    resource: str
    """URL by which the authorization server knows the MCP server."""
    until: float
    """Monotonic seconds until which the discovery of this target is fresh."""
    client: IssuerClient


class AssertionGrants(TokenGrants):
    """Obtains a token by two requests: one for an assertion, and one that redeems it."""

    def __init__(
        self,
        settings: OAuthSettings,
        resource_client: ResourceClientSettings,
        credential: Credential,
        access: TokenAccess,
    ) -> None:
        """Raises GrantFailed if the client of the identity provider cannot authenticate."""
        self._settings = settings
        self._resource_client = resource_client
        self._credential = Credential(
            client_secret=credential.resource_client_secret, private_key=credential.resource_private_key
        )
        self._access = access
        # without server_url, the issuer is not compared with the server's metadata, which never names the identity
        # provider
        self._provider = IssuerClient(settings, credential, dataclasses.replace(access, server_url=""))
        self._target: _RedemptionTarget | None = None
        self._discovery: SharedTask[_RedemptionTarget] | None = None

    def check(self, subject: TokenSubject) -> None:
        check_subject(self._settings, subject, self._access.clock())

    async def token(self, request: GrantRequest) -> AccessToken:
        subject = request.subject
        scopes = ordered_scopes(self._settings, request.scopes)
        try:
            target = await self._find_target(request.resource_metadata)
        except GrantFailed as error:
            raise error.in_step(AT_SERVER) from error
        form = TokenForm(
            assertion_parameters(self._settings, subject, target.issuer, target.resource),
            scopes,
            (subject.token,),
            subject.token,
            subject.expires_at,
            step=ASSERTION_STEP,
        )
        try:
            assertion = (await self._provider.request(form)).access.value
            require_assertion(assertion, target.issuer, self._resource_client.client_id)
        except GrantFailed as error:
            raise error.in_step(AT_PROVIDER) from error
        form = TokenForm(
            redemption_parameters(assertion),
            (),
            (subject.token, assertion),
            subject.token,
            subject.expires_at,
            scopes,
            REDEMPTION_STEP,
        )
        try:
            return (await target.client.request(form, request.resource_metadata)).access
        except GrantFailed as error:
            raise error.in_step(AT_SERVER) from error

    async def has_consent(self, person: bytes) -> bool:
        return True

    def note_consent(self, person: bytes, grant: StoredGrant) -> None:
        """No-op: this grant needs no consent."""

    def forget(self, person: bytes) -> None:
        """No-op: this grant needs no consent."""

    def invalidate_discovery(self) -> None:
        self._provider.invalidate_discovery()
        if self._target is not None:
            self._target.client.invalidate_discovery()

    async def aclose(self) -> None:
        if self._discovery is not None:
            await self._discovery.aclose()
        await self._provider.aclose()
        if self._target is not None:
            await self._target.client.aclose()

    async def _find_target(self, resource_metadata: str) -> _RedemptionTarget:
        """The authorization server of the MCP server; concurrent callers share its discovery. Raises GrantFailed."""
        target = self._target
        if target is not None and self._access.monotonic() < target.until:
            return target
        discovery = self._discovery
        if discovery is None or not discovery.running:
            work = self._discover(resource_metadata)
            discovery = self._discovery = SharedTask(work, f"discover issuer of {self._access.server_url}")
        return await discovery.result()

    async def _discover(self, resource_metadata: str) -> _RedemptionTarget:
        """Find the authorization server in the settings, or in the metadata of the MCP server. Raises GrantFailed."""
        previous = self._target
        metadata = await discover_resource(self._access, resource_metadata)
        issuer = self._resource_client.issuer
        if metadata is not None and issuer:
            require_issuer(metadata, issuer)
        if not issuer:
            if metadata is None or not metadata.authorization_servers:
                raise GrantFailed(
                    "the server names no authorization server in its metadata (RFC 9728): set resourceClient.issuer",
                    cause=DISCOVERY,
                )
            first_issuer = metadata.authorization_servers[0]
            ca_bundle = self._resource_client.ca_bundle
            issuer = (await discover_issuer(self._access, first_issuer, ca_bundle, named_by_server=True)).issuer
        resource = self._settings.resource or (metadata.resource if metadata is not None else self._access.server_url)
        client = self._make_client(issuer) if previous is None or previous.issuer != issuer else previous.client
        target = _RedemptionTarget(issuer, resource, self._access.monotonic() + DISCOVERY_SECONDS, client)
        self._target = target
        if previous is not None and previous.client is not client:
            await previous.client.aclose()
        return target

    def _make_client(self, issuer: str) -> IssuerClient:
        client = self._resource_client
        settings = msgspec.structs.replace(
            self._settings,
            profile="",
            client_id=client.client_id,
            client_authentication=client.client_authentication,
            issuer=issuer,
            token_url="",
            audience="",
            parameters={},
            token_hosts=client.token_hosts,
            ca_bundle=client.ca_bundle,
            resource_client=None,
        )
        return IssuerClient(settings, self._credential, self._access)
