"""Token exchange in two steps (ID-JAG): the person's token at the identity provider for an assertion, and that at the
authorization server of the MCP server for an access token (draft-ietf-oauth-identity-assertion-authz-grant section 4).

Each step has a client of its own. The assertion is never sent to the MCP server, and not kept: it is good once.
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


class _SecondStep(NamedTuple):
    """Where the second step goes."""

    issuer: str
    """Authorization server of the MCP server, as its metadata spells it."""
    resource: str
    """URL of the MCP server, as that authorization server knows it."""
    until: float
    """Monotonic seconds until which this is fresh."""
    client: IssuerClient


class AssertionGrants(TokenGrants):
    """Two requests give one token. Callers of one person share them, as those of any grant."""

    def __init__(
        self, settings: OAuthSettings, own: ResourceClientSettings, credential: Credential, access: TokenAccess
    ) -> None:
        """Raises GrantFailed if the client of the identity provider cannot authenticate."""
        self._settings = settings
        self._own = own
        self._credential = Credential(
            client_secret=credential.resource_client_secret, private_key=credential.resource_private_key
        )
        self._access = access
        # the server's metadata names its own authorization server, never the identity provider
        self._provider = IssuerClient(settings, credential, dataclasses.replace(access, server_url=""))
        self._target: _SecondStep | None = None
        self._finding: SharedTask[_SecondStep] | None = None

    def check(self, subject: TokenSubject) -> None:
        check_subject(self._settings, subject, self._access.clock())

    async def token(self, request: GrantRequest) -> AccessToken:
        subject = request.subject
        scopes = ordered_scopes(self._settings, request.scopes)
        try:
            target = await self._find(request.resource_metadata)
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
            require_assertion(assertion, target.issuer, self._own.client_id)
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
        """Nothing is remembered."""

    def forget(self, person: bytes) -> None:
        """Nothing is remembered."""

    def doubt(self) -> None:
        self._provider.doubt()
        if self._target is not None:
            self._target.client.doubt()

    async def aclose(self) -> None:
        if self._finding is not None:
            await self._finding.aclose()
        await self._provider.aclose()
        if self._target is not None:
            await self._target.client.aclose()

    async def _find(self, resource_metadata: str) -> _SecondStep:
        """The authorization server of the MCP server; concurrent callers share its discovery. Raises GrantFailed."""
        target = self._target
        if target is not None and self._access.monotonic() < target.until:
            return target
        finding = self._finding
        if finding is None or not finding.running:
            work = self._discover(resource_metadata)
            finding = self._finding = SharedTask(work, f"discover issuer of {self._access.server_url}")
        return await finding.result()

    async def _discover(self, resource_metadata: str) -> _SecondStep:
        """Find the authorization server in the settings, or in the metadata of the MCP server. Raises GrantFailed."""
        before = self._target
        metadata = await discover_resource(self._access, resource_metadata)
        issuer = self._own.issuer
        if metadata is not None and issuer:
            require_issuer(metadata, issuer)
        if not issuer:
            if metadata is None or not metadata.authorization_servers:
                raise GrantFailed(
                    "the server names no authorization server in its metadata (RFC 9728): set resourceClient.issuer",
                    cause=DISCOVERY,
                )
            named = metadata.authorization_servers[0]
            issuer = (await discover_issuer(self._access, named, self._own.ca_bundle, named_by_server=True)).issuer
        resource = self._settings.resource or (metadata.resource if metadata is not None else self._access.server_url)
        client = self._client(issuer) if before is None or before.issuer != issuer else before.client
        target = _SecondStep(issuer, resource, self._access.monotonic() + DISCOVERY_SECONDS, client)
        self._target = target
        if before is not None and before.client is not client:
            await before.client.aclose()
        return target

    def _client(self, issuer: str) -> IssuerClient:
        own = self._own
        settings = msgspec.structs.replace(
            self._settings,
            profile="",
            client_id=own.client_id,
            client_authentication=own.client_authentication,
            issuer=issuer,
            token_url="",
            audience="",
            parameters={},
            token_hosts=own.token_hosts,
            ca_bundle=own.ca_bundle,
            resource_client=None,
        )
        return IssuerClient(settings, self._credential, self._access)
