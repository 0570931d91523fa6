"""Store of grants that its owner closes."""

from __future__ import annotations

from typing import Protocol

from fairlead_mcp.oauth.stored_grant import GrantStore


class ClosableGrantStore(GrantStore, Protocol):
    """Store of grants of a gateway."""

    @property
    def fill(self) -> float | None:
        """Part of the capacity in use, from 0 to 1; None for a store without a fixed capacity."""
        return None

    async def aclose(self) -> None:
        """End `changes` and release all resources."""
        ...
