"""Client addresses from `X-Forwarded-For`, which is believed of trusted proxies and of nobody else.

Pure module. Each proxy appends the address of its peer, behind anything that the client wrote itself. So the list is
read from its end, for as long as the addresses are those of trusted proxies; the first other one is the client's.
"""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

MAX_ADDRESS: Final = 64
"""Characters of one entry. An IPv6 address may end in a zone of any length, and addresses are kept."""
MAX_HOPS: Final = 16
"""Proxies in a row; beyond that, the last one read counts as the client."""
TAKEN: Final = "taken"
IGNORED: Final = "ignored"
UNREADABLE: Final = "unreadable"
_PORT: Final = re.compile(r"\[([0-9A-Fa-f:.]+)\](?::[0-9]+)?|([0-9.]+):[0-9]+")
"""Some write the port behind an address."""

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class TrustedProxies:
    """Networks of trusted proxies. Without any the header is not read."""

    def __init__(self, networks: Iterable[str] = ()) -> None:
        """`networks` as `10.0.0.0/8` or `10.1.2.3`. Raises ValueError with a sentence."""
        self._networks = tuple(_network(text) for text in networks)
        self._is_trusted = lru_cache(maxsize=1024)(self._looked_up)
        self.outcomes: Counter[str] = Counter()
        """Requests with the header: `taken`; `ignored`, as it came from somebody who is not trusted; `unreadable`,
        where what a trusted proxy wrote is not an address.
        """

    def many_share(self, peer: str) -> bool:
        """Whether many clients may have the address of a connection: a trusted proxy's, or this machine's own."""
        address = _address(peer)
        return address is not None and (address.is_loopback or self._is_trusted(peer))

    def client(self, peer: str, forwarded: bytes | None) -> str:
        """The address that a request came from. `peer`: that of the connection."""
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

    def _looked_up(self, text: str) -> bool:
        address = _address(text)
        return address is not None and any(address in network for network in self._networks)


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        raise ValueError(f"FAIRLEAD_TRUSTED_PROXIES: {error}; write networks such as 10.0.0.0/8") from error


def _address(text: str) -> _Address | None:
    """One entry of the list; None for anything but an address, such as `unknown`."""
    if len(text) > MAX_ADDRESS:
        return None
    written = _PORT.fullmatch(text)
    try:
        address = ipaddress.ip_address((written[1] or written[2]) if written is not None else text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return address if mapped is None else mapped
