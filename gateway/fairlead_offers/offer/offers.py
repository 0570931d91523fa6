"""Offer of tools for a request to a model: the gateway's tools that the model gets in addition to the client's.

An offer lists the tools that the principal may call, that the tier shows, and that fit the model's context window. If
they do not all fit, or if the request wishes so, the offer has the tools of the router endpoint instead, with which the
model searches for tools.

`Offers` runs in the worker thread, where it shares the catalog, token counts and conversions with other work. It lets
`tokens.plan` decide which tools fit, and `tokens.exposure` whether a list or search is cheaper. `OfferMemory` caches
offers in the event loop, because handing work over to the thread takes longer than the rest of a request.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from typing import Annotated, Final, Literal, TypeVar
from weakref import WeakKeyDictionary

import msgspec
from msgspec import Meta

from fairlead_formats import registry
from fairlead_formats.tokens.conversation import ConversationTokens
from fairlead_formats.tokens.exposure import LIST, SEARCH
from fairlead_formats.tokens.fit import Candidate, Fit
from fairlead_formats.tokens.outcome import CONTEXT_WINDOW, Cut, Plan, PlanRefused
from fairlead_formats.tokens.plan import plan
from fairlead_formats.tokens.routes import PlanLimits, RouteModel
from fairlead_formats.tool_format import Format, Options
from fairlead_gateway.core.meta_tools import OWN_TOOLS
from fairlead_gateway.core.quota import Quota
from fairlead_gateway.policy.view import View
from fairlead_offers.catalogs.subject_catalog import SubjectCatalog
from fairlead_offers.catalogs.visible_tools import READER, VisibleTool, VisibleTools
from fairlead_offers.documents import encode
from fairlead_offers.offer.server_tool_choice import ServerToolChoice, Word, Words, choice_for
from fairlead_offers.plan.caller_tools import CallerTools
from fairlead_offers.plan.exposed_tools import (
    ROUTER_TOOLS,
    PlannedTask,
    compare_exposures,
    exposure_options,
    requested_tools,
    tools_of_other_tiers,
    without_offline,
)
from fairlead_offers.plan.offered_tools import candidates, convert_tools
from fairlead_offers.services import ToolServices

MAX_TOOL_SETS: Final = 64
"""Maximum number of cached sets of tools of one view."""
ASKED: Final = "asked"
CHEAPER: Final = "cheaper"
AUTO: Final = "auto"
NO_LIMITS: Final = PlanLimits(reserved_output=0)
_TASK: Final = PlannedTask(calls=1, caching=True, conversation_tokens=0)
"""Task for which `cheapest` compares a list with search. The task has no conversation tokens, so the choice does not
change while a conversation becomes longer.
"""
Cached = TypeVar("Cached")
Positive = Annotated[int, Meta(ge=1)]
MAX_OFFERS: Final = 256
"""Maximum number of cached offers. The least recently used offer is dropped."""
MAX_NAME_CHARACTERS: Final = 16 << 10
"""Maximum number of characters in the names of a client's tools. With more characters, the offer is not cached, because
the names are part of the cache's key.
"""


class OfferWishes(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Wishes of a request for the tools that the gateway adds: the member `fairlead` of its body."""

    tier: Word | None = None
    """Name of a tier, or `auto` for the tier that the rules choose by the texts of the conversation."""
    servers: Words = ()
    tags: Words = ()
    max_tools: Positive | None = None
    tool_tokens: Positive | None = None
    tools: Literal["auto", "inject", "search", "cheapest", "none"] = "auto"
    """`inject` lists as many tools as fit. `search` offers the tools of the router endpoint. `auto` lists the tools if
    all fit, and offers search otherwise. `cheapest` lists the tools or offers search, whichever needs fewer tokens for
    a task with one call.
    """
    mcp: Annotated[tuple[ServerToolChoice, ...], Meta(max_length=64)] = ()
    """Filters by server, from the `mcp` tools of a Responses request. If there are filters, only tools that match one
    of them are offered, and always as a list.
    """
    max_calls: Annotated[int, Meta(ge=0)] | None = None
    """Maximum number of calls that the gateway runs for the request."""
    show_calls: bool = False
    """Whether the answer also has the calls that the gateway ran."""


