"""Bounds on connections of clients: in all, and from each address, of IPv6 each /64 network.

Pure module. A connection beyond a bound is answered with the reason, as long as few others are being answered.
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
"""Refused connections that get a response with the reason at a time; those beyond are closed without one."""


class Admission(msgspec.Struct, frozen=True):
    """Decision about one connection, to be given back (`leave`) when it ends."""

    client: str
    """Address, or network, that it counts for; empty where it counts for all alone."""
    inside: bool = False
    refused: tuple[int, str] | None = None
    """Reason for the client: an HTTP status and a sentence."""


CLOSED: Final = Admission("")


class ConnectionLimiter:
    """Counts open connections. `most` is their bound; 0 is none. `most_each` is that of every address; 0 is three
    quarters of `most`, but for addresses that `many_share`, such as those of trusted proxies.
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
        self._excepts = most > 0 and most_each == 0
        """Whether addresses are left out that many clients share."""
        self._answering = 0
        self.turned_away = 0
        """So far."""

    @property
    def inside(self) -> int:
        """Connections that are open and were not refused."""
        return self._shares.total

    def enter(self, address: str) -> Admission:
        """Decide about a new connection; one beyond a bound gets a response, or is closed without one."""
        client = "" if self._excepts and self._many_share(address) else client_of(address)
        reached = self._shares.bound(client)
        if reached is not None:
            self.turned_away += 1
            if self._answering >= MAX_ANSWERED:
                return CLOSED
            self._answering += 1
            return Admission(client, refused=_refusal(reached))
        self._shares.add(client)
        return Admission(client, inside=True)

    def leave(self, admission: Admission) -> None:
        """A connection is gone."""
        self._answering -= admission.refused is not None
        if admission.inside:
            self._shares.give_back(admission.client)


def _refusal(reached: ShareTaken) -> tuple[int, str]:
    if reached.bound == "agent":
        return 429, f"there are {reached.most} connections from this address, which is the most for one"
    return 503, f"the gateway has {reached.most} connections open, which is the most that it takes"
