"""Interface that the authenticators of all kinds of credentials implement. Declarations only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from fairlead_gateway.core.identity import Identity, Kind
from fairlead_gateway.identity.refusal import CredentialRefusal

Verdict = Identity | CredentialRefusal
Revoke = Callable[[Callable[[Identity], bool]], None]
"""Revokes all identities for which the given predicate is true."""


class Authenticator(Protocol):
    """Authenticates credentials of one kind."""

    kind: Kind
    cache_seconds: float
    """Seconds for which a verdict may be cached; infinite if the authenticator reports revocations itself."""

    def recognizes(self, token: str) -> bool:
        """Whether the token looks like a credential of this kind. The first authenticator that returns True decides
        about the token.
        """
        ...

    def check(self, token: str) -> Verdict | None:
        """Verdict that needs no I/O; None if `look_up` has to be awaited."""
        ...

    async def look_up(self, token: str) -> Verdict:
        """Verdict that needs I/O, such as a request to the issuer. The caller sets a timeout; raises only
        CancelledError.
        """
        ...

    async def start(self, revoke: Revoke) -> None:
        """Begin to watch for changes, and report revocations by `revoke`."""
        ...

    async def aclose(self) -> None: ...
