"""Identity of the principal that sends a request.

Pure module. Authentication creates one `Identity` per credential, and each request has the `Identity` of its
credential: by the identity, policies select the visible tools, limits count, and the audit log names the caller.
Sessions and streams belong to it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

import msgspec

from fairlead_mcp.oauth.subject import TokenSubject

JWT_PREFIX: Final = b"jwt:"
"""Begins the principals of JWTs: `jwt:ISSUER#SUBJECT/AGENT`, with subject and agent in percent-encoding."""
Kind = Literal["anonymous", "apiKey", "jwt", "serviceAccount"]


class ServiceAccount(msgspec.Struct, frozen=True, order=True):
    """A Kubernetes ServiceAccount."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class SubjectToken:
    """Raw token of an identity, from which tokens for servers are obtained (RFC 8693). Its text never shows it."""

    __slots__ = ("__weakref__", "_subjects", "expires_at", "value")

    def __init__(self, value: str, expires_at: float) -> None:
        self.value = value
        """The token; empty once no server needs it any more."""
        self.expires_at = expires_at
        """`exp` of the token, in seconds since the epoch."""
        self._subjects: dict[bytes, TokenSubject] = {}

    def subject(self, person: bytes) -> TokenSubject:
        """The token as that of a person. Kept, because every call needs it."""
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
    """Names that policies and settings may use for the issuer that vouches for agent, groups and claims."""
    doubtful: frozenset[tuple[str, ...]] = frozenset()
    """Agents, groups and claims of this identity that other issuers may issue too, as keys of
    `fairlead_api.policies.subjects`. A policy that names one without an issuer can restrict this identity, but cannot
    allow anything.
    """
    scopes: frozenset[str] = frozenset()
    """Scopes of the token (RFC 6749 section 3.3)."""
    service_account: ServiceAccount | None = None
    claims: Mapping[str, Any] = MappingProxyType({})
    """Claims of a JWT, unchanged."""
    made: bool = False
    """Whether the credential is an API key that the principal created at a gateway; such keys have no rights of
    administrators.
    """
    credential: str = ""
    """Name of the credential for logs and revocation, without a secret: the id of an API key, or issuer and key of a
    JWT.
    """
    resource: str = ""
    """Path at and below which alone the credential is valid, such as `/servers/default/shop/mcp`; empty: everywhere."""
    issued_here: bool = False
    """Whether the gateway itself issued the token, so that no authorization server of a server takes it."""
    of_anybody: bool = False
    """Whether the token is of a client that no setting names, so that anybody may be behind it; it has no rights of
    administrators.
    """
    session: str = ""
    """Sign-in of a client at the gateway that the token is of; its provider's tokens are the person's towards other
    authorization servers. Empty: none.
    """
    expires_at: float = float("inf")
    """When the credential expires, in seconds since the epoch."""
    owner: str = ""
    """Owner of the principal's sessions and streams: a digest of `principal`, or empty for anonymous callers."""
    person: bytes = b""
    """Key of the person towards servers, the same for all agents of a person; empty for anonymous callers but LOCAL."""
    subject_token: SubjectToken | None = None
    """The credential itself, if it is a JWT and a server needs it (`Identities.keep_tokens`)."""

    def __post_init__(self) -> None:
        if self.kind != "anonymous" and not self.owner:
            principal = self.principal.encode("utf-8", "surrogatepass")
            msgspec.structs.force_setattr(self, "owner", hashlib.blake2b(principal, digest_size=9).hexdigest())
            msgspec.structs.force_setattr(self, "person", _without_agent(principal))


def _without_agent(principal: bytes) -> bytes:
    """The principal of a JWT, or of a key that was made with one, without the agent at its end."""
    return principal.rpartition(b"/")[0] if principal.startswith(JWT_PREFIX) else principal


SessionSubject: TypeAlias = Callable[[Identity, str], Awaitable[SubjectToken]]
"""Gets a valid token of the provider for the person of an identity with a `session`: one of a type (RFC 8693 section
3). Raises `fairlead_mcp.oauth.errors.GrantFailed`.
"""
IDENTITY: Final = "fairlead.identity"
"""Key of the `Identity` in an ASGI scope."""
ANONYMOUS: Final = Identity(kind="anonymous", principal="anonymous")
"""Identity of requests without a credential, if the gateway allows them."""
LOCAL: Final = Identity(kind="anonymous", principal="anonymous", person=b"local")
"""Identity of the machine's owner, who can make grants for servers, at a gateway without authentication that serves its
own machine alone. Requests of others are ANONYMOUS.
"""
BY_OWNER: Final = "fairlead.by_owner"
"""Key of a function in an ASGI scope, which returns whether the connection comes from the machine's owner."""