class ToolOffer(msgspec.Struct, frozen=True):
    """Tools of the gateway that one request to a model gets."""

    model_index: int
    """Index in `OfferBounds.models` of the model for which the tools were chosen."""
    way: str = LIST
    """`list` if the tools are listed, `search` if the model searches them with the tools of the router endpoint."""
    search_reason: str = ""
    """Why search is offered: `asked` by the request, `cheaper`, or the limit that a list would exceed. Empty for a
    list.
    """
    tier: str = ""
    """Latency tier that selects the tools; empty without a tier."""
    definitions: tuple[bytes, ...] = ()
    """Definitions of the tools in the format of the request."""
    names: tuple[str, ...] = ()
    """Names of the tools as the model sees them, in the order of `definitions`."""
    router_tools: Mapping[str, str] = {}
    """Names of offered tools of the router endpoint, by the name that the model sees."""
    reachable: frozenset[str] = frozenset()
    """Exposed names of all tools that match the request, which `execute_tool` may call."""
    cut: tuple[Cut, ...] = ()
    """Tools that were left out because of a limit, each with that limit."""
    shadowed: tuple[str, ...] = ()
    """Tools that were left out because the client has a tool of the same name."""
    approved_first: frozenset[str] = frozenset()
    """Names of tools whose calls run only after the client has approved the call."""
    manual_reasons: Mapping[str, str] = {}
    """Why policies (`autoRun`) reserve calls for the client: one sentence by name of the tool. Includes tools that a
    search may find.
    """
    quotas: tuple[Quota, ...] = ()
    """Quotas of the principal with a limit on tokens per day, in the namespaces of the offered tools and of tools that
    a search may find.
    """
    tokens: Mapping[str, int] = {}
    """Number of tokens of each definition, by exposed name of the tool."""
    refused: str = ""
    """Why no tool is offered: by the gateway's token count, the conversation alone exceeds the context window. The
    request is sent to the model nevertheless, because the count is an estimate. Empty: tools are offered.
    """

    @property
    def client_run(self) -> frozenset[str]:
        """Names of tools whose calls are returned to the client: those that the client has to approve first, and those
        that policies reserve for the client.
        """
        return frozenset((*self.manual_reasons, *self.approved_first))

    @property
    def whole(self) -> bool:
        """Whether all tools are offered, so that no tool was left out because of a limit."""
        return not self.refused and not self.cut and self.search_reason in ("", ASKED, CHEAPER)

    @property
    def callable_total(self) -> int:
        """Number of tools that the model can call; -1 if the conversation exceeds the context window."""
        return -1 if self.refused else len(self.reachable if self.way == SEARCH else self.definitions)


class OfferBounds(msgspec.Struct, frozen=True):
    """Models, limits and conversation that an offer has to fit."""

    models: Sequence[RouteModel]
    limits: PlanLimits
    client_tool_names: frozenset[str]
    """Names of the client's tools."""
    conversation: ConversationTokens
    exact: bool
    """Whether the tokens of `conversation` were counted. Otherwise they are an upper bound."""


class _ToolSet(msgspec.Struct, frozen=True):
    """Tools of one view that match one filter, prepared for one way of offering: counted and converted."""

    way: str
    """`list` or `search`, as in `ToolOffer`."""
    candidates: list[Candidate]
    """Tools to offer, with their token counts."""
    definitions: dict[str, tuple[str, bytes]]
    """For each exposed name, the name that the model sees and the definition in the format of the request."""
    router_tools: dict[str, str]
    reachable: frozenset[str]
    approved_first: frozenset[str]
    view: View
    manual_reasons_of_found: dict[str, str]
    """Reasons why policies reserve calls for the client, by exposed name of the tools that a search may find."""

    def _manual_reasons(self, names: Iterable[str]) -> dict[str, str]:
        """Reasons why policies reserve calls for the client: for the tools with these names by the name that the model
        sees, for tools that a search may find by exposed name.
        """
        reasons = _find_manual_reasons(self.view, names)
        return {**self.manual_reasons_of_found, **{self.definitions[name][0]: why for name, why in reasons.items()}}

    def offer(
        self, outcome: Plan, models: Sequence[RouteModel], search_reason: str, shadowed: tuple[str, ...]
    ) -> ToolOffer:
        """Make the offer of the tools that a plan includes."""
        chosen_definitions = {name: self.definitions[name] for name in outcome.tools if name in self.definitions}
        sizes = {each.name: each.tokens for each in self.candidates}
        return ToolOffer(
            next(index for index, model in enumerate(models) if model.name == outcome.model),
            self.way,
            search_reason,
            self.view.tier or "",
            tuple(raw for _, raw in chosen_definitions.values()),
            tuple(name for name, _ in chosen_definitions.values()),
            self.router_tools,
            self.reachable,
            outcome.cut,
            shadowed,
            self.approved_first,
            self._manual_reasons(chosen_definitions),
            self.quotas(self.reachable if self.way == SEARCH else chosen_definitions),
            {name: sizes[name] for name in chosen_definitions},
        )

    def quotas(self, names: Iterable[str]) -> tuple[Quota, ...]:
        """Quotas with a limit on tokens per day, one for each namespace of the tools with these exposed names."""
        routes = (self.view.everything[name] for name in sorted(names) if name in self.view.everything)
        quotas = (route.quota for route in routes if route.quota is not None)
        return tuple({each.namespace: each for each in quotas if each.tokens_per_day is not None}.values())


