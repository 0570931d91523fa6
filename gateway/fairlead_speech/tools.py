"""Tools of the gateway in one speech session: which of them its tier shows, and how a call is run."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from fairlead_formats import registry
from fairlead_formats.messages.call import ModelCall
from fairlead_formats.tokens.conversation import ConversationTokens
from fairlead_formats.tokens.fit import PlanLimits, RouteModel
from fairlead_formats.tokens.routes import ModelRoute
from fairlead_gateway.calls.path.direct import Origin
from fairlead_models.providers import ModelTarget
from fairlead_models.request_record import RequestRecord
from fairlead_offers.catalogs.subject_catalog import SubjectCatalog
from fairlead_offers.offer.offer_memory import OfferMemory
from fairlead_offers.offer.offered_runs import run_offered
from fairlead_offers.offer.offers import OfferBounds, Offers, OfferWishes, ToolOffer
from fairlead_offers.plan.prediction import guess
from fairlead_offers.problems import Problem
from fairlead_offers.services import ToolServices
from fairlead_speech.metrics import SpeechMetrics
from fairlead_speech.session import SpeechSession
from fairlead_speech.tiers import SpokenTier, UserText, UserTexts

NO_TOOLS: Final = ToolOffer(0)
CONCURRENT_OFFERS: Final = 8
"""Sessions whose tools are looked up at once. The others wait: the worker refuses what it cannot begin soon, and all
sessions of a gateway may open, or change their tier, in the same moment.
"""
_EMPTY: Final = ConversationTokens(0, 0)


class ToolTraits(msgspec.Struct, frozen=True):
    """Traits of a tool that matter while a model speaks."""

    only_reads: bool = False
    """Whether its trusted annotations say so: a call changes nothing."""
    usual_ms: float | None = None
    """Median duration of a call, measured or else declared."""
    speech: str | None = None
    """Setting of the McpServer: `Wait`, `WhenIdle`, `Interrupt` or `Silent`; None: by the duration."""


UNKNOWN: Final = ToolTraits()


class SpeechOffers:
    """Makes offers for all speech sessions. One per gateway."""

    def __init__(self, tools: ToolServices) -> None:
        self.tools = tools
        self.offers = Offers(tools)
        self.memory = OfferMemory()
        self.turns = asyncio.Semaphore(CONCURRENT_OFFERS)


class SessionToolbox:
    """Tools of one session, and its principal's catalog."""

    def __init__(
        self,
        offers: SpeechOffers,
        origin: Origin,
        wishes: OfferWishes,
        route: ModelRoute,
        format_name: str,
        record: RequestRecord,
        target: ModelTarget,
    ) -> None:
        self._offers = offers
        self._origin = origin
        self._wishes = wishes
        self._target = target
        self._route = route
        self._format = format_name
        self._record = record
        self._traits: Mapping[str, ToolTraits] = {}
        self.offer = NO_TOOLS
        """Tools that may be called now."""

    def catalog(self) -> SubjectCatalog:
        """The catalog that the principal may see now."""
        return self._offers.tools.catalogs.seen_by(self._origin.identity)

    @property
    def enabled(self) -> bool:
        """Whether the client wants tools of the gateway."""
        return self._wishes.tools != "none"

    async def show(self, tier: str | None, client_tool_names: frozenset[str]) -> ToolOffer:
        """Have the tools of a tier be those that may be called, and nothing else, from now on. Raises Problem."""
        if not self.enabled:
            return self.offer
        tools, catalog = self._offers.tools, self.catalog()
        wishes = msgspec.structs.replace(self._wishes, tier=tier)
        window = tools.models.windows.window(self._target.model)
        models = [RouteModel(self._target.model, window, self._format, registry.find(self._format).max_tools)]
        limits = PlanLimits(wishes.max_tools, wishes.tool_tokens, 0).within(self._route.limits)
        bounds = OfferBounds(models, limits, client_tool_names, _EMPTY, exact=True)

        async def make(bounds: OfferBounds) -> ToolOffer | None:
            return await tools.work.stepwise(lambda: self._offers.offers.made(self._format, catalog, wishes, bounds))

        async with self._offers.turns:
            offer = await self._offers.memory.made(self._format, catalog, wishes, bounds, make)
            assert offer is not None, "an exact offer is always made"
            self._traits = await tools.work.do(lambda: self._traits_of(catalog, tier, offer))
        self._wishes = wishes
        self.offer = offer
        return offer

    def traits(self, wire_name: str) -> ToolTraits:
        """Traits of a tool that is shown; UNKNOWN of others."""
        return self._traits.get(wire_name, UNKNOWN)

    def interruptible(self, wire_name: str) -> bool:
        """Whether a call of a tool may be given up at any time."""
        return self.traits(wire_name).only_reads

    async def run(self, call: ModelCall) -> Mapping[str, Any]:
        """The result of a call, by what tier and policies allow now. Raises Problem."""
        runs = await run_offered(
            self._offers.tools, self._origin, self.catalog, self._wishes, self.offer, self._format, [call]
        )
        if runs[0].tool is not None:
            self._record.tool_called(runs[0].tool, runs[0].result_tokens)
        return runs[0].result or {}

    def _traits_of(self, catalog: SubjectCatalog, tier: str | None, offer: ToolOffer) -> Mapping[str, ToolTraits]:
        visible = self._offers.tools.catalogs.visible(catalog, tier)
        traits = {}
        for name in offer.names:
            entry = visible.find(visible.names.original(name) or name)
            if entry is not None:
                reads = bool((entry.decoded.get("annotations") or {}).get("readOnlyHint"))
                traits[name] = ToolTraits(reads, guess(entry).usual_ms, entry.tool.speech)
        return traits


