"""An authenticator for tests that are not about credentials."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairlead_gateway.core.identity import Identity, Kind
from fairlead_gateway.identity.authenticator import Revoke, Verdict
from fairlead_gateway.identity.refusal import UNKNOWN_TOKEN
from fairlead_gateway.identity.token_identity import jwt_principal


def person_with(claims: Mapping[str, Any]) -> Identity:
    """A person by the claims of a token."""
    return Identity(kind="jwt", principal=jwt_principal(claims["iss"], claims["sub"], None), claims=claims)


class Names:
    """Authenticates a caller by a name that the caller sends. A name can be revoked."""

    kind: Kind = "apiKey"
    cache_seconds = float("inf")

    def __init__(
        self, *names: str, groups: frozenset[str] = frozenset(), claims: Mapping[str, Mapping[str, Any]] | None = None
    ) -> None:
        """`claims` by name make a caller a person with a token of these claims, which have `iss` and `sub`."""
        self.names = set(names)
        self._claims = claims or {}
        self._groups = groups
        self._revoked: Revoke = lambda concerns: None

    def recognizes(self, token: str) -> bool:
        return True

    def check(self, token: str) -> Verdict | None:
        return None

    async def look_up(self, token: str) -> Verdict:
        if token in self.names and token in self._claims:
            return person_with(self._claims[token])
        if token in self.names:
            return Identity(kind="apiKey", principal=f"name:{token}", agent=token, groups=self._groups)
        return UNKNOWN_TOKEN

    async def start(self, revoked: Revoke) -> None:
        self._revoked = revoked

    async def aclose(self) -> None:
        pass

    def revoke(self, name: str) -> None:
        self.names.discard(name)
        self._revoked(lambda identity: identity.agent == name)
