"""Tools of the gateway in one speech session: those that its tier offers, and how a call of one is run."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from fairlead_formats import registry
from fairlead_formats.messages.call import ModelCall
from fairlead_formats.tokens.conversation import ConversationTokens
from fairlead_formats.tokens.routes import ModelRoute, PlanLimits, RouteModel
from fairlead_models.providers import ModelTarget
from fairlead_models.request_record import RequestRecord
from fairlead_offers.catalogs.subject_catalog import SubjectCatalog
from fairlead_offers.offer.offered_calls import OfferContext, run_offered
from fairlead_offers.offer.offers import OfferBounds, OfferMemory, Offers, ToolOffer
from fairlead_offers.plan.prediction import guess
from fairlead_offers.problems import Problem
from fairlead_offers.services import ToolServices
from fairlead_speech.admission import SessionRequest
from fairlead_speech.metrics import SpeechMetrics
from fairlead_speech.session import SpeechSession
from fairlead_speech.tiers import SpokenTier, UserText, UserTexts

NO_TOOLS: Final = ToolOffer(0)
CONCURRENT_OFFERS: Final = 8
"""Sessions whose offers are made at once. The others wait: the worker refuses work that it cannot begin soon, and all
sessions of a gateway may open, or change their tier, in the same moment.
"""
_EMPTY: Final = ConversationTokens(0, 0)
log = logging.getLogger(__name__)
MAX_NAMES: Final = 4096
"""Tool names that are remembered."""


class ToolTraits(msgspec.Struct, frozen=True):
    """Traits of a tool by which a session decides how its calls are run and spoken of."""

    only_reads: bool = False
    """Whether a call changes nothing, by trusted annotations (`readOnlyHint`)."""
    usual_ms: float | None = None
    """Median duration of a call in milliseconds, measured or else declared."""
    speech: str | None = None
    """Setting of the McpServer: `Wait`, `WhenIdle`, `Interrupt` or `Silent`; None: chosen by the duration."""


UNKNOWN: Final = ToolTraits()


class SpeechOffers:
    """Makes offers for all speech sessions. One per gateway."""

    def __init__(self, tools: ToolServices) -> None:
        self.tools = tools
        self.offers = Offers(tools)
        self.memory = OfferMemory()
        self.turns = asyncio.Semaphore(CONCURRENT_OFFERS)


class SessionToolbox:
    """Tools that one session may call, from its principal's catalog."""

    def __init__(
        self,
        offers: SpeechOffers,
        session_request: SessionRequest,
        route: ModelRoute,
        format_name: str,
        record: RequestRecord,
        target: ModelTarget,
    ) -> None:
        """`format_name`: the message format in which the model has its tools."""
        self._offers = offers
        self._origin = session_request.origin
        self._wishes = session_request.wishes
        self._target = target
        self._route = route
        self._format = format_name
        self._record = record
        self._traits: Mapping[str, ToolTraits] = {}
        self.offer = NO_TOOLS
        """Tools that may be called now."""

    def catalog(self) -> SubjectCatalog:
        """Catalog of the principal as it is now."""
        return self._offers.tools.catalogs.seen_by(self._origin.identity)

    @property
    def enabled(self) -> bool:
        """Whether the client wants tools of the gateway."""
        return self._wishes.tools != "none"

    async def show(self, tier: str | None, client_tool_names: frozenset[str]) -> ToolOffer:
        """Offer the tools of a tier: they alone may be called from now on. `client_tool_names` are not used for tools
        of the gateway. Raises Problem.
        """
        if not self.enabled:
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
        """Traits of an offered tool; UNKNOWN for other names."""
        return self._traits.get(wire_name, UNKNOWN)

    def interruptible(self, wire_name: str) -> bool:
        """Whether a call of a tool may be cancelled at any time."""
        return self.traits(wire_name).only_reads

    async def run(self, call: ModelCall) -> Mapping[str, Any]:
        """Run a call by the tier and the policies as they are now. Returns its result. Raises Problem."""
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


