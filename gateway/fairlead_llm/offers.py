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
from fairlead_rest.visible_tools import VisibleTools

MAX_KEPT: Final = 64
"""Offers that are kept of one view."""
Positive = Annotated[int, Meta(ge=1)]
Word = Annotated[str, Meta(max_length=256)]
Words = Annotated[tuple[Word, ...], Meta(max_length=64)]


class OfferWishes(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Wishes of a request for the tools that are injected: the member `fairlead` of its body."""

    tier: Word | None = None
    servers: Words = ()
    tags: Words = ()
    max_tools: Positive | None = None
    tool_tokens: Positive | None = None
    tools: Literal["inject", "none"] = "inject"
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
            shadowed, {chosen[name][0]: why for name, why in whole.manual.items() if name in chosen},
            tuple(quotas.values()), {name: whole.tokens[name] for name in chosen},
        )  # fmt: skip

    def _whole(self, format_: Format, shelf: VisibleTools, wishes: OfferWishes, models: Sequence[RouteModel]) -> _Whole:
        key = (format_.name, wishes.servers, wishes.tags, models[0].name)
        kept = self._kept.setdefault(shelf, {})
        found = kept.get(key)
        if found is None:
            entries = online(offered(shelf, frozenset(wishes.tags), frozenset(wishes.servers)))
            counted = candidates(self._context, entries)
            offer = converted(self._context, shelf, entries, format_, Options(model=models[0].name))
            shown = {offer.names[name]: name for name in offer.names}
            raws = {format_.read([tool]).tools[0]["name"]: encode(tool) for tool in offer.tools}
            definitions = {name: (safe, raws[safe]) for name, safe in shown.items() if safe in raws}
            found = _whole_of([one for one in counted if one.name in definitions], definitions, shelf.view)
            if len(kept) >= MAX_KEPT:
                kept.clear()
            kept[key] = found
        return found


def _whole_of(counted: list[Candidate], definitions: dict[str, tuple[str, bytes]], view: View) -> _Whole:
    routes = {name: view.everything[name] for name in definitions if name in view.everything}
    return _Whole(
        counted,
        definitions,
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
