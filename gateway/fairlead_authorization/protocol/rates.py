"""Limits the rate of requests per address. No I/O; the clock is a parameter."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from fairlead_gateway.limits.rate import MINUTE, Rate
from fairlead_mcp.addresses import client_of

MAX_ADDRESSES: Final = 4_096
"""Maximum number of addresses that are counted. At the limit, the least recently seen address is forgotten."""
PER_MINUTE: Final = 1_800
"""Requests per minute of one address to one endpoint. The limit is high, because services such as Claude refresh the
tokens of all their users from a few addresses.
"""
BURST: Final = 600
REGISTRATIONS_PER_MINUTE: Final = 30


class AddressRates:
    """Limit on the requests of each address to one endpoint. `clock` is in monotonic seconds."""

    def __init__(self, clock: Callable[[], float], per_minute: int = PER_MINUTE, burst: int = BURST) -> None:
        self._clock = clock
        self._per_minute = per_minute
        self._burst = min(burst, per_minute)
        self._rates: OrderedDict[str, Rate] = OrderedDict()

    def take(self, address: str) -> float:
        """Admit a request and return 0; otherwise return the seconds after which a request would be admitted."""
        key = client_of(address)
        rate = self._rates.pop(key, None) or Rate(self._per_minute, MINUTE, burst=self._burst)
        self._rates[key] = rate
        if len(self._rates) > MAX_ADDRESSES:
            self._rates.popitem(last=False)
        return rate.take(self._clock())