class Offers:
    """Makes offers, and caches the sets of tools from which it makes them, by view. Each gateway has one instance."""

    def __init__(self, services: ToolServices) -> None:
        self._services = services
        self._tool_sets: WeakKeyDictionary[VisibleTools, dict[tuple[object, ...], _ToolSet]] = WeakKeyDictionary()
        self._search_is_cheaper: WeakKeyDictionary[VisibleTools, dict[tuple[object, ...], bool]] = WeakKeyDictionary()

    async def make(
        self, format_name: str, catalog: SubjectCatalog, wishes: OfferWishes, bounds: OfferBounds
    ) -> ToolOffer | None:
        """Make an offer in a format for one of the models in `bounds`. Returns None if the conversation was not counted
        and, by its upper bound, not all tools fit. Must be run by `HeavyWork.run_in_steps`. Raises Problem.
        """
        visible = self._services.catalogs.visible_tools(catalog, wishes.tier)
        format_ = registry.find(format_name)
        search_reason = await self._search_reason(catalog, visible, wishes, bounds.models[0])
        if search_reason:
            offer = await self._offer_search(format_, visible, wishes, bounds, search_reason)
            if offer is not None or not bounds.exact:
                return offer
        list_offer = await self._offer_list(format_, visible, wishes, bounds)
        if list_offer is None or list_offer.whole or wishes.tools != AUTO or wishes.mcp:
            return list_offer
        search_reason = list_offer.cut[0].reason if list_offer.cut else CONTEXT_WINDOW
        return await self._offer_search(format_, visible, wishes, bounds, search_reason) or list_offer

    async def _search_reason(
        self, catalog: SubjectCatalog, visible: VisibleTools, wishes: OfferWishes, model: RouteModel
    ) -> str:
        """Reason to offer search even if the list fits; empty if there is no reason."""
        if wishes.mcp:  # a tool found by search would run without the approval that its `mcp` filter requires
            return ""
        if wishes.tools != "cheapest":
            return ASKED if wishes.tools == SEARCH else ""
        cheaper_by_key = self._search_is_cheaper.setdefault(visible, {})
        key = (wishes.servers, wishes.tags, model)
        if key not in cheaper_by_key:
            filters = frozenset(wishes.tags), frozenset(wishes.servers)
            entries = without_offline(requested_tools(visible, *filters))
            tier = visible.view.tier
            tiers = tools_of_other_tiers(self._services.catalogs, catalog, tier, filters)
            ways = await exposure_options(self._services.work, tier, entries, tiers, CallerTools())
            fit = Fit(model, ConversationTokens(0, 0), NO_LIMITS)
            compared_ways = [way for way in ways if way.way in (LIST, SEARCH)]
            best = compare_exposures(_TASK, fit, compared_ways, self._services.models.prices).cheapest
            _keep(cheaper_by_key, key, best is not None and best.way == SEARCH)
        return CHEAPER if cheaper_by_key[key] else ""

    async def _offer_list(
        self, format_: Format, visible: VisibleTools, wishes: OfferWishes, bounds: OfferBounds
    ) -> ToolOffer | None:
        """Offer a list of as many tools as fit. Returns None if the conversation must be counted first."""
        tool_set = await self._tool_set(format_, visible, wishes, bounds.models[0], LIST)
        shadowed = tuple(
            name for name, (model_name, _) in tool_set.definitions.items() if model_name in bounds.client_tool_names
        )
        counted_candidates = (
            [each for each in tool_set.candidates if each.name not in shadowed] if shadowed else tool_set.candidates
        )
        outcome = self._plan(counted_candidates, bounds)
        if not bounds.exact and not (isinstance(outcome, Plan) and not outcome.cut and not outcome.skipped):
            return None
        if not isinstance(outcome, Plan):
            return ToolOffer(0, tier=visible.view.tier or "", shadowed=shadowed, refused=outcome.reason)
        return tool_set.offer(outcome, bounds.models, "", shadowed)

    async def _offer_search(
        self, format_: Format, visible: VisibleTools, wishes: OfferWishes, bounds: OfferBounds, search_reason: str
    ) -> ToolOffer | None:
        """Offer the tools of the router endpoint, and pinned tools. Returns None if these tools do not fit, or if the
        client has tools with the names of router tools.
        """
        tool_set = await self._tool_set(format_, visible, wishes, bounds.models[0], SEARCH)
        if not bounds.client_tool_names.isdisjoint(tool_set.router_tools):
            return None
        shadowed = tuple(
            name for name, (model_name, _) in tool_set.definitions.items() if model_name in bounds.client_tool_names
        )
        outcome = self._plan([each for each in tool_set.candidates if each.name not in shadowed], bounds)
        if not isinstance(outcome, Plan) or outcome.cut or (outcome.skipped and not bounds.exact):
            return None
        return tool_set.offer(outcome, bounds.models, search_reason, shadowed)

    def _plan(self, counted_candidates: Sequence[Candidate], bounds: OfferBounds) -> Plan | PlanRefused:
        models = [_with_fewer_tools(model, len(bounds.client_tool_names)) for model in bounds.models]
        return plan(
            models, counted_candidates, bounds.conversation, bounds.limits, self._services.work.sizes.counter.name
        )

    async def _tool_set(
        self, format_: Format, visible: VisibleTools, wishes: OfferWishes, model: RouteModel, way: str
    ) -> _ToolSet:
        key = (format_.name, wishes.servers, wishes.tags, wishes.mcp, model.name, way)
        tool_sets = self._tool_sets.setdefault(visible, {})
        tool_set = tool_sets.get(key)
        if tool_set is None:
            tool_set = await self._make_tool_set(format_, visible, wishes, model, way)
            _keep(tool_sets, key, tool_set)
        return tool_set

    async def _make_tool_set(
        self, format_: Format, visible: VisibleTools, wishes: OfferWishes, model: RouteModel, way: str
    ) -> _ToolSet:
        entries = without_offline(requested_tools(visible, frozenset(wishes.tags), frozenset(wishes.servers)))
        server_choices = {each.name: choice_for(wishes.mcp, each) for each in entries}
        entries = [each for each in entries if not wishes.mcp or server_choices[each.name] is not None]
        names_to_approve = {
            each.name
            for each in entries
            if (choice := server_choices[each.name]) is not None and choice.needs_approval(each)
        }
        reachable = frozenset(entry.name for entry in entries)
        router = () if way == LIST else _router_tools(visible)
        router_names = frozenset(entry.name for entry in router)
        shown_entries = entries if way == LIST else [*router, *_pinned_tools(entries)]
        counted_candidates = [
            # Router tools are unpinned, so that a limit can cut them; if it does, search is not offered at all
            msgspec.structs.replace(candidate, pinned=False) if candidate.name in router_names else candidate
            for candidate in await candidates(self._services.work, shown_entries)
        ]
        offer = await convert_tools(self._services.work, visible, shown_entries, format_, Options(model=model.name))
        safe_names = {offer.names[name]: name for name in offer.names}
        # Some formats put several tools into one object of the request: split it into one definition per tool
        originals = (each for tool in offer.tools for each in format_.read([tool]).originals)
        raws = {each.name: encode(each.definition) for each in originals}
        definitions = {name: (safe, raws[safe]) for name, safe in safe_names.items() if safe in raws}
        return _ToolSet(
            way,
            [candidate for candidate in counted_candidates if candidate.name in definitions],
            definitions,
            {definitions[name][0]: name for name in router_names if name in definitions},
            reachable,
            frozenset(definitions[name][0] for name in names_to_approve if name in definitions),
            visible.view,
            _find_manual_reasons(visible.view, reachable) if router_names else {},
        )


