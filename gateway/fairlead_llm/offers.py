"""Tools that a request's model is given beside the caller's own: those that its principal may call, that its tier
shows and that its window holds.

Everything here runs in the worker of REST, whose catalog, sizes and conversions it shares. The decision is
`tokens.plan`'s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal
from weakref import WeakKeyDictionary

import msgspec
from msgspec import Meta

from fairlead_formats import registry
from fairlead_formats.tokens.conversation import ConversationTokens
from fairlead_formats.tokens.fit import Candidate, PlanLimits, RouteModel
from fairlead_formats.tokens.outcome import Cut, Plan
from fairlead_formats.tokens.plan import plan
from fairlead_formats.tools.format import Format, Options
from fairlead_gateway.core.quota import Quota
from fairlead_gateway.policy.view import View
from fairlead_rest.bodies import encode
from fairlead_rest.context import RestContext
from fairlead_rest.exposed_tools import offered, online
from fairlead_rest.offered_tools import candidates, converted
from fairlead_rest.subject_catalog import SubjectCatalog
from fairlead_rest.visible_tools import VisibleTool, VisibleTools

MAX_KEPT: Final = 64
"""Offers that are kept of one view."""
Positive = Annotated[int, Meta(ge=1)]
Word = Annotated[str, Meta(max_length=256)]
Words = Annotated[tuple[Word, ...], Meta(max_length=64)]


class NamedTools(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Some tools of a server: by name, or those that only read."""

    names: Words = ()
    read_only: bool = False

    def has(self, entry: VisibleTool) -> bool:
        """Whether a tool is one of them."""
        return _named(entry, self.names) or (self.read_only and _only_reads(entry))


