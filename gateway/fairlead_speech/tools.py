"""Tools of the gateway in a speech session: offers the model the tools of the session's tier, and runs the model's
calls of these tools.

Each call runs in a task of its own, and each call id only once (`ToolCallHandler`). A later call with the same id gets
an error as its result, because the model would wait for a result.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
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
from fairlead_speech.metrics import CANCELLED, DUPLICATE, ERROR, OK, SpeechMetrics
from fairlead_speech.session import SpeechSession
from fairlead_speech.tiers import SpokenTier, UserText, UserTexts

NO_TOOLS: Final = ToolOffer(0)
CONCURRENT_OFFERS: Final = 8
"""Maximum number of sessions for which tools are chosen at the same time; other sessions wait. The limit is needed
because all sessions of a gateway may open or change their tier at once, and the worker thread refuses work that it
cannot begin soon.
"""
_NO_TOKENS: Final = ConversationTokens(0, 0)
log = logging.getLogger(__name__)
MAX_NAMES: Final = 4096
"""Maximum number of stored tool names."""
MAX_RUNNING: Final = 32
"""Maximum number of calls of one session that run at the same time."""
MAX_IDS: Final = 1024
"""Maximum number of stored call ids, by which repeated calls are recognized."""
RunCall = Callable[[ModelCall], Awaitable[Mapping[str, Any]]]
MAX_MEDIA_BYTES: Final = 12 << 20
"""Maximum number of bytes of the media parts in one event, counted as base64 and text."""
_MEDIA_TYPES: Final = frozenset({"image", "audio", "resource", "resource_link"})


class ToolTraits(msgspec.Struct, frozen=True):
    """Facts about a tool that decide how a session runs its calls and how the model speaks about them."""

    read_only: bool = False
    """Whether a call changes nothing, according to trusted annotations (`readOnlyHint`)."""
    usual_ms: float | None = None
    """Median duration of a call in milliseconds: measured if there are measurements, else declared. None: unknown."""
    speech: str | None = None
    """Setting in the McpServer: `Wait`, `WhenIdle`, `Interrupt` or `Silent`; None: decided by the usual duration of
    calls.
    """


UNKNOWN: Final = ToolTraits()


class SpeechOffers:
    """Chooses the tools that speech sessions offer to their models. Each gateway has one instance."""

    def __init__(self, tools: ToolServices) -> None:
        self.tools = tools
        self.offers = Offers(tools)
        self.memory = OfferMemory()
        self.offer_slots = asyncio.Semaphore(CONCURRENT_OFFERS)


class SessionToolbox:
    """Tools in the principal's catalog. Offers some of them to the model of one session, and runs the model's calls of
    the offered tools."""

    def __init__(
        self,
        offers: SpeechOffers,
        session_request: SessionRequest,
        route: ModelRoute,
        format_name: str,
        record: RequestRecord,
        target: ModelTarget,
    ) -> None:
        """`format_name`: name of the message format in which the model gets its tools."""
        self._offers = offers
        self._origin = session_request.origin
        self._wishes = session_request.wishes
        self._target = target
        self._route = route
        self._format = format_name
        self._record = record
        self._traits: Mapping[str, ToolTraits] = {}
        self.offer = NO_TOOLS
        """Tools that the model may currently call."""

    def catalog(self) -> SubjectCatalog:
        """Current catalog of the principal."""
        return self._offers.tools.catalogs.seen_by(self._origin.identity)

    @property
    def enabled(self) -> bool:
        """Whether the client wants tools of the gateway."""
        return self._wishes.tools != "none"

    async def offer_tools(self, tier: str | None, client_tool_names: frozenset[str]) -> ToolOffer:
        """Offer the tools of a tier. From then on, only these tools may be called. Tools whose names are in
        `client_tool_names` are left out. Raises Problem.
        """
        if not self.enabled:
            return self.offer
        tools, catalog = self._offers.tools, self.catalog()
        wishes = msgspec.structs.replace(self._wishes, tier=tier)
        window = tools.models.windows.window(self._target.model)
        models = [RouteModel(self._target.model, window, self._format, registry.find(self._format).max_tools)]
        limits = PlanLimits(wishes.max_tools, wishes.tool_tokens, 0).combine_with(self._route.limits)
        bounds = OfferBounds(models, limits, client_tool_names, _NO_TOKENS, exact=True)

        async def make_offer(bounds: OfferBounds) -> ToolOffer | None:
            return await tools.work.run_in_steps(
                lambda: self._offers.offers.make(self._format, catalog, wishes, bounds)
            )

        async with self._offers.offer_slots:
            offer = await self._offers.memory.get(self._format, catalog, wishes, bounds, make_offer)
            assert offer is not None, "`Offers.make` returns an offer for exact bounds"
            self._traits = await tools.work.do(lambda: self._traits_of(catalog, tier, offer))
        self._wishes = wishes
        self.offer = offer
        return offer

    def traits(self, wire_name: str) -> ToolTraits:
        """Traits of an offered tool; UNKNOWN for other names."""
        return self._traits.get(wire_name, UNKNOWN)

    def interruptible(self, wire_name: str) -> bool:
        """Whether calls of a tool may be cancelled at any time, because the tool is read-only."""
        return self.traits(wire_name).read_only

    async def run(self, call: ModelCall) -> Mapping[str, Any]:
        """Run a call under the current tier and policies, and return its result. Raises Problem."""
        context = OfferContext(self.offer, self._wishes, self._format)
        runs = await run_offered(self._offers.tools, self._origin, context, [call])
        if runs[0].tool is not None:
            self._record.record_tool_call(runs[0].tool, runs[0].result_tokens)
        return runs[0].result or {}

    def _traits_of(self, catalog: SubjectCatalog, tier: str | None, offer: ToolOffer) -> Mapping[str, ToolTraits]:
        visible_tools = self._offers.tools.catalogs.visible_tools(catalog, tier)
        traits = {}
        for name in offer.names:
            entry = visible_tools.find(visible_tools.names.original_name(name) or name)
            if entry is not None:
                read_only = bool((entry.decoded_definition.get("annotations") or {}).get("readOnlyHint"))
                traits[name] = ToolTraits(read_only, guess(entry).usual_ms, entry.tool.speech)
        return traits


class SpeechContext(msgspec.Struct, frozen=True):
    """Objects of the gateway that a session of any engine needs."""

    engine: str
    """Name of the engine, which is a label of metrics."""
    toolbox: SessionToolbox
    tier: SpokenTier
    record: RequestRecord
    metrics: SpeechMetrics
    provider_mcp: bool
    """Whether the client may declare MCP servers that the provider calls itself, bypassing the gateway."""


class TierUpdate(msgspec.Struct):
    """Change of a session that a client requests (`fairlead.session.update`, `fairleadSessionUpdate`)."""

    tier: str | None = None
    """Name of a tier, or AUTO; None: unchanged."""
    queue_depth: int | None = None
    """Number of speakers that wait for an answer; None: unchanged."""


class TierTools:
    """Chooses the tier of one session by the user's words, and offers the model the tools of that tier. Its owner calls
    `aclose` at the end.
    """

    def __init__(
        self, session: SpeechSession, context: SpeechContext, get_client_names: Callable[[], frozenset[str]]
    ) -> None:
        """`get_client_names`: returns the names of the client's tools."""
        self._session = session
        self._context = context
        self._toolbox = context.toolbox
        self._tier = context.tier
        self._get_client_names = get_client_names
        self._texts = UserTexts(self.choose_tier)
        self.open = False
        """Whether the session can currently change its tools."""

    @property
    def tier(self) -> str | None:
        """Current tier; None stands for the principal's default tier."""
        return self._tier.current

    def add_text(self, text: UserText) -> None:
        """Queue a text, by which the tier will be chosen in the background."""
        self._texts.add(text)

    async def wait_for_texts(self) -> None:
        """Wait until the tier has been chosen by all texts in the queue."""
        await self._texts.wait()

    async def choose_tier(self, text: UserText) -> None:
        """Choose the tier by a text. If the tier changes, offer the new tier's tools. Tools are also offered again at
        the end of each turn, because policies may have changed.
        """
        previous_tier = self._tier.current
        changed = await self._tier.choose(text.turn, text.text, final=text.final, continues=text.continues)
        if changed or text.final:
            await self._offer_changed_tier(previous_tier)

    async def update(self, update: TierUpdate) -> None:
        """Apply a change that the client requests. Raises UnknownTier."""
        previous_tier = self._tier.current
        if update.queue_depth is not None:
            self._tier.set_queue_depth(update.queue_depth)
        if update.tier is not None:
            self._tier.select(update.tier)
        await self._offer_changed_tier(previous_tier)

    async def offer_tools(self) -> None:
        """Offer the model the current tools of the tier."""
        offer = await self.build_offer(self._get_client_names())
        if offer is not None:
            await self._session.set_tools(offer)

    async def build_offer(self, client_names: frozenset[str]) -> ToolOffer | None:
        """Choose the tier's tools, without those whose name is also the name of a tool of the client. Afterwards, only
        these tools may be called. Returns None if no offer could be made; the previous offer then remains.
        """
        try:
            return await self._toolbox.offer_tools(self._tier.current, client_names)
        except Problem as problem:  # for example, the tier was removed from the installation
            log.info(
                "A speech session keeps its current tools, because new ones could not be offered: %s",
                problem.document.code,
            )
            return None

    async def aclose(self) -> None:
        """Drop the waiting texts."""
        await self._texts.aclose()

    async def _offer_changed_tier(self, previous_tier: str | None) -> None:
        current = self._tier.current
        if current != previous_tier and current is not None:
            self._context.metrics.count_tier_change(self._context.engine, current)
        if self.open:
            await self.offer_tools()