class SpeechContext(msgspec.Struct, frozen=True):
    """Parts of the gateway that the session of one engine works with."""

    engine: str
    """Label of metrics."""
    toolbox: SessionToolbox
    tier: SpokenTier
    record: RequestRecord
    metrics: SpeechMetrics
    provider_mcp: bool
    """Whether a client may have the provider itself call MCP servers."""


class TierUpdate(msgspec.Struct):
    """Change that a client asks the gateway for (`fairlead.session.update`, `fairleadSessionUpdate`)."""

    tier: str | None = None
    """Name of a tier, or AUTO; None: unchanged."""
    queue_depth: int | None = None
    """Number of speakers that wait for an answer; None: unchanged."""


class TierTools:
    """Offers one session the tools of its tier, and chooses the tier by what the user says. `aclose` it."""

    def __init__(
        self, session: SpeechSession, context: SpeechContext, get_client_names: Callable[[], frozenset[str]]
    ) -> None:
        """`get_client_names` returns the names of the client's own tools."""
        self._session = session
        self._context = context
        self._toolbox = context.toolbox
        self._tier = context.tier
        self._get_client_names = get_client_names
        self._texts = UserTexts(self.choose_tier)
        self.open = False
        """Whether the session accepts tools now."""

    @property
    def tier(self) -> str | None:
        """Tier now; None: the principal's default."""
        return self._tier.current

    def add_text(self, text: UserText) -> None:
        """Queue a text by which the tier is chosen, while the session goes on."""
        self._texts.add(text)

    async def wait_for_texts(self) -> None:
        """Wait until the tier is chosen by all texts so far."""
        await self._texts.wait()

    async def choose_tier(self, text: UserText) -> None:
        """Choose the tier by a text. The tools are offered again where it changes, and at the end of a turn, as
        policies may have changed.
        """
        before = self._tier.current
        changed = await self._tier.choose(text.turn, text.text, final=text.final, continues=text.continues)
        if changed or text.final:
            await self._show_tier(before)

    async def update(self, update: TierUpdate) -> None:
        """Take a change that the client asks for. Raises UnknownTier."""
        before = self._tier.current
        if update.queue_depth is not None:
            self._tier.set_queue_depth(update.queue_depth)
        if update.tier is not None:
            self._tier.select(update.tier)
        await self._show_tier(before)

    async def show(self) -> None:
        """Offer the tools of the tier to the model, as they are now."""
        offer = await self.build_offer(self._get_client_names())
        if offer is not None:
            await self._session.set_tools(offer)

    async def build_offer(self, client_names: frozenset[str]) -> ToolOffer | None:
        """Offer of the tier beside the client's tools of these names; its tools alone may be called from now on. None:
        the offer before it stays.
        """
        try:
            return await self._toolbox.show(self._tier.current, client_names)
        except Problem as problem:  # its tier, or its policies, were removed from the installation
            log.info("A speech session keeps the tools that it has: %s", problem.document.code)
            return None

    async def aclose(self) -> None:
        """Drop the texts that wait."""
        await self._texts.aclose()

    async def _show_tier(self, before: str | None) -> None:
        now = self._tier.current
        if now != before and now is not None:
            self._context.metrics.count_tier_change(self._context.engine, now)
        if self.open:
            await self.show()


class GatewayToolNames:
    """Names of the tools that one session offers or has offered, without those whose calls the client runs."""

    def __init__(self) -> None:
        self._names: dict[str, None] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def add(self, offer: ToolOffer) -> None:
        """Add the names of an offer. Older names stay: a call may still come for a tool that is no longer offered."""
        for name in offer.names:
            self._names.pop(name, None)
            if name not in offer.client_run:
                self._names[name] = None
        while len(self._names) > MAX_NAMES:
            del self._names[next(iter(self._names))]
