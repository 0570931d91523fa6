"""Configuration of a server's upstream, as declared in its catalog."""

from __future__ import annotations

import msgspec

from fairlead_api.documents.catalog import CredentialRef, Endpoint
from fairlead_api.documents.oauth import TOKEN_EXCHANGE, OAuthSettings
from fairlead_api.documents.operations import Operation
from fairlead_gateway.upstream.server_facts import ServerTraits


class UpstreamConfig(msgspec.Struct, frozen=True):
    """Configuration of an upstream. The upstream is replaced when this changes."""

    endpoint: Endpoint
    credential: CredentialRef | None
    oauth: OAuthSettings | None
    traits: ServerTraits
    rate: float | None
    """Calls a second."""
    burst: int | None
    """Calls that are admitted at once after a pause."""
    per_client: bool
    sign_in: bool
    """Whether the server's only tool asks callers to sign in."""
    uid: str
    """`Catalog.uid` of a server with OAuth settings; else empty."""
    operations: dict[str, Operation]
    """Operations of an `OpenApiEndpoint`, by the name of the tool."""

    @property
    def uses_user_tokens(self) -> bool:
        """Whether calls are sent with users' tokens."""
        return self.oauth is not None and (self.exchanges or self.oauth.of_person)

    @property
    def exchanges(self) -> bool:
        """Whether the callers' tokens are exchanged for access tokens of the server (RFC 8693)."""
        return self.oauth is not None and self.oauth.grant == TOKEN_EXCHANGE

    @property
    def key_variable(self) -> str:
        """Environment variable that contains a user's key in each process; empty if the server needs none."""
        return "" if self.oauth is None or self.oauth.user_key is None else self.oauth.user_key.env

    def has_tokens_of(self, other: UpstreamConfig) -> bool:
        """Whether access tokens for another configuration are also valid for this one."""
        tokens = self.endpoint, self.credential, self.oauth, self.uid
        return tokens == (other.endpoint, other.credential, other.oauth, other.uid)
