"""Tools that a request's model is given beside the caller's own: those that its principal may call, that its tier
shows and that its window holds, or the tools of the router endpoint, by which it finds them.

`Offers` works in the thread for heavy work, whose catalog, sizes and conversions it shares. The decisions are those of
`tokens.plan` and `tokens.exposure`. `OfferMemory` keeps what was made, in the loop: handing over to the thread takes
longer than all else of a request.
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
from fairlead_offers.offer.server_wishes import ServerWish, Word, Words, wish_for
from fairlead_offers.plan.caller_tools import CallerTools
from fairlead_offers.plan.exposed_tools import (
    ROUTER_TOOLS,
    PlannedTask,
    compare_exposures,
    exposure_options,
    online,
    requested_tools,
    tools_of_other_tiers,
)
from fairlead_offers.plan.offered_tools import candidates, convert_tools
from fairlead_offers.services import ToolServices

MAX_KEPT: Final = 64
"""Sets of tools that are kept of one view."""
ASKED: Final = "asked"
CHEAPER: Final = "cheaper"
AUTO: Final = "auto"
NO_LIMITS: Final = PlanLimits(reserved_output=0)
_TASK: Final = PlannedTask(calls=1, caching=True, conversation_tokens=0)
"""Leaves out the conversation, so that all its requests get the same choice."""
Kept = TypeVar("Kept")
Positive = Annotated[int, Meta(ge=1)]
MAX_OFFERS: Final = 256
"""Offers that are kept; the one that nobody asked for longest goes first."""
MAX_NAME_CHARACTERS: Final = 16 << 10
"""Characters in names of a caller's own tools up to which the offer is kept, of which they are the key."""


