"""Who sends a request, as every part of the gateway sees it.

Pure module. An authenticator makes one `Identity` per credential, which goes with each request: to the selection
(what it may see), to limits and audit (whose it is), to sessions and streams (who opened them).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Literal

import msgspec

Kind = Literal["anonymous", "apiKey", "jwt", "serviceAccount"]


class ServiceAccount(msgspec.Struct, frozen=True, order=True):
    """A ServiceAccount of the cluster."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Identity(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Somebody whose credential was checked. Compared by `principal`, never as an object."""

    kind: Kind
    principal: str
    """Names the same asker for as long as it exists, whatever credential it shows: for caches, limits and audit.
    Two askers never share one.
    """
    agent: str | None = None
    """The name that policies know it by."""
    groups: frozenset[str] = frozenset()
    issuers: tuple[str, ...] = ()
    """Names of the one that vouches for agent, groups and claims, as policies and settings write them."""
    doubtful: frozenset[tuple[str, ...]] = frozenset()
    """Names that somebody else may vouch for as well, as keys of `fairlead_api.policies.subjects`: without an issuer
    they only restrict.
    """
    scopes: frozenset[str] = frozenset()
    """That its token was issued with (RFC 6749 section 3.3)."""
    service_account: ServiceAccount | None = None
    claims: Mapping[str, Any] = MappingProxyType({})
    """Claims of a JWT, unchanged."""
    made: bool = False
    """Whether the credential is a key that the principal made at a gateway: it administers nothing."""
    credential: str = ""
    """Which one it was, for logs and revocations; no secret. Of an API key its id, of a JWT issuer and key."""
    expires_at: float = float("inf")
    """Seconds since the epoch, when the credential ends."""
    owner: str = ""
    """Mark of the principal's own sessions and streams: a digest of `principal`, empty for anonymous callers."""

    def __post_init__(self) -> None:
        if self.kind != "anonymous" and not self.owner:
            digest = hashlib.blake2b(self.principal.encode("utf-8", "surrogatepass"), digest_size=9).hexdigest()
            msgspec.structs.force_setattr(self, "owner", digest)


IDENTITY: Final = "fairlead.identity"
"""Where an ASGI scope holds the asker."""
ANONYMOUS: Final = Identity(kind="anonymous", principal="anonymous")
"""Identity of a request without a credential, where that is allowed."""