class GatewayToolNames:
    """Names of tools in one session, by who answers their calls: names of tools that the gateway offers or has offered,
    and names of tools whose calls the client runs. Earlier names remain, because the model may still call these tools.
    """

    def __init__(self) -> None:
        self._names: dict[str, None] = {}
        self._client_names: dict[str, None] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def add(self, offer: ToolOffer) -> None:
        """Add the names of the tools in an offer."""
        for name in offer.names:
            self._names.pop(name, None)
        _add_bounded(self._names, (name for name in offer.names if name not in offer.client_run))
        self.add_client_names(offer.client_run)

    def add_client_names(self, names: Iterable[str]) -> None:
        """Add names of tools whose calls the client runs, because the client declared the tools or policies demand
        it.
        """
        _add_bounded(self._client_names, names)

    def answers(self, name: str, declared_names: Collection[str]) -> bool:
        """Whether the gateway answers calls of a name, so that the client does not receive them. The gateway answers
        calls of its own tools. If it has offered any tools, it also answers calls of unknown names, and tells the model
        which tool may be meant. `declared_names`: names of the tools that the client declares now.
        """
        if not name or name in declared_names:
            return False
        return name in self._names or (bool(self._names) and name not in self._client_names)


def _add_bounded(names: dict[str, None], new_names: Iterable[str]) -> None:
    """Add names, and drop the oldest if there are more than MAX_NAMES."""
    for name in new_names:
        names.pop(name, None)
        names[name] = None
    while len(names) > MAX_NAMES:
        del names[next(iter(names))]


