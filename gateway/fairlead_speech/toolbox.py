"""Tools of the gateway in one speech session: what its tier shows, and how a call is run."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
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
from fairlead_offers.offer.offered_calls import OfferContext, run_offered
from fairlead_offers.offer.offers import OfferBounds, OfferMemory, Offers, OfferWishes, ToolOffer
from fairlead_offers.plan.prediction import guess
from fairlead_offers.services import ToolServices

NO_TOOLS: Final = ToolOffer(0)
SHOWN_AT_ONCE: Final = 8
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
        self.turns = asyncio.Semaphore(SHOWN_AT_ONCE)


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
    def wanted(self) -> bool:
        """Whether the client wants tools of the gateway."""
        return self._wishes.tools != "none"

    async def show(self, tier: str | None, client_tool_names: frozenset[str]) -> ToolOffer:
        """Have the tools of a tier be those that may be called, and nothing else, from now on. Raises Problem."""
        if not self.wanted:
            return self.offer
        tools, catalog = self._offers.tools, self.catalog()
        wishes = msgspec.structs.replace(self._wishes, tier=tier)
        window = tools.models.windows.window(self._target.model)
        models = [RouteModel(self._target.model, window, self._format, registry.find(self._format).max_tools)]
        limits = PlanLimits(wishes.max_tools, wishes.tool_tokens, 0).within(self._route.limits)
        bounds = OfferBounds(models, limits, client_tool_names, _EMPTY, exact=True)

        async def make(bounds: OfferBounds) -> ToolOffer | None:
            return await tools.work.stepwise(lambda: self._offers.offers.make(self._format, catalog, wishes, bounds))

        async with self._offers.turns:
            offer = await self._offers.memory.get(self._format, catalog, wishes, bounds, make)
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
        context = OfferContext(self.offer, self._wishes, self._format)
        runs = await run_offered(self._offers.tools, self._origin, context, [call])
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
