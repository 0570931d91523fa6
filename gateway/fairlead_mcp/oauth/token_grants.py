"""Kinds of grants by which a `TokenSource` obtains tokens, and the kinds that need nothing but a request."""

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
    """A token that is needed."""

    subject: TokenSubject
    scopes: frozenset[str]
    """All scopes that it should have."""
    step_up: frozenset[str]
    """Those that the server demands, after it took a token without them."""
    resource_metadata: str
    """URL in the server's challenge; empty without one."""
    for_call: bool = True
    """Whether a person's call needs it, so that the person's grant counts as used."""
    refused: str = ""
    """Value of the token that the server has refused; empty without one."""


class TokenGrants(Protocol):
    """One kind of grant at one server."""

    def check(self, subject: TokenSubject) -> None:
        """Raise GrantFailed if no token can be obtained for the person."""
        ...

    async def token(self, request: GrantRequest) -> AccessToken:
        """Obtain a token. Raises GrantFailed."""
        ...

    async def has_consent(self, person: bytes) -> bool:
        """Whether the consent that the person's last token is of still holds. Raises GrantStoreError if its store does
        not tell.
        """
        ...

    def note_consent(self, person: bytes, grant: StoredGrant) -> None:
        """Remember that the person's token is of the consent of this grant, which is in the store."""
        ...

    def forget(self, person: bytes) -> None:
        """Forget which consent the person's last token is of."""
        ...

    def doubt(self) -> None:
        """Discover endpoints again before their next use."""
        ...

    def sign_in_problem(self, person: bytes, grant: StoredGrant | None) -> str:
        """Why a person with this stored grant has to sign in or to enter a key; empty if that is not so."""
        return ""

    async def aclose(self) -> None:
        """Close the connections."""
        ...


class DirectGrants(TokenGrants):
    """Client credentials and token exchange: one request gives one token."""

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
        """Nothing is remembered."""

    def forget(self, person: bytes) -> None:
        """Nothing is remembered."""

    def doubt(self) -> None:
        self._client.doubt()

    async def aclose(self) -> None:
        await self._client.aclose()
