"""Seals the resumption handles of providers, so that a client can resume only its own sessions. Does no I/O.

A sealed handle is bound to the client's principal: the provider cannot tell clients apart, because it sees only the
gateway's API key. The handle is also bound to the provider, because two providers may issue equal handles. Handles of
anonymous clients are sealed too, because a provider's handles may be guessable. Nothing is stored, so replicas with the
same key unseal each other's handles.
"""

from __future__ import annotations

from collections.abc import Iterable

from fairlead_gateway.calls.sealed.seals import Seal
from fairlead_gateway.core.identity import Identity


class ForeignHandle(ValueError):
    """Handle that was not issued to this principal by any of these providers. The message says what to do."""


class HandleSealer:
    """Seals and unseals handles with one key."""

    def __init__(self, key: bytes) -> None:
        self._seal = Seal(key, "speech handles")

    def seal(self, handle: str, provider: str, identity: Identity) -> str:
        """Seal a provider's handle for a principal."""
        return self._seal.mark(identity.owner, provider, handle) if handle else handle

    def unseal(self, sealed: str, providers: Iterable[str], identity: Identity) -> tuple[str, str]:
        """Unseal a handle that a client sent. Returns the provider's handle and name. Raises ForeignHandle."""
        for provider in providers:
            handle = self._seal.unmark(identity.owner, provider, sealed)
            if handle is not None:
                return handle, provider
        raise ForeignHandle(
            "this session handle was not issued to this client by a provider of this model: open a session without a "
            "handle"
        )