class ServerWish(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Tools of one server that a request names, and which of their calls are approved before they run."""

    server: Word = ""
    """Empty: of any server."""
    names: Words | None = None
    read_only: bool = False
    asks: bool = False
    """Whether a call is approved first, where `always` and `never` do not say."""
    always: NamedTools | None = None
    never: NamedTools | None = None

    def has(self, entry: VisibleTool) -> bool:
        """Whether a tool is wanted."""
        if self.server and self.server not in (entry.server.name, entry.prefix):
            return False
        return (self.names is None or _named(entry, self.names)) and (not self.read_only or _only_reads(entry))

    def approves(self, entry: VisibleTool) -> bool:
        """Whether calls of one of its tools are approved first."""
        if self.never is not None and self.never.has(entry):
            return False
        return self.asks or (self.always is not None and self.always.has(entry))


class OfferWishes(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Wishes of a request for the tools that are injected: the member `fairlead` of its body."""

    tier: Word | None = None
    servers: Words = ()
    tags: Words = ()
    max_tools: Positive | None = None
    tool_tokens: Positive | None = None
    tools: Literal["inject", "none"] = "inject"
    mcp: Annotated[tuple[ServerWish, ...], Meta(max_length=64)] = ()
    """Only tools of these servers, and of each only some, where there are any."""
    max_calls: Annotated[int, Meta(ge=0)] | None = None
    """Calls that may be run here."""
    show_calls: bool = False


class ToolOffer(msgspec.Struct, frozen=True):
    """Tools for one request."""

    model: int
    """Place of the model that they are for among those of the route."""
    definitions: tuple[bytes, ...] = ()
    """In the form of the request."""
    names: tuple[str, ...] = ()
    """As the model sees them, in the same order."""
    cut: tuple[Cut, ...] = ()
    """Left out because of a limit, and which."""
    shadowed: tuple[str, ...] = ()
    """Left out because the caller has a tool of that name."""
    approved_first: frozenset[str] = frozenset()
    """Names of those whose calls are run only after the client approves them."""
    manual: Mapping[str, str] = {}
    """Those of `names` that are not run here by themselves, each with the sentence that says why."""
    quotas: tuple[Quota, ...] = ()
    """Bounds that policies set in the namespaces of these tools on the tokens of a day."""
    tokens: Mapping[str, int] = {}
    """Tokens of the definitions, by the names that the tools have at the gateway."""
    refused: str = ""
    """Why no tool is offered: the conversation alone does not fit, by the count made here. It is sent all the same."""


class _Whole(msgspec.Struct, frozen=True):
    """All tools of one view and filter, counted and converted."""

    counted: list[Candidate]
    definitions: dict[str, tuple[str, bytes]]
    """By exposed name: the name that the model sees, and the definition."""
    approved_first: frozenset[str]
    tokens: dict[str, int]
    manual: dict[str, str]
    """By exposed name: why policies do not let it run by itself."""
    quotas: dict[str, Quota]
    """By exposed name, where policies bound the tokens of a day."""


class Offers:
    """Makes offers. One per gateway."""

    def __init__(self, context: RestContext) -> None:
        self._context = context
        self._kept: WeakKeyDictionary[VisibleTools, dict[tuple[object, ...], _Whole]] = WeakKeyDictionary()

    def made(
        self,
        format_name: str,
        seen: SubjectCatalog,
        wishes: OfferWishes,
        models: Sequence[RouteModel],
        limits: PlanLimits,
        theirs: Sequence[str],
        conversation: ConversationTokens,
        *,
        exact: bool,
    ) -> ToolOffer | None:
        """An offer in a format for one of the models, beside the caller's own tools (`theirs`). With `exact` the
        conversation was counted; without, its tokens are an upper bound, and the answer is None where not everything
        fits by that. Raises Problem, MissingInput.
        """
        if theirs:
            models = [_beside(model, len(theirs)) for model in models]
        shelf = self._context.shelf(seen, wishes.tier)
        whole = self._whole(registry.find(format_name), shelf, wishes, models)
        own = frozenset(theirs)
        shadowed = tuple(name for name, (shown, _) in whole.definitions.items() if shown in own)
        counted = [each for each in whole.counted if each.name not in shadowed] if shadowed else whole.counted
        outcome = plan(models, counted, conversation, limits, self._context.sizes().counter.name)
        if not exact and not (isinstance(outcome, Plan) and not outcome.cut and not outcome.skipped):
            return None
        if not isinstance(outcome, Plan):
            return ToolOffer(0, shadowed=shadowed, refused=outcome.reason)
        chosen = {name: whole.definitions[name] for name in outcome.tools if name in whole.definitions}
        place = next(n for n, model in enumerate(models) if model.name == outcome.model)
        quotas = {whole.quotas[name].namespace: whole.quotas[name] for name in whole.quotas.keys() & chosen}
        return ToolOffer(
            place, tuple(raw for _, raw in chosen.values()), tuple(shown for shown, _ in chosen.values()), outcome.cut,
            shadowed, whole.approved_first,
            {chosen[name][0]: why for name, why in whole.manual.items() if name in chosen},
            tuple(quotas.values()), {name: whole.tokens[name] for name in chosen},
        )  # fmt: skip

    def _whole(self, format_: Format, shelf: VisibleTools, wishes: OfferWishes, models: Sequence[RouteModel]) -> _Whole:
        key = (format_.name, wishes.servers, wishes.tags, wishes.mcp, models[0].name)
        kept = self._kept.setdefault(shelf, {})
        found = kept.get(key)
        if found is None:
            entries = online(offered(shelf, frozenset(wishes.tags), frozenset(wishes.servers)))
            wanted = {each.name: _wish(wishes.mcp, each) for each in entries}
            entries = [each for each in entries if not wishes.mcp or wanted[each.name] is not None]
            asked = {each.name for each in entries if (wish := wanted[each.name]) is not None and wish.approves(each)}
            counted = candidates(self._context, entries)
            offer = converted(self._context, shelf, entries, format_, Options(model=models[0].name))
            shown = {offer.names[name]: name for name in offer.names}
            single = (each for tool in offer.tools for each in format_.read([tool]).originals)  # some stand in groups
            raws = {each.name: encode(each.definition) for each in single}
            definitions = {name: (safe, raws[safe]) for name, safe in shown.items() if safe in raws}
            asks = frozenset(definitions[name][0] for name in asked if name in definitions)
            found = _whole_of([one for one in counted if one.name in definitions], definitions, asks, shelf.view)
            if len(kept) >= MAX_KEPT:
                kept.clear()
            kept[key] = found
        return found


def _wish(wishes: Sequence[ServerWish], entry: VisibleTool) -> ServerWish | None:
    return next((wish for wish in wishes if wish.has(entry)), None)


def _named(entry: VisibleTool, names: Sequence[str]) -> bool:
    return entry.name in names or entry.entry.name in names


def _only_reads(entry: VisibleTool) -> bool:
    return bool((entry.decoded.get("annotations") or {}).get("readOnlyHint"))


def _whole_of(
    counted: list[Candidate], definitions: dict[str, tuple[str, bytes]], asks: frozenset[str], view: View
) -> _Whole:
    routes = {name: view.everything[name] for name in definitions if name in view.everything}
    return _Whole(
        counted,
        definitions,
        asks,
        {each.name: each.tokens for each in counted},
        {name: why for name in routes if (why := view.manual(name))},
        {
            name: route.quota
            for name, route in routes.items()
            if route.quota is not None and route.quota.tokens_per_day is not None
        },
    )


def _beside(model: RouteModel, own: int) -> RouteModel:
    """The model, with room for that many tools less."""
    return model if model.max_tools is None else msgspec.structs.replace(model, max_tools=max(model.max_tools - own, 0))
