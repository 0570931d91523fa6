"""Identity of the principal that sends a request.

Pure module. Authentication creates one `Identity` per credential, and each request has the `Identity` of its
credential. It selects the policies and limits that apply, and names the caller in the audit log. Sessions and streams
belong to one identity.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

import msgspec

from fairlead_mcp.oauth.subject import TokenSubject

JWT_PREFIX: Final = b"jwt:"
"""Prefix of the principals of JWTs: `jwt:ISSUER#SUBJECT/AGENT`, with subject and agent in percent-encoding."""
Kind = Literal["anonymous", "apiKey", "jwt", "serviceAccount"]


class ServiceAccount(msgspec.Struct, frozen=True, order=True):
    """A Kubernetes ServiceAccount."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class SubjectToken:
    """Raw token of an identity, which is exchanged for tokens of servers (RFC 8693). `repr` does not show the token."""

    __slots__ = ("__weakref__", "_subjects", "expires_at", "value")

    def __init__(self, value: str, expires_at: float) -> None:
        self.value = value
        """The token; empty once no server needs it any more."""
        self.expires_at = expires_at
        """`exp` of the token, in seconds since the epoch."""
        self._subjects: dict[bytes, TokenSubject] = {}

    def subject(self, person: bytes) -> TokenSubject:
        """The token with its person, as the subject of a token exchange. Cached, because every call needs it."""
        subject = self._subjects.get(person)
        if subject is None:
            subject = self._subjects[person] = TokenSubject(person, self.value, self.expires_at)
        return subject

    def drop(self) -> None:
        """Forget the token."""
        self.value = ""
        self._subjects.clear()

    def __repr__(self) -> str:
        return "<SubjectToken>"


class Identity(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """An authenticated principal. Identities are compared by `principal`, never as objects."""

    kind: Kind
    principal: str
    """Stable and unique name of the principal, the same for all of its credentials; the key of caches, limits and audit
    entries.
    """
    agent: str | None = None
    """Name of the agent in policies."""
    groups: frozenset[str] = frozenset()
    issuers: tuple[str, ...] = ()
    """Names of the issuer of agent, groups and claims, as policies and settings may write them."""
    doubtful: frozenset[tuple[str, ...]] = frozenset()
    """Agents, groups and claims of this identity that other issuers may issue too, as keys of
    `fairlead_api.policies.subjects`. A policy whose subject is one of these keys without an issuer can restrict this
    identity, but cannot allow it anything.
    """
    scopes: frozenset[str] = frozenset()
    """Scopes of the token (RFC 6749 section 3.3)."""
    service_account: ServiceAccount | None = None
    claims: Mapping[str, Any] = MappingProxyType({})
    """Claims of a JWT, unchanged."""
    is_created_key: bool = False
    """Whether the credential is an API key that the principal created at a gateway; such keys have no rights of
    administrators.
    """
    credential: str = ""
    """Name of the credential for logs and revocation, without a secret: the id of an API key, or issuer and key of a
    JWT.
    """
    resource: str = ""
    """Path such as `/servers/default/shop/mcp`. The credential is valid only at this path and below it; empty for a
    credential that is valid everywhere.
    """
    issued_here: bool = False
    """Whether the gateway itself issued the token. The authorization servers of MCP servers do not accept such a token.
    """
    of_anybody: bool = False
    """Whether the token belongs to a client that no setting names, which may be anybody's program. Such a token has no
    administrator rights.
    """
    session: str = ""
    """Id of the client's sign-in at the gateway, for a token that the gateway issued. The sign-in has the person's
    tokens of the provider, which are sent to other authorization servers. Empty for other tokens.
    """
    expires_at: float = float("inf")
    """When the credential expires, in seconds since the epoch."""
    owner: str = ""
    """Owner of the principal's sessions and streams: a digest of `principal`, or empty for anonymous callers."""
    person: bytes = b""
    """Key of the person in requests to servers, the same for all agents of a person. Empty for anonymous callers,
    except for LOCAL.
    """
    subject_token: SubjectToken | None = None
    """The credential itself, if it is a JWT and a server needs it (`Identities.keep_tokens`)."""

    def __post_init__(self) -> None:
        if self.kind != "anonymous" and not self.owner:
            principal = self.principal.encode("utf-8", "surrogatepass")
            msgspec.structs.force_setattr(self, "owner", hashlib.blake2b(principal, digest_size=9).hexdigest())
            msgspec.structs.force_setattr(self, "person", _without_agent(principal))


def _without_agent(principal: bytes) -> bytes:
    """The principal of a JWT, or of a key that was made with a JWT, without the agent at its end."""
    return principal.rpartition(b"/")[0] if principal.startswith(JWT_PREFIX) else principal


SessionSubject: TypeAlias = Callable[[Identity, str], Awaitable[SubjectToken]]
"""Returns a valid token of the provider for the person of an identity with a `session`. The second parameter is the
token type (RFC 8693 section 3). Raises `fairlead_mcp.oauth.errors.GrantFailed`.
"""
IDENTITY: Final = "fairlead.identity"
"""Key of the `Identity` in an ASGI scope."""
ANONYMOUS: Final = Identity(kind="anonymous", principal="anonymous")
"""Identity of requests without a credential, if the gateway allows them."""
LOCAL: Final = Identity(kind="anonymous", principal="anonymous", person=b"local")
"""Identity of the machine's owner, who can make grants for servers. Only at a gateway without authentication that
serves only its own machine; requests of others are ANONYMOUS.
"""
BY_OWNER: Final = "fairlead.by_owner"
"""Key of a function in an ASGI scope, which returns whether the connection comes from the machine's owner."""