class OfferWishes(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Wishes of a request for the tools that are injected: the member `fairlead` of its body."""

    tier: Word | None = None
    """Name of a tier, or `auto`: the tier that the rules choose by the texts of the conversation."""
    servers: Words = ()
    tags: Words = ()
    max_tools: Positive | None = None
    tool_tokens: Positive | None = None
    tools: Literal["auto", "inject", "search", "cheapest", "none"] = "auto"
    """`inject`: listed, as many as fit. `search`: the tools of the router endpoint. `auto`: listed where all fit, else
    searched. `cheapest`: whatever costs fewer tokens for a task of one call.
    """
    mcp: Annotated[tuple[ServerWish, ...], Meta(max_length=64)] = ()
    """Filters by server, from the `mcp` tools of a Responses request: with any, only tools that one of them matches are
    offered, and always in a list.
    """
    max_calls: Annotated[int, Meta(ge=0)] | None = None
    """Most calls that the gateway runs for the request."""
    show_calls: bool = False


class ToolOffer(msgspec.Struct, frozen=True):
    """Tools for one request."""

    model_index: int
    """Index of the model that they are for, in `OfferBounds.models`."""
    way: str = LIST
    """`list`, or `search`: by the tools of the router endpoint."""
    because: str = ""
    """Reason of `search`: `asked`, `cheaper`, or the limit that the list is over."""
    tier: str = ""
    """Latency tier of the tools; empty without one."""
    definitions: tuple[bytes, ...] = ()
    """Definitions in the format of the request."""
    names: tuple[str, ...] = ()
    """Names of the tools as the model sees them, in the order of `definitions`."""
    own: Mapping[str, str] = {}
    """Tools of the gateway itself: the name that the model sees, to the tool's own."""
    reachable: frozenset[str] = frozenset()
    """Exposed names of all tools that match the request; `execute_tool` may call these."""
    cut: tuple[Cut, ...] = ()
    """Tools left out because of a limit, with the limit."""
    shadowed: tuple[str, ...] = ()
    """Tools left out because the caller has a tool of that name."""
    approved_first: frozenset[str] = frozenset()
    """Names of tools whose calls run only after the client approves them."""
    manual: Mapping[str, str] = {}
    """Names, also of tools that search finds, whose calls policies do not let run by themselves, each with the reason
    in a sentence.
    """
    quotas: tuple[Quota, ...] = ()
    """Bounds on tokens a day that policies set in the namespaces of these tools, and of those that search finds."""
    tokens: Mapping[str, int] = {}
    """Tokens of the definitions, by exposed name of the tool."""
    refused: str = ""
    """Why no tool is offered: by the gateway's count the conversation alone does not fit. It is sent nevertheless."""

    @property
    def client_run(self) -> frozenset[str]:
        """Names of tools whose calls the caller gets: to approve them, or because policies do not let them run by
        themselves.
        """
        return frozenset((*self.manual, *self.approved_first))

    @property
    def whole(self) -> bool:
        """Whether no limit kept a tool from the list."""
        return not self.refused and not self.cut and self.because in ("", ASKED, CHEAPER)

    @property
    def callable_total(self) -> int:
        """Number of tools that the model can call; -1 where the conversation does not fit."""
        return -1 if self.refused else len(self.reachable if self.way == SEARCH else self.definitions)


class OfferBounds(msgspec.Struct, frozen=True):
    """Bounds that an offer has to fit."""

    models: Sequence[RouteModel]
    limits: PlanLimits
    client_tool_names: frozenset[str]
    """Names of the caller's tools."""
    conversation: ConversationTokens
    exact: bool
    """Whether the conversation was counted; else its tokens are an upper bound."""


class _ToolSet(msgspec.Struct, frozen=True):
    """Tools of one view and filter, counted and converted for one way to offer them."""

    way: str
    """`list` or `search`, as in `ToolOffer`."""
    counted: list[Candidate]
    definitions: dict[str, tuple[str, bytes]]
    """Name that the model sees and definition of each tool, by exposed name."""
    own: dict[str, str]
    reachable: frozenset[str]
    approved_first: frozenset[str]
    view: View
    found_manual: dict[str, str]
    """Reasons why policies do not let tools that search finds run by themselves, by exposed name."""

    def manual(self, chosen: Iterable[str]) -> dict[str, str]:
        """Reasons why policies do not let tools run by themselves, by the name that the model sees."""
        reasons = _manual(self.view, chosen)
        return {**self.found_manual, **{self.definitions[name][0]: why for name, why in reasons.items()}}

    def offer(self, outcome: Plan, models: Sequence[RouteModel], because: str, shadowed: tuple[str, ...]) -> ToolOffer:
        """The offer of the tools that a plan for one of the models includes."""
        chosen = {name: self.definitions[name] for name in outcome.tools if name in self.definitions}
        sizes = {each.name: each.tokens for each in self.counted}
        return ToolOffer(
            next(index for index, model in enumerate(models) if model.name == outcome.model),
            self.way,
            because,
            self.view.tier or "",
            tuple(raw for _, raw in chosen.values()),
            tuple(name for name, _ in chosen.values()),
            self.own,
            self.reachable,
            outcome.cut,
            shadowed,
            self.approved_first,
            self.manual(chosen),
            self.quotas(self.reachable if self.way == SEARCH else chosen),
            {name: sizes[name] for name in chosen},
        )

    def quotas(self, names: Iterable[str]) -> tuple[Quota, ...]:
        """Bounds of the namespaces of these tools on the tokens of a day."""
        routes = (self.view.everything[name] for name in sorted(names) if name in self.view.everything)
        bounded = (route.quota for route in routes if route.quota is not None)
        return tuple({each.namespace: each for each in bounded if each.tokens_per_day is not None}.values())


class Offers:
    """Makes offers. One per gateway."""

    def __init__(self, services: ToolServices) -> None:
        self._services = services
        self._tool_sets: WeakKeyDictionary[VisibleTools, dict[tuple[object, ...], _ToolSet]] = WeakKeyDictionary()
        self._cheaper: WeakKeyDictionary[VisibleTools, dict[tuple[object, ...], bool]] = WeakKeyDictionary()

    async def make(
        self, format_name: str, seen: SubjectCatalog, wishes: OfferWishes, bounds: OfferBounds
    ) -> ToolOffer | None:
        """An offer in a format for one of the models, beside the caller's own tools. If the conversation was not
        counted and not all fits by its upper bound: None. In steps only. Raises Problem.
        """
        visible = self._services.catalogs.visible(seen, wishes.tier)
        format_ = registry.find(format_name)
        because = await self._search_reason(seen, visible, wishes, bounds.models[0])
        if because:
            offer = await self._offer_search(format_, visible, wishes, bounds, because)
            if offer is not None or not bounds.exact:
                return offer
        listed = await self._offer_list(format_, visible, wishes, bounds)
        if listed is None or listed.whole or wishes.tools != AUTO or wishes.mcp:
            return listed
        because = listed.cut[0].reason if listed.cut else CONTEXT_WINDOW
        return await self._offer_search(format_, visible, wishes, bounds, because) or listed

    async def _search_reason(
        self, seen: SubjectCatalog, visible: VisibleTools, wishes: OfferWishes, model: RouteModel
    ) -> str:
        """Reason to offer search in place of the list even if that fits; empty without one."""
        if wishes.mcp:  # search would go around their approvals
            return ""
        if wishes.tools != "cheapest":
            return ASKED if wishes.tools == SEARCH else ""
        cheaper = self._cheaper.setdefault(visible, {})
        key = (wishes.servers, wishes.tags, model)
        if key not in cheaper:
            filters = frozenset(wishes.tags), frozenset(wishes.servers)
            entries = online(requested_tools(visible, *filters))
            tier = visible.view.tier
            tiers = tools_of_other_tiers(self._services.catalogs, seen, tier, filters)
            ways = await exposure_options(self._services.work, tier, entries, tiers, CallerTools())
            fit = Fit(model, ConversationTokens(0, 0), NO_LIMITS)
            both = [way for way in ways if way.way in (LIST, SEARCH)]
            best = compare_exposures(_TASK, fit, both, self._services.models.prices).cheapest
            _keep(cheaper, key, best is not None and best.way == SEARCH)
        return CHEAPER if cheaper[key] else ""

    async def _offer_list(
        self, format_: Format, visible: VisibleTools, wishes: OfferWishes, bounds: OfferBounds
    ) -> ToolOffer | None:
        """The tools in a list, as many as fit; None if the upper bound of the conversation does not tell."""
        tool_set = await self._tool_set(format_, visible, wishes, bounds.models[0], LIST)
        shadowed = tuple(name for name, (shown, _) in tool_set.definitions.items() if shown in bounds.client_tool_names)
        counted = [each for each in tool_set.counted if each.name not in shadowed] if shadowed else tool_set.counted
        outcome = self._plan(counted, bounds)
        if not bounds.exact and not (isinstance(outcome, Plan) and not outcome.cut and not outcome.skipped):
            return None
        if not isinstance(outcome, Plan):
            return ToolOffer(0, tier=visible.view.tier or "", shadowed=shadowed, refused=outcome.reason)
        return tool_set.offer(outcome, bounds.models, "", shadowed)

    async def _offer_search(
        self, format_: Format, visible: VisibleTools, wishes: OfferWishes, bounds: OfferBounds, because: str
    ) -> ToolOffer | None:
        """The tools of the router endpoint, and pinned tools; None if they do not fit, or the caller has tools of their
        names.
        """
        tool_set = await self._tool_set(format_, visible, wishes, bounds.models[0], SEARCH)
        if not bounds.client_tool_names.isdisjoint(tool_set.own):
            return None
        shadowed = tuple(name for name, (shown, _) in tool_set.definitions.items() if shown in bounds.client_tool_names)
        outcome = self._plan([each for each in tool_set.counted if each.name not in shadowed], bounds)
        if not isinstance(outcome, Plan) or outcome.cut or (outcome.skipped and not bounds.exact):
            return None
        return tool_set.offer(outcome, bounds.models, because, shadowed)

    def _plan(self, counted: Sequence[Candidate], bounds: OfferBounds) -> Plan | PlanRefused:
        models = [_with_fewer_tools(model, len(bounds.client_tool_names)) for model in bounds.models]
        return plan(models, counted, bounds.conversation, bounds.limits, self._services.work.sizes.counter.name)

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
        entries = online(requested_tools(visible, frozenset(wishes.tags), frozenset(wishes.servers)))
        wanted = {each.name: wish_for(wishes.mcp, each) for each in entries}
        entries = [each for each in entries if not wishes.mcp or wanted[each.name] is not None]
        approved = {each.name for each in entries if (wish := wanted[each.name]) is not None and wish.approves(each)}
        reachable = frozenset(entry.name for entry in entries)
        router = () if way == LIST else _own_tools(visible)
        own = frozenset(entry.name for entry in router)
        shown = entries if way == LIST else [*router, *_pinned_tools(entries)]
        counted = [
            msgspec.structs.replace(candidate, pinned=False)
            if candidate.name in own
            else candidate  # a limit cuts them: then no search
            for candidate in await candidates(self._services.work, shown)
        ]
        offer = await convert_tools(self._services.work, visible, shown, format_, Options(model=model.name))
        safe_names = {offer.names[name]: name for name in offer.names}
        single = (each for tool in offer.tools for each in format_.read([tool]).originals)  # some stand in groups
        raws = {each.name: encode(each.definition) for each in single}
        definitions = {name: (safe, raws[safe]) for name, safe in safe_names.items() if safe in raws}
        return _ToolSet(
            way,
            [candidate for candidate in counted if candidate.name in definitions],
            definitions,
            {definitions[name][0]: name for name in own if name in definitions},
            reachable,
            frozenset(definitions[name][0] for name in approved if name in definitions),
            visible.view,
            _manual(visible.view, reachable) if own else {},
        )


def _manual(view: View, names: Iterable[str]) -> dict[str, str]:
    reasons = {name: view.manual(name) for name in names if name in view.everything}
    return {name: why for name, why in reasons.items() if why}


def _own_tools(visible: VisibleTools) -> list[VisibleTool]:
    """The tools of the router endpoint, in the order of their names."""
    tools = [*ROUTER_TOOLS, READER] if visible.view.reads else [*ROUTER_TOOLS]
    return sorted(tools, key=lambda entry: entry.name)


def _pinned_tools(entries: Iterable[VisibleTool]) -> list[VisibleTool]:
    return [entry for entry in entries if entry.pinned and entry.name not in OWN_TOOLS]


def _keep(memory: dict[tuple[object, ...], Kept], key: tuple[object, ...], value: Kept) -> None:
    if len(memory) >= MAX_KEPT:
        memory.clear()
    memory[key] = value


def _with_fewer_tools(model: RouteModel, own: int) -> RouteModel:
    """The model with its most tools lowered by the caller's `own`."""
    return model if model.max_tools is None else msgspec.structs.replace(model, max_tools=max(model.max_tools - own, 0))


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

    async def get(
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
