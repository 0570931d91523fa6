"""Tools that a speech session shows: those of its tier, which follows what is said, whatever the engine is."""

from __future__ import annotations

import logging
from collections.abc import Callable

import msgspec

from fairlead_offers.offer.offers import ToolOffer
from fairlead_offers.problems import Problem
from fairlead_speech.hearing import HeardText, Hearing
from fairlead_speech.metrics import SpeechMetrics
from fairlead_speech.session import SpeechSession
from fairlead_speech.tiers import SpokenTier
from fairlead_speech.toolbox import SessionToolbox

log = logging.getLogger(__name__)


class TierWish(msgspec.Struct):
    """Wish of a client for its session."""

    tier: str | None = None
    """A name, or AUTO; None: as before."""
    queue_depth: int | None = None
    """Speakers that wait for an answer; None: as before."""


class ShownTools:
    """Tools and tier of one session. `aclose` it."""

    def __init__(
        self,
        session: SpeechSession,
        engine: str,
        toolbox: SessionToolbox,
        tier: SpokenTier,
        metrics: SpeechMetrics,
        get_client_names: Callable[[], frozenset[str]],
    ) -> None:
        """`get_client_names`: names of the client's own tools."""
        self._session = session
        self._engine = engine
        self._toolbox = toolbox
        self._tier = tier
        self._metrics = metrics
        self._get_client_names = get_client_names
        self._hearing = Hearing(self.heard)
        self.open = False
        """Whether the session takes tools now."""

    @property
    def tier(self) -> str | None:
        """The tier now; None: the principal's default one."""
        return self._tier.current

    def hear(self, heard: HeardText) -> None:
        """Have a text looked through soon, while the session goes on."""
        self._hearing.add(heard)

    async def all_heard(self) -> None:
        """Wait until all texts so far are looked through."""
        await self._hearing.done()

    async def heard(self, heard: HeardText) -> None:
        """Choose the tier by a text. At the end of a turn tools are looked up anew: policies may have changed."""
        before = self._tier.current
        changed = await self._tier.heard(heard.turn, heard.text, final=heard.final, grows=heard.grows)
        if changed or heard.final:
            await self._in_tier(before)

    async def wish(self, wish: TierWish) -> None:
        """Do what a client wishes. Raises UnknownTier."""
        before = self._tier.current
        if wish.queue_depth is not None:
            self._tier.queue(wish.queue_depth)
        if wish.tier is not None:
            self._tier.name(wish.tier)
        await self._in_tier(before)

    async def show(self) -> None:
        """Show the tools of the tier, as they are now."""
        offer = await self.offer_beside(self._get_client_names())
        if offer is not None:
            await self._session.set_tools(offer)

    async def offer_beside(self, client_names: frozenset[str]) -> ToolOffer | None:
        """The tools of the tier beside these of the client's, which alone may be called from now on; None: those that
        there were stay.
        """
        try:
            return await self._toolbox.show(self._tier.current, client_names)
        except Problem as problem:  # its tier is gone from the installation, or its policies are
            log.info("A speech session keeps its tools: %s", problem.document.code)
            return None

    async def aclose(self) -> None:
        """Drop what is not looked through."""
        await self._hearing.aclose()

    async def _in_tier(self, before: str | None) -> None:
        now = self._tier.current
        if now != before and now is not None:
            self._metrics.tier_changed(self._engine, now)
        if self.open:
            await self.show()
