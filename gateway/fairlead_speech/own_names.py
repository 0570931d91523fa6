"""Names of tools of the gateway that a session's model may call. Pure module."""

from __future__ import annotations

from typing import Final

from fairlead_offers.offer.offers import ToolOffer

MOST_NAMES: Final = 4096
"""Names that are remembered."""


class OwnNames:
    """Names of all tools that one session shows or has shown, without those whose calls the client runs."""

    def __init__(self) -> None:
        self._names: dict[str, None] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def show(self, offer: ToolOffer) -> None:
        """Add the tools of an offer. A call may still come for a tool that was just taken away."""
        for name in offer.names:
            self._names.pop(name, None)
            if name not in offer.client_run:
                self._names[name] = None
        while len(self._names) > MOST_NAMES:
            del self._names[next(iter(self._names))]
