"""Seals of session handles: a client gets a handle bound to its principal, as the provider knows the gateway's key
alone, and to its provider, as another one may have an equal handle. Handles of anonymous clients are sealed, too: a
provider's handle may be guessed.

Pure module. Nothing is stored; replicas that share the key unseal each other's handles.
"""

from __future__ import annotations

from collections.abc import Iterable

from fairlead_gateway.calls.sealed.seals import Seal
from fairlead_gateway.core.identity import Identity


class ForeignHandle(ValueError):
    """Handle that was not issued to this principal by one of these providers; the message says what to do."""


class HandleSealer:
    """Signs and verifies handles with one key."""

    def __init__(self, key: bytes) -> None:
        self._seal = Seal(key, "speech handles")

    def seal(self, handle: str, provider: str, identity: Identity) -> str:
        """Seal a provider's handle for a principal."""
        return self._seal.mark(identity.owner, provider, handle) if handle else handle

    def unseal(self, sealed: str, providers: Iterable[str], identity: Identity) -> tuple[str, str]:
        """Unseal a handle that a client sent. Returns the provider's handle, and the provider's name. Raises
        ForeignHandle.
        """
        for provider in providers:
            handle = self._seal.unmark(identity.owner, provider, sealed)
            if handle is not None:
                return handle, provider
        raise ForeignHandle(
            "the handle was not issued to this client by a provider of this model: open a session without it"
        )