def _find_manual_reasons(view: View, names: Iterable[str]) -> dict[str, str]:
    reasons = {name: view.why_manual(name) for name in names if name in view.everything}
    return {name: why for name, why in reasons.items() if why}


def _router_tools(visible: VisibleTools) -> list[VisibleTool]:
    """Tools of the router endpoint, sorted by name."""
    tools = [*ROUTER_TOOLS, READER] if visible.view.lists_reader else [*ROUTER_TOOLS]
    return sorted(tools, key=lambda entry: entry.name)


def _pinned_tools(entries: Iterable[VisibleTool]) -> list[VisibleTool]:
    return [entry for entry in entries if entry.pinned and entry.name not in OWN_TOOLS]


def _keep(memory: dict[tuple[object, ...], Cached], key: tuple[object, ...], value: Cached) -> None:
    if len(memory) >= MAX_TOOL_SETS:
        memory.clear()
    memory[key] = value


def _with_fewer_tools(model: RouteModel, client_tools: int) -> RouteModel:
    """Reduce the maximum number of tools of a model by the number of the client's tools."""
    if model.max_tools is None:
        return model
    return msgspec.structs.replace(model, max_tools=max(model.max_tools - client_tools, 0))


class _CachedOffer(msgspec.Struct, frozen=True):
    views: object
    """Views from which the offer was made. Their `id` is part of the cache's key, and no other object can get this `id`
    while the reference exists.
    """
    max_tokens: int
    """Tokens of the longest conversation for which the offer was made."""
    offer: ToolOffer


