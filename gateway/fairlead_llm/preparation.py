"""Prepares a client's request for the models that may answer it: in the wire format of the provider that is asked, with
the turns that were kept of it, and with the tools that are offered.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

import msgspec

from fairlead_formats import registry
from fairlead_formats.tokens.conversation import ConversationTokens
from fairlead_formats.tokens.routes import ModelRoute, PlanLimits, RouteModel
from fairlead_formats.wire.losses import TranslationLosses
from fairlead_formats.wire.protocol import BadRequest, WireFormat, WireRequest
from fairlead_gateway.core.identity import Identity
from fairlead_llm.turns import TurnKeeping, TurnStore
from fairlead_llm.wire_formats import spoken
from fairlead_mcp.read_bounds import is_long
from fairlead_models.providers import ModelTarget, Providers
from fairlead_offers.catalogs.subject_catalog import SubjectCatalog
from fairlead_offers.offer.offer_memory import OfferMemory
from fairlead_offers.offer.offers import OfferBounds, Offers, OfferWishes, ToolOffer
from fairlead_offers.services import ToolServices


class ModelRequest(msgspec.Struct, frozen=True):
    """One request as the client sent it."""

    format: WireFormat
    read: WireRequest
    body: bytes
    model: str | None
    """Model of the path, in formats that have it there."""
    stream: bool | None
    headers: Mapping[str, str]
    """In small letters."""
    identity: Identity
    wishes: OfferWishes
    """With the tier that was chosen, where one was."""
    route: ModelRoute
    tier_rule: str = ""
    """Rule that chose the tier."""
    caller_key: str = ""
    """The caller's own key for the provider; empty where it is the gateway's."""


class PreparedRequest(msgspec.Struct, frozen=True):
    """A request as it goes to the first of its models."""

    wire: WireFormat
    request: WireRequest
    targets: Sequence[ModelTarget]
    """Models that may answer, in the order in which they are asked."""
    offer: ToolOffer | None
    """None where no tools are to be injected."""
    headers: Mapping[str, str]
    """The client's, as far as the provider gets them."""
    shows_calls: bool = False
    """Whether the client wants to see calls that are run here, as it sees those of the provider's own hosted tools."""
    tier_rule: str = ""
    """Rule that chose the tier; empty where it was named."""
    keeping: TurnKeeping = TurnKeeping.SURE
    """Whether a turn can be kept until the caller comes back into it with results of its own calls."""
    long: bool = False
    """Whether it is written beside the event loop."""
    losses: TranslationLosses = msgspec.field(default_factory=TranslationLosses)
    """Codes of all that the answer, or the provider, lacks; they grow until the end."""

    @property
    def keeps_turns(self) -> bool:
        """Whether turns are kept at all, though they may not be found again."""
        return self.keeping is not TurnKeeping.NONE