def error_result(message: str) -> Mapping[str, Any]:
    """Result of a failed call, with a message for the model."""
    return {"content": [{"type": "text", "text": message}], "isError": True}


def _result_of_repeated_call(call: ModelCall) -> Mapping[str, Any]:
    """Result of a call that is not run, because an earlier call had its id."""
    reason = f"an earlier call has its id {call.id[:64]}"
    return error_result(f"{call.wire_name[:128]} was not run, because {reason}: call it again with another id")


class ToolCallHandler:
    """Runs the calls of one session, and passes their results to the session. Its owner calls `aclose` at the end."""

    def __init__(
        self,
        session: SpeechSession,
        run: RunCall,
        interruptible: Callable[[str], bool],
        engine: str,
        metrics: SpeechMetrics,
    ) -> None:
        """`run`: runs a call and returns its result, which may be a refusal. `interruptible`: whether the calls of a
        tool, given by its name, may be cancelled when the user interrupts; true for read-only tools.
        """
        self._session = session
        self._run = run
        self._interruptible = interruptible
        self._engine = engine
        self._metrics = metrics
        self._seen_ids: OrderedDict[str, None] = OrderedDict()
        self._running: dict[str, tuple[ModelCall, asyncio.Task[None]]] = {}
        """Running calls and their tasks, by call id."""
        self._interrupted_ids: set[str] = set()
        """Ids of running calls that were cancelled because the user interrupted."""
        self._cancelled_by_provider: set[str] = set()
        """Ids of calls that the provider has cancelled but that run to their end. Their results are dropped."""

    @property
    def running(self) -> Collection[str]:
        """Ids of the running calls."""
        return self._running.keys()

    def __contains__(self, ident: str) -> bool:
        """Whether a call with this id was started."""
        return ident in self._seen_ids

    def begin(self, call: ModelCall) -> None:
        """Start a call, whose result is sent to the session. A call with the id of an earlier call is not run. If the
        earlier call is still running, its result answers both calls; if it has ended, the later call gets an error.
        """
        repeated = call.id in self._seen_ids
        if repeated:
            self._metrics.count_call(self._engine, DUPLICATE)
        if call.id in self._running:
            return
        self._seen_ids[call.id] = None
        if len(self._seen_ids) > MAX_IDS:
            self._seen_ids.popitem(last=False)
        other_calls = len(self._running)
        run = self._run_to_end(call, other_calls, repeated=repeated)
        self._running[call.id] = call, asyncio.create_task(run, name="call of a speech session")

    def interrupt(self) -> None:
        """Handle an interruption by the user: cancel the calls of read-only tools. Their results tell the model that
        they were cancelled.
        """
        for ident, (call, task) in self._running.items():
            if self._interruptible(call.wire_name):
                self._interrupted_ids.add(ident)
                task.cancel()

    def cancel(self, ids: Collection[str]) -> None:
        """Handle a cancellation by the provider: the model gets no results of the calls. Only calls of read-only tools
        are cancelled; all other calls run to their end.
        """
        for ident in ids:
            entry = self._running.get(ident)
            if entry is None:
                continue
            call, task = entry
            if self._interruptible(call.wire_name):
                task.cancel()
            else:
                self._cancelled_by_provider.add(ident)

    async def aclose(self) -> None:
        """Cancel all calls."""
        tasks = [task for _, task in self._running.values()]
        self._interrupted_ids.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run_to_end(self, call: ModelCall, other_calls: int, *, repeated: bool) -> None:
        result: Mapping[str, Any]
        try:
            result = _result_of_repeated_call(call) if repeated else await self._run_checked(call, other_calls)
        except asyncio.CancelledError:
            self._metrics.count_call(self._engine, CANCELLED)
            if call.id not in self._interrupted_ids:
                raise
            result = error_result("The call was cancelled, because the user interrupted")
        finally:
            self._running.pop(call.id, None)
            self._interrupted_ids.discard(call.id)
            drop_result = call.id in self._cancelled_by_provider
            self._cancelled_by_provider.discard(call.id)
        if not drop_result:
            await self._session.send_result(call, result)

    async def _run_checked(self, call: ModelCall, other_calls: int) -> Mapping[str, Any]:
        if other_calls >= MAX_RUNNING:
            self._metrics.count_call(self._engine, ERROR)
            reason = f"{MAX_RUNNING} calls of this session are running"
            return error_result(f"The call was not run, because {reason}: retry when one has ended")
        try:
            result = await self._run(call)
        except Problem as problem:
            result = error_result(problem.document.detail)
        except Exception:
            log.exception("The gateway failed to run the call of %s in a speech session", call.wire_name[:128])
            result = error_result("The gateway failed to run the call")
        self._metrics.count_call(self._engine, ERROR if result.get("isError") else OK)
        return result


def media_parts(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Images, audio, files and links of an MCP result, which cannot be spoken. Parts beyond MAX_MEDIA_BYTES in total
    are left out.
    """
    content = result.get("content")
    parts: list[dict[str, Any]] = []
    remaining_bytes = MAX_MEDIA_BYTES
    for part in content if isinstance(content, list) else []:
        if not isinstance(part, dict) or part.get("type") not in _MEDIA_TYPES:
            continue
        remaining_bytes -= _size(part)
        if remaining_bytes >= 0:
            parts.append(part)
    return parts


def _size(part: Mapping[str, Any]) -> int:
    resource = part.get("resource")
    texts = [*part.values(), *(resource.values() if isinstance(resource, dict) else ())]
    return sum(len(text) for text in texts if isinstance(text, str)) + 256
