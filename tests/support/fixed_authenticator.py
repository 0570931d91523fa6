"""An authenticator for tests that are not about credentials."""

from __future__ import annotations

from fairlead_gateway.core.identity import Identity, Kind
from fairlead_gateway.identity.authenticator import Revoke, Verdict
from fairlead_gateway.identity.refusal import UNKNOWN_TOKEN


class Names:
    """Authenticates a caller by a name that the caller sends. A name can be revoked."""

    kind: Kind = "apiKey"
    cache_seconds = float("inf")

    def __init__(self, *names: str, groups: frozenset[str] = frozenset()) -> None:
        self.names = set(names)
        self._groups = groups
        self._revoked: Revoke = lambda concerns: None

    def recognizes(self, token: str) -> bool:
        return True

    def check(self, token: str) -> Verdict | None:
        return None

    async def look_up(self, token: str) -> Verdict:
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
