"""Handles of sessions as clients get them: bound to their principal, as the provider knows the gateway's key alone, and
to their provider, of which another may have the same handle. Those of anonymous clients are signed too: what a provider
made may be guessed.

Pure module. Nothing is kept; replicas that share the key of sessions take each other's handles.
"""

from __future__ import annotations

from collections.abc import Iterable

from fairlead_gateway.calls.sealed.seals import Seal
from fairlead_gateway.core.identity import Identity


class ForeignHandle(ValueError):
    """A handle that was not issued to this principal at one of these providers; the message says what to do."""


class HandleSealer:
    """Signs and verifies handles with one key."""

    def __init__(self, key: bytes) -> None:
        self._seal = Seal(key, "speech handles")

    def seal(self, handle: str, provider: str, identity: Identity) -> str:
        """A provider's handle as the principal gets it."""
        return self._seal.marked(identity.owner, provider, handle) if handle else handle

    def unseal(self, shown: str, providers: Iterable[str], identity: Identity) -> tuple[str, str]:
        """The provider's handle of what a principal shows, and the name of its provider. Raises ForeignHandle."""
        for provider in providers:
            handle = self._seal.unmarked(identity.owner, provider, shown)
            if handle is not None:
                return handle, provider
        raise ForeignHandle(
            "the handle was not issued to this client by a provider of this model: open a session without it"
        )
