"""Offers that were made, for requests that get the same one: found in the loop, without the worker.

A hand-over to the worker's thread costs more than all else of a request.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Final

import msgspec

from fairlead_formats.tokens.conversation import ConversationTokens
from fairlead_offers.catalogs.subject_catalog import SubjectCatalog
from fairlead_offers.offer.offers import OfferBounds, OfferWishes, ToolOffer

MAX_OFFERS: Final = 256
"""Offers that are kept; the one that nobody asked for longest goes first."""
MAX_NAME_CHARACTERS: Final = 16 << 10
"""Characters in names of a caller's own tools up to which the offer is kept, of which they are the key."""


class _Made(msgspec.Struct, frozen=True):
    views: object
    """Views that the offer was made from. Held, so that no other object has their address meanwhile."""
    most: int
    """Tokens of the longest conversation that it was made for."""
    offer: ToolOffer


class OfferMemory:
    """Offers of one snapshot in which nothing is left out."""

    def __init__(self) -> None:
        self._snapshot: object = None
        self._made: OrderedDict[tuple[Hashable, ...], _Made] = OrderedDict()
        self._making: dict[tuple[Hashable, ...], asyncio.Event] = {}

    async def made(
        self,
        format_name: str,
        seen: SubjectCatalog,
        wishes: OfferWishes,
        bounds: OfferBounds,
        make: Callable[[OfferBounds], Awaitable[ToolOffer | None]],
    ) -> ToolOffer | None:
        """The offer that was made before, else that of `make`. Requests for the same that come meanwhile wait for it:
        a thousand of them are one piece of work.
        """
        if sum(map(len, bounds.client_tool_names)) > MAX_NAME_CHARACTERS:
            return await make(bounds)
        key = _key(format_name, seen, wishes, bounds)
        offer = self._find(key, seen, bounds)
        if offer is None and key in self._making:
            await self._making[key].wait()
            offer = self._find(key, seen, bounds)
        if offer is not None:
            return offer
        over = self._making[key] = asyncio.Event()
        try:
            offer = await make(bounds)
        finally:
            over.set()
            if self._making.get(key) is over:
                del self._making[key]
        if offer is not None:
            self._keep(key, seen, bounds, offer)
        return offer

    def _find(self, key: tuple[Hashable, ...], seen: SubjectCatalog, bounds: OfferBounds) -> ToolOffer | None:
        """The offer that was made for the same wishes and a conversation of at least its length."""
        if self._snapshot is not seen.snapshot:
            self._snapshot = seen.snapshot
            self._made = OrderedDict()
            return None
        made = self._made.get(key)
        if made is None or made.views is not seen.views or _tokens(bounds.conversation) > made.most:
            return None
        self._made.move_to_end(key)
        return made.offer

    def _keep(self, key: tuple[Hashable, ...], seen: SubjectCatalog, bounds: OfferBounds, offer: ToolOffer) -> None:
        if self._snapshot is not seen.snapshot:
            return
        before = self._made.get(key)
        most = _tokens(bounds.conversation)
        if before is None or before.views is not seen.views or before.most < most:
            self._made[key] = _Made(seen.views, most, offer)
        if len(self._made) > MAX_OFFERS:
            self._made.popitem(last=False)


def _key(format_name: str, seen: SubjectCatalog, wishes: OfferWishes, bounds: OfferBounds) -> tuple[Hashable, ...]:
    return id(seen.views), format_name, wishes, tuple(bounds.models), bounds.limits, bounds.client_tool_names


def _tokens(conversation: ConversationTokens) -> int:
    return conversation.system + conversation.messages