log = logging.getLogger(__name__)


class TierUpdate(msgspec.Struct):
    """Wish of a client for its session."""

    tier: str | None = None
    """A name, or AUTO; None: as before."""
    queue_depth: int | None = None
    """Speakers that wait for an answer; None: as before."""


class TierTools:
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
        self._texts = UserTexts(self.choose_tier)
        self.open = False
        """Whether the session takes tools now."""

    @property
    def tier(self) -> str | None:
        """The tier now; None: the principal's default one."""
        return self._tier.current

    def add_text(self, heard: UserText) -> None:
        """Have a text looked through soon, while the session goes on."""
        self._texts.add(heard)

    async def wait_for_texts(self) -> None:
        """Wait until all texts so far are looked through."""
        await self._texts.wait()

    async def choose_tier(self, heard: UserText) -> None:
        """Choose the tier by a text. At the end of a turn tools are looked up anew: policies may have changed."""
        before = self._tier.current
        changed = await self._tier.choose(heard.turn, heard.text, final=heard.final, continues=heard.continues)
        if changed or heard.final:
            await self._show_tier(before)

    async def update(self, wish: TierUpdate) -> None:
        """Do what a client wishes. Raises UnknownTier."""
        before = self._tier.current
        if wish.queue_depth is not None:
            self._tier.set_queue_depth(wish.queue_depth)
        if wish.tier is not None:
            self._tier.select(wish.tier)
        await self._show_tier(before)

    async def show(self) -> None:
        """Show the tools of the tier, as they are now."""
        offer = await self.build_offer(self._get_client_names())
        if offer is not None:
            await self._session.set_tools(offer)

    async def build_offer(self, client_names: frozenset[str]) -> ToolOffer | None:
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
        await self._texts.aclose()

    async def _show_tier(self, before: str | None) -> None:
        now = self._tier.current
        if now != before and now is not None:
            self._metrics.count_tier_change(self._engine, now)
        if self.open:
            await self.show()


MAX_NAMES: Final = 4096
"""Names that are remembered."""


class GatewayToolNames:
    """Names of all tools that one session shows or has shown, without those whose calls the client runs."""

    def __init__(self) -> None:
        self._names: dict[str, None] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def add(self, offer: ToolOffer) -> None:
        """Add the tools of an offer. A call may still come for a tool that was just taken away."""
        for name in offer.names:
            self._names.pop(name, None)
            if name not in offer.client_run:
                self._names[name] = None
        while len(self._names) > MAX_NAMES:
            del self._names[next(iter(self._names))]
