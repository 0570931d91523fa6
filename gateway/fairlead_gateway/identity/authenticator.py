"""Port of an authenticator, which every kind of credential implements.

Pure declarations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from fairlead_gateway.core.identity import Identity, Kind
from fairlead_gateway.identity.refusal import CredentialRefusal

Verdict = Identity | CredentialRefusal
Revoked = Callable[[Callable[[Identity], bool]], None]
"""Tells that every identity for which the argument is true is not what it was."""


class Authenticator(Protocol):
    """One kind of credential."""

    kind: Kind
    keeps: float
    """Seconds that a verdict holds at most before it is asked for again; infinite where changes are told."""

    def wants(self, token: str) -> bool:
        """Whether the token is of its kind, by its looks. The first that wants a token decides about it."""
        ...

    def check(self, token: str) -> Verdict | None:
        """The verdict where it can be given at once, without input or output; None: `look_up` has to be awaited."""
        ...

    async def look_up(self, token: str) -> Verdict:
        """The verdict of somebody else. Bounded in time by the caller; raises nothing but CancelledError."""
        ...

    async def start(self, revoked: Revoked) -> None:
        """Begin to watch for changes, which go to `revoked`."""
        ...

    async def aclose(self) -> None: ...
