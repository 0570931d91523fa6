"""Creates the sealer of a store with the first grant, because the sealer's ciphers take megabytes. A setting has the
keys.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fairlead_gateway.grants.sealing_keys import SealingKey

if TYPE_CHECKING:
    from fairlead_gateway.grants.sealing import GrantSealer


class LazySealer:
    """Creates the sealer for `keys`, once."""

    def __init__(self, keys: Sequence[SealingKey]) -> None:
        self._keys = tuple(keys)
        self._sealer: GrantSealer | None = None

    async def get(self) -> GrantSealer:
        """The sealer. Its modules are imported in a thread, so that calls in flight are not delayed."""
        if self._sealer is None:
            self._sealer = await asyncio.to_thread(self._make)
        return self._sealer

    def _make(self) -> GrantSealer:
        from fairlead_gateway.grants.sealing import GrantSealer

        return GrantSealer(self._keys)
