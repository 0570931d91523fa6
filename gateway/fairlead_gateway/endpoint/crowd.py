"""How many connections are open, in all and from each address, and which one is too many.

Pure module. It counts what the listener let in; what it turns away is answered, so that a
client learns why, but only while few are being told.
"""

from __future__ import annotations

from typing import Final

import msgspec

MAX_TOLD: Final = 256
"""Connections that are told at once why they are turned away; those beyond are closed without a word."""


class Place(msgspec.Struct, frozen=True):
    """What became of a connection; to be given back when it ends."""

    address: str
    inside: bool = False
    refused: tuple[int, str] | None = None
    """Why not, to be told: an HTTP status and a sentence."""


NOBODY: Final = Place("")


class Crowd:
    """See the module. 0 for either bound is none."""

    def __init__(self, most: int = 0, most_each: int = 0) -> None:
        self._most = most
        self._most_each = most_each
        self._each: dict[str, int] = {}
        self._told = 0
        self.inside = 0
        self.turned_away = 0
        """So far."""

    def enter(self, address: str) -> Place:
        """A place inside; else one with the reason; or neither, for one that is closed without a word."""
        refused = self._refused(address)
        if refused is not None:
            self.turned_away += 1
            if self._told >= MAX_TOLD:
                return NOBODY
            self._told += 1
            return Place(address, refused=refused)
        self.inside += 1
        if self._most_each:
            self._each[address] = self._each.get(address, 0) + 1
        return Place(address, inside=True)

    def leave(self, place: Place) -> None:
        """A connection is gone."""
        self._told -= place.refused is not None
        self.inside -= place.inside
        if place.inside and self._most_each:
            left = self._each.pop(place.address) - 1
            if left:
                self._each[place.address] = left

    def _refused(self, address: str) -> tuple[int, str] | None:
        if self._most and self.inside >= self._most:
            return 503, f"the gateway has {self._most} connections open, which is the most that it takes"
        if self._most_each and self._each.get(address, 0) >= self._most_each:
            return 429, f"there are {self._most_each} connections from this address, which is the most for one"
        return None
