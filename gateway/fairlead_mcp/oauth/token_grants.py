"""The interface by which a `TokenSource` obtains tokens, and its implementation for grants with a single request."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from fairlead_api.documents.catalog import Credential
from fairlead_api.documents.oauth import OAuthSettings
from fairlead_mcp.oauth.access_token import AccessToken
from fairlead_mcp.oauth.grants import check_subject, grant_parameters, ordered_scopes
from fairlead_mcp.oauth.issuer_client import IssuerClient, TokenForm
from fairlead_mcp.oauth.stored_grant import StoredGrant
from fairlead_mcp.oauth.subject import TokenSubject
from fairlead_mcp.oauth.token_access import TokenAccess


class GrantRequest(NamedTuple):
    """A request for a token."""

    subject: TokenSubject
    scopes: frozenset[str]
    """All scopes that the token should have."""
    step_up: frozenset[str]
    """Scopes among them that the server requires in addition to the scopes of an earlier token."""
    resource_metadata: str
    """URL in the server's challenge; empty if there is none."""
    for_call: bool = True
    """Whether the token is for a call of the person, so that the person's grant counts as used."""
    refused_token: str = ""
    """Value of the token that the server has refused; empty if there is none."""


class TokenGrants(Protocol):
    """Obtains tokens for one server by one kind of grant."""

    def check(self, subject: TokenSubject) -> None:
        """Raise GrantFailed if no token can be obtained for the person."""
        ...

    async def token(self, request: GrantRequest) -> AccessToken:
        """Obtain a token. Raises GrantFailed."""
        ...

    async def has_consent(self, person: bytes) -> bool:
        """Whether the consent from which the person's last token is still exists. Raises GrantStoreError if the store
        cannot be read.
        """
        ...

    def note_consent(self, person: bytes, grant: StoredGrant) -> None:
        """Remember that the person's token is from this stored grant."""
        ...

    def forget(self, person: bytes) -> None:
        """Forget from which grant the person's last token is."""
        ...

    def note_end(self, person: bytes, reason: str) -> None:
        """Remember why the person's grant ended, until the person signs in again."""
        return  # grants that need no sign-in have nothing to tell

    def invalidate_discovery(self) -> None:
        """Discover endpoints again before their next use."""
        ...

    def sign_in_problem(self, person: bytes, grant: StoredGrant | None) -> str:
        """Why a person with this stored grant has to sign in or enter a key; empty if the grant may be used."""
        return ""

    async def aclose(self) -> None:
        """Close the connections."""
        ...


class DirectGrants(TokenGrants):
    """Obtains a token by one request, for client credentials and token exchange."""

    def __init__(self, settings: OAuthSettings, credential: Credential, access: TokenAccess) -> None:
        """Raises GrantFailed if the client cannot authenticate."""
        self._settings = settings
        self._access = access
        self._client = IssuerClient(settings, credential, access)

    def check(self, subject: TokenSubject) -> None:
        check_subject(self._settings, subject, self._access.clock())

    async def token(self, request: GrantRequest) -> AccessToken:
        subject = request.subject
        form = TokenForm(
            grant_parameters(self._settings, subject),
            ordered_scopes(self._settings, request.scopes),
            (subject.token,),
            subject.token,
            subject.expires_at,
        )
        issued = await self._client.request(form, request.resource_metadata)
        return issued.access

    async def has_consent(self, person: bytes) -> bool:
        return True

    def note_consent(self, person: bytes, grant: StoredGrant) -> None:
        """No-op: these grants need no consent."""

    def forget(self, person: bytes) -> None:
        """No-op: these grants need no consent."""

    def invalidate_discovery(self) -> None:
        self._client.invalidate_discovery()

    async def aclose(self) -> None:
        await self._client.aclose()