class OfferMemory:
    """Cache of the offers of one snapshot."""

    def __init__(self) -> None:
        self._snapshot: object = None
        self._offers: OrderedDict[tuple[Hashable, ...], _CachedOffer] = OrderedDict()
        self._offer_events: dict[tuple[Hashable, ...], asyncio.Event] = {}

    async def get(
        self,
        format_name: str,
        catalog: SubjectCatalog,
        wishes: OfferWishes,
        bounds: OfferBounds,
        make: Callable[[OfferBounds], Awaitable[ToolOffer | None]],
    ) -> ToolOffer | None:
        """Return the cached offer, or call `make` and cache its offer. Equal requests that arrive while `make` runs
        wait for its offer instead of calling `make` themselves.
        """
        if sum(map(len, bounds.client_tool_names)) > MAX_NAME_CHARACTERS:
            return await make(bounds)
        key = _key(format_name, catalog, wishes, bounds)
        offer = self._find(key, catalog, bounds)
        if offer is None and key in self._offer_events:
            await self._offer_events[key].wait()
            offer = self._find(key, catalog, bounds)
        if offer is not None:
            return offer
        done_event = self._offer_events[key] = asyncio.Event()
        try:
            offer = await make(bounds)
        finally:
            done_event.set()
            if self._offer_events.get(key) is done_event:
                del self._offer_events[key]
        if offer is not None:
            self._keep(key, catalog, bounds, offer)
        return offer

    def _find(self, key: tuple[Hashable, ...], catalog: SubjectCatalog, bounds: OfferBounds) -> ToolOffer | None:
        """Cached offer that has the same key, and was made for a conversation of at least as many tokens, so that it
        also fits the conversation in `bounds`. None if there is no such offer.
        """
        if self._snapshot is not catalog.snapshot:
            self._snapshot = catalog.snapshot
            self._offers = OrderedDict()
            return None
        cached_offer = self._offers.get(key)
        if (
            cached_offer is None
            or cached_offer.views is not catalog.views
            or _tokens(bounds.conversation) > cached_offer.max_tokens
        ):
            return None
        self._offers.move_to_end(key)
        return cached_offer.offer

    def _keep(self, key: tuple[Hashable, ...], catalog: SubjectCatalog, bounds: OfferBounds, offer: ToolOffer) -> None:
        if self._snapshot is not catalog.snapshot:
            return
        previous = self._offers.get(key)
        tokens = _tokens(bounds.conversation)
        if previous is None or previous.views is not catalog.views or previous.max_tokens < tokens:
            self._offers[key] = _CachedOffer(catalog.views, tokens, offer)
        if len(self._offers) > MAX_OFFERS:
            self._offers.popitem(last=False)


def _key(format_name: str, catalog: SubjectCatalog, wishes: OfferWishes, bounds: OfferBounds) -> tuple[Hashable, ...]:
    return id(catalog.views), format_name, wishes, tuple(bounds.models), bounds.limits, bounds.client_tool_names


def _tokens(conversation: ConversationTokens) -> int:
    return conversation.system + conversation.messages
