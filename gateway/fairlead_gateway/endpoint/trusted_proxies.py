"""Client addresses from `X-Forwarded-For`, which is accepted only from trusted proxies.

Pure module. The header is a list of addresses: each proxy appends the address of its peer. The earlier entries come
from the client, which may have made them up. The list is therefore read backwards from its last entry: the first
address that is not a trusted proxy is the client's address.
"""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

MAX_ADDRESS: Final = 64
"""Maximum number of characters of an entry. Without this limit, an IPv6 address with a long zone id would be stored as
it is."""
MAX_HOPS: Final = 16
"""Maximum number of entries that are read, from the last entry backwards. If all of them are trusted proxies, the entry
that was read last counts as the client."""
TAKEN: Final = "taken"
IGNORED: Final = "ignored"
UNREADABLE: Final = "unreadable"
_PORT: Final = re.compile(r"\[([0-9A-Fa-f:.]+)\](?::[0-9]+)?|([0-9.]+):[0-9]+")
"""Address with a port, which some proxies append."""

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class TrustedProxies:
    """Networks of trusted proxies. Without networks, `X-Forwarded-For` is ignored."""

    def __init__(self, networks: Iterable[str] = ()) -> None:
        """`networks` have the form `10.0.0.0/8` or `10.1.2.3`. Raises ValueError with an error message."""
        self._networks = tuple(_network(text) for text in networks)
        self._is_trusted = lru_cache(maxsize=1024)(self._look_up)
        self.outcomes: Counter[str] = Counter()
        """Number of requests with the header `X-Forwarded-For`, by outcome.

        `taken`: the header was accepted. `ignored`: the peer is not a trusted proxy. `unreadable`: a trusted proxy
        appended something that is not an address.
        """

    def many_share(self, peer: str) -> bool:
        """Whether many clients may share the address of a connection: it is a trusted proxy, or a loopback address."""
        address = _address(peer)
        return address is not None and (address.is_loopback or self._is_trusted(peer))

    def client(self, peer: str, forwarded: bytes | None) -> str:
        """The client address of a request. `peer` is the address of the connection."""
        if forwarded is None or not self._networks:
            return peer
        if not self._is_trusted(peer):
            self.outcomes[IGNORED] += 1
            return peer
        client = peer
        for text in reversed(forwarded.decode("latin-1").rsplit(",", MAX_HOPS)[-MAX_HOPS:]):
            address = _address(text.strip())
            if address is None:
                self.outcomes[UNREADABLE] += 1
                return client
            client = str(address)
            if not self._is_trusted(client):
                break
        self.outcomes[TAKEN] += 1
        return client

    def _look_up(self, text: str) -> bool:
        address = _address(text)
        return address is not None and any(address in network for network in self._networks)


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        raise ValueError(f"FAIRLEAD_TRUSTED_PROXIES: {error}; write networks such as 10.0.0.0/8") from error


def _address(text: str) -> _Address | None:
    """The address in an entry of the list; None if it is not an address, such as `unknown`."""
    if len(text) > MAX_ADDRESS:
        return None
    match = _PORT.fullmatch(text)
    try:
        address = ipaddress.ip_address((match[1] or match[2]) if match is not None else text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return address if mapped is None else mapped
