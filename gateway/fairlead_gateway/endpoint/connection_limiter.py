"""Bounds on connections of clients: in all, and from each address, of IPv6 each /64 network.

Pure module. A connection beyond a bound is answered with the reason, as long as few others are being answered.
"""

from __future__ import annotations

from typing import Final

import msgspec

from fairlead_mcp.addresses import client_of

MAX_ANSWERED: Final = 256
"""Refused connections that get a response with the reason at a time; those beyond are closed without one."""


class Admission(msgspec.Struct, frozen=True):
    """Decision about one connection, to be given back (`leave`) when it ends."""

    client: str
    """Address, or network, that it counts for."""
    inside: bool = False
    refused: tuple[int, str] | None = None
    """Reason for the client: an HTTP status and a sentence."""


CLOSED: Final = Admission("")


class ConnectionLimiter:
    """Counts open connections. `most` and `most_each` (address) are bounds; 0 is none."""

    def __init__(self, most: int = 0, most_each: int = 0) -> None:
        self._most = most
        self._most_each = most_each
        self._each: dict[str, int] = {}
        self._answering = 0
        self.inside = 0
        self.turned_away = 0
        """So far."""

    def enter(self, address: str) -> Admission:
        """Decide about a new connection; one beyond a bound gets a response, or is closed without one."""
        client = client_of(address)
        refused = self._refused(client)
        if refused is not None:
            self.turned_away += 1
            if self._answering >= MAX_ANSWERED:
                return CLOSED
            self._answering += 1
            return Admission(client, refused=refused)
        self.inside += 1
        if self._most_each:
            self._each[client] = self._each.get(client, 0) + 1
        return Admission(client, inside=True)

    def leave(self, admission: Admission) -> None:
        """A connection is gone."""
        self._answering -= admission.refused is not None
        self.inside -= admission.inside
        if admission.inside and self._most_each:
            left = self._each.pop(admission.client) - 1
            if left:
                self._each[admission.client] = left

    def _refused(self, client: str) -> tuple[int, str] | None:
        if self._most and self.inside >= self._most:
            return 503, f"the gateway has {self._most} connections open, which is the most that it takes"
        if self._most_each and self._each.get(client, 0) >= self._most_each:
            return 429, f"there are {self._most_each} connections from this address, which is the most for one"
        return None
