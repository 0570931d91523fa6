"""Handles of sessions as clients get them: bound to their principal, as the provider knows the gateway's key alone.

Pure module. Nothing is kept; replicas that share the key of sessions take each other's handles.
"""

from __future__ import annotations

import re
from typing import Final

from fairlead_gateway.calls.seals import Seal
from fairlead_gateway.core.identity import Identity

_MARK: Final = re.compile(r"fairlead-of\.([0-9a-f]{32})\.")


class ForeignHandle(ValueError):
    """A handle that was not issued to this principal; the message says what to do."""


class HandleSealer:
    """Signs and verifies handles with one key. Those of anonymous clients stay as they are."""

    def __init__(self, key: bytes) -> None:
        self._seal = Seal(key, "speech handles")

    def shown(self, handle: str, identity: Identity) -> str:
        """A provider's handle as the principal gets it."""
        owner = identity.owner
        return f"fairlead-of.{self._seal.mac(owner, handle)}.{handle}" if owner and handle else handle

    def read(self, said: str, identity: Identity) -> str:
        """The provider's handle of what a principal shows. Raises ForeignHandle."""
        found = _MARK.match(said)
        handle = said if found is None else said[found.end() :]
        if not said or (found is None and not identity.owner):
            return said
        if found is None or not self._seal.verifies(found[1], identity.owner, handle):
            raise ForeignHandle("the handle was issued to another principal: open a session without it")
        return handle