class RequestPreparation:
    """Prepares requests. One per gateway."""

    def __init__(self, tools: ToolServices, providers: Providers, turns: TurnStore) -> None:
        self._tools = tools
        self._providers = providers
        self._offers = Offers(tools)
        self._memory = OfferMemory()
        self._turns = turns

    async def prepared(
        self, asked: ModelRequest, get_catalog: Callable[[], SubjectCatalog], targets: Sequence[ModelTarget]
    ) -> PreparedRequest:
        """Prepare for the first model whose window holds the conversation and all tools; where none does, for the model
        that can call the most tools. Models whose API lacks something that the request holds are passed over. Raises
        BadRequest where all are, Problem.
        """
        best: tuple[int, PreparedRequest] | None = None
        while True:
            wire = spoken(asked.format, self._providers.by_name[targets[0].provider])
            alike = self._alike(asked.format, wire, targets)
            try:
                found = await self._made(asked, wire, get_catalog, targets, alike)
            except BadRequest:
                if best is None and alike == len(targets):
                    raise
            else:
                offer = found.offer
                if offer is None or offer.whole:
                    return found
                if best is None or offer.callable_total > best[0]:
                    best = offer.callable_total, found
            if alike == len(targets) and best is not None:
                return best[1]
            targets = targets[alike:]

    async def for_counting(
        self, asked: ModelRequest, get_catalog: Callable[[], SubjectCatalog], targets: Sequence[ModelTarget]
    ) -> PreparedRequest:
        """Prepare for counting the tokens here: for the first model, in the client's format even if the provider's is
        another. Raises Problem.
        """
        return await self._made(asked, asked.format, get_catalog, targets[:1], 1, asks=False)

    async def _made(
        self,
        asked: ModelRequest,
        wire: WireFormat,
        get_catalog: Callable[[], SubjectCatalog],
        targets: Sequence[ModelTarget],
        alike: int,
        *,
        asks: bool = True,
    ) -> PreparedRequest:
        """In a format that the first `alike` of the targets are asked in. `asks`: the model is asked, and not the
        request counted.
        """
        request, long = asked.read, is_long(asked.body)
        if wire is not asked.format:
            reads = functools.partial(wire.read, asked.body, asked.model, asked.stream)
            request = await self._tools.work.reading(reads, long=long)
        losses = request.losses or TranslationLosses()
        request.messages = await self._turns.restored(asked.identity, wire, request.client_messages, losses, asks=asks)
        headers = {name: value for name, value in asked.headers.items() if name in wire.request_headers}
        offer = None
        if asked.wishes.tools != "none" and not request.no_injection:
            offer = await self.offered(asked, wire, request, get_catalog, targets[:alike])
        place = 0 if offer is None else offer.model_index
        keeping = TurnKeeping.SURE
        if asks and offer is not None and offer.definitions and (request.tool_names or offer.client_run):
            keeping = await self._turns.keeping(asked.identity, asked.format, asked.read.client_messages)
        return PreparedRequest(
            wire,
            request,
            targets[place:],
            offer,
            headers,
            asked.wishes.show_calls,
            asked.tier_rule,
            keeping,
            long,
            losses,
        )

    def _alike(self, front: WireFormat, wire: WireFormat, targets: Sequence[ModelTarget]) -> int:
        """How many of the targets, from the first on, are asked in the same format."""
        for place, target in enumerate(targets):
            if spoken(front, self._providers.by_name[target.provider]) is not wire:
                return place
        return len(targets)

    async def count_conversation(self, request: WireRequest) -> ConversationTokens:
        """The tokens of a request's messages and system prompt as they go out."""
        messages = b",".join(map(bytes, request.messages))
        found = await self._tools.work.measured([b'{"messages":[', messages, b'],"system":', request.system, b"}"])
        return found.tokens

    async def offered(
        self,
        asked: ModelRequest,
        wire: WireFormat,
        request: WireRequest,
        get_catalog: Callable[[], SubjectCatalog],
        targets: Sequence[ModelTarget],
    ) -> ToolOffer:
        """The offer for a request. No text has more tokens than bytes: only where the bytes of a conversation do not
        fit are its tokens counted, which takes milliseconds.
        """
        known, windows, catalog = registry.find(wire.name), self._tools.models.windows, get_catalog()
        models = [RouteModel(each.model, windows.window(each.model), wire.name, known.max_tools) for each in targets]
        limits = PlanLimits(asked.wishes.max_tools, asked.wishes.tool_tokens, 0).within(asked.route.limits)
        most = ConversationTokens(0, len(asked.body) + request.restored_bytes)
        fits = OfferBounds(models, limits, request.tool_names, most, exact=False)

        async def make(fits: OfferBounds) -> ToolOffer | None:
            return await self._tools.work.stepwise(lambda: self._offers.made(wire.name, catalog, asked.wishes, fits))

        offer = await self._memory.made(wire.name, catalog, asked.wishes, fits, make)
        if offer is None:
            found = await self.count_conversation(request)
            counted = ConversationTokens(found.system, found.messages + len(request.tools) // 3)
            exactly = msgspec.structs.replace(fits, conversation=counted, exact=True)
            offer = await make(exactly)
        assert offer is not None
        return offer
