"""Limits on client connections: in total, and per address (for IPv6 per /64 network).

Pure module. A connection beyond a limit is rejected with an HTTP response. If many connections are being rejected,
further ones are closed without a response.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final

import msgspec

from fairlead_gateway.core.share_counts import ShareCounts
from fairlead_gateway.limits.shares import Shares, ShareTaken
from fairlead_mcp.addresses import client_of

MAX_ANSWERED: Final = 256
"""Maximum number of rejected connections that are open to get a response; further rejected connections are closed
without a response."""


class Admission(msgspec.Struct, frozen=True):
    """Decision about one connection, to be passed to `ConnectionLimiter.leave` at the end of the connection."""

    client: str
    """Address or network for which the connection is counted; empty if it counts only for the total."""
    admitted: bool = False
    refused: tuple[int, str] | None = None
    """HTTP status and message of the rejection; None if the connection is admitted, or closed without a response."""


CLOSED: Final = Admission("")
"""Decision that a connection is closed without a response."""


class ConnectionLimiter:
    """Counts and limits open connections.

    `most` is the limit on all connections; 0 sets no limit. `most_each` is the limit per address; 0 stands for three
    quarters of `most`. With 0, addresses for which `many_share` is true, such as trusted proxies, have no limit of
    their own. `counts` counts rejections.
    """

    def __init__(
        self,
        most: int = 0,
        most_each: int = 0,
        many_share: Callable[[str], bool] = lambda address: False,
        counts: ShareCounts | None = None,
    ) -> None:
        self._shares = Shares("connections", most or sys.maxsize, most_each or -(-most * 3 // 4) or sys.maxsize, counts)
        self._many_share = many_share
        self._exempts_shared = most > 0 and most_each == 0
        """Whether addresses shared by many clients are exempt from the limit per address."""
        self._answered = 0
        """Number of rejected connections that are getting a response."""
        self.rejected = 0
        """Number of connections rejected so far."""

    @property
    def admitted(self) -> int:
        """Number of admitted connections that are open."""
        return self._shares.total

    def enter(self, address: str) -> Admission:
        """Admit or reject a new connection from an address."""
        client = "" if self._exempts_shared and self._many_share(address) else client_of(address)
        reached = self._shares.bound(client)
        if reached is not None:
            self.rejected += 1
            if self._answered >= MAX_ANSWERED:
                return CLOSED
            self._answered += 1
            return Admission(client, refused=_refusal(reached))
        self._shares.add(client)
        return Admission(client, admitted=True)

    def leave(self, admission: Admission) -> None:
        """Record the end of a connection."""
        self._answered -= admission.refused is not None
        if admission.admitted:
            self._shares.give_back(admission.client)


def _refusal(reached: ShareTaken) -> tuple[int, str]:
    if reached.bound == "agent":
        return 429, f"{reached.most} connections from this address are open, the limit for one address"
    return 503, f"{reached.most} connections are open, the limit of this gateway"
