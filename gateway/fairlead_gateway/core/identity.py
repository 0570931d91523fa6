"""Identity of the principal that sends a request.

Pure module. Authentication creates one `Identity` per credential, and each request has the `Identity` of its
credential: by the identity, policies select the visible tools, limits count, and the audit log names the caller.
Sessions and streams belong to it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Literal

import msgspec

Kind = Literal["anonymous", "apiKey", "jwt", "serviceAccount"]


class ServiceAccount(msgspec.Struct, frozen=True, order=True):
    """A Kubernetes ServiceAccount."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


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
    expires_at: float = float("inf")
    """When the credential expires, in seconds since the epoch."""
    owner: str = ""
    """Owner of the principal's sessions and streams: a digest of `principal`, or empty for anonymous callers."""

    def __post_init__(self) -> None:
        if self.kind != "anonymous" and not self.owner:
            digest = hashlib.blake2b(self.principal.encode("utf-8", "surrogatepass"), digest_size=9).hexdigest()
            msgspec.structs.force_setattr(self, "owner", digest)


IDENTITY: Final = "fairlead.identity"
"""Key of the `Identity` in an ASGI scope."""
ANONYMOUS: Final = Identity(kind="anonymous", principal="anonymous")
"""Identity of requests without a credential, if the gateway allows them."""
