"""Prepares a client's request for the models that can answer it.

A prepared request is in the provider's wire format, contains the stored turns of its conversation, and has an offer of
tools to inject.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from fairlead_formats import registry
from fairlead_formats.pairs.families import FORMAT_OF_KIND
from fairlead_formats.pairs.pair import pair
from fairlead_formats.providers.openai_responses.format import RESPONSES
from fairlead_formats.tokens.conversation import ConversationTokens
from fairlead_formats.tokens.routes import ModelRoute, PlanLimits, RouteModel
from fairlead_formats.wire.protocol import BadRequest, TranslationLosses, WireFormat, WireRequest
from fairlead_gateway.core.identity import Identity
from fairlead_llm.stored_turns import TurnKeeping, TurnStore
from fairlead_mcp.read_bounds import is_long
from fairlead_models.providers import ModelTarget, Provider, Providers
from fairlead_offers.offer.offers import OfferBounds, OfferMemory, Offers, OfferWishes, ToolOffer
from fairlead_offers.services import ToolServices


class RawRequest(msgspec.Struct, frozen=True):
    """A client's request before it is parsed."""

    body: bytes
    model: str | None = None
    """Model in the path, in formats that have it there."""
    stream: bool | None = None
    """Whether the path requests a stream, in formats that have it there."""

    def parse(self, wire: WireFormat) -> WireRequest:
        """Parse the request in a wire format. Raises BadRequest."""
        return wire.read(self.body, self.model, self.stream)


class ModelRequest(msgspec.Struct, frozen=True):
    """One request as the client sent it."""

    format: WireFormat
    wire_request: WireRequest
    """The request, parsed."""
    raw: RawRequest
    headers: Mapping[str, str]
    """Headers of the request, by name in lower case."""
    identity: Identity
    wishes: OfferWishes
    """Options for tools. In place of the tier `auto`, they have the tier that the rules chose."""
    route: ModelRoute
    tier_rule: str = ""
    """Rule that chose the tier; empty if it was not chosen by a rule."""
    caller_key: str = ""
    """The client's own API key for the provider; empty if the gateway's key is used."""


class PreparedRequest(msgspec.Struct, frozen=True):
    """A request in the form for the first of its models."""

    wire: WireFormat
    request: WireRequest
    targets: Sequence[ModelTarget]
    """Models that can answer, in the order in which they are tried."""
    offer: ToolOffer | None
    """Tools to inject; None: no tools are injected."""
    headers: Mapping[str, str]
    """Headers of the client's request that the provider receives."""
    shows_calls: bool = False
    """Whether the client receives calls of the gateway, in the form of the provider's hosted tools."""
    tier_rule: str = ""
    """Rule that chose the tier; empty if the tier was named."""
    keeping: TurnKeeping = TurnKeeping.SURE
    """Whether a turn can be stored until the client sends the results of its own calls."""
    long: bool = False
    """Whether the request is parsed and written in the worker thread."""
    losses: TranslationLosses = msgspec.field(default_factory=TranslationLosses)
    """Loss codes: what the provider's format does not support, and what the answer lacks. Complete after the answer."""

    @property
    def keeps_turns(self) -> bool:
        """Whether turns are stored. With `TurnKeeping.LIKELY`, the client may still drop the call ids by which they are
        found.
        """
        return self.keeping is not TurnKeeping.NONE


class RequestPreparation:
    """Prepares requests. One per gateway."""

    def __init__(self, tools: ToolServices, providers: Providers, turns: TurnStore) -> None:
        self._tools = tools
        self.providers = providers
        self._offers = Offers(tools)
        self._memory = OfferMemory()
        self._turns = turns

    async def prepare(self, client_request: ModelRequest, targets: Sequence[ModelTarget]) -> PreparedRequest:
        """Prepare for the first model whose context window has room for the conversation and all tools. If there is no
        such model, prepare for the model that can call the most tools. Models whose API does not support the request
        are skipped. Raises BadRequest if all models are skipped, and Problem.
        """
        best: tuple[int, PreparedRequest] | None = None
        while True:
            wire = provider_format(client_request.format, self.providers.by_name[targets[0].provider])
            same_format = self._count_same_format(client_request.format, wire, targets)
            try:
                candidate = await self._prepare_in(client_request, wire, targets, same_format)
            except BadRequest:
                if best is None and same_format == len(targets):
                    raise
            else:
                offer = candidate.offer
                if offer is None or offer.whole:
                    return candidate
                if best is None or offer.callable_total > best[0]:
                    best = offer.callable_total, candidate
            if same_format == len(targets) and best is not None:
                return best[1]
            targets = targets[same_format:]

    async def prepare_for_counting(
        self, client_request: ModelRequest, targets: Sequence[ModelTarget]
    ) -> PreparedRequest:
        """Prepare to count tokens: for the first model, and in the client's format even if the provider uses another
        format. Raises Problem.
        """
        return await self._prepare_in(client_request, client_request.format, targets[:1], 1, asks_model=False)

    async def _prepare_in(
        self,
        client_request: ModelRequest,
        wire: WireFormat,
        targets: Sequence[ModelTarget],
        same_format: int,
        *,
        asks_model: bool = True,
    ) -> PreparedRequest:
        """Prepare in `wire`, the format of the first `same_format` targets. `asks_model`: whether the request goes to a
        model; False if its tokens are only counted.
        """
        request, long = client_request.wire_request, is_long(client_request.raw.body)
        if wire is not client_request.format:
            request = await self._tools.work.process_document(lambda: client_request.raw.parse(wire), long=long)
        losses = request.losses or TranslationLosses()
        request.messages = await self._turns.restore(
            client_request.identity, wire, request.client_messages, losses, asks_model=asks_model
        )
        headers = {name: value for name, value in client_request.headers.items() if name in wire.request_headers}
        offer = None
        if client_request.wishes.tools != "none" and not request.no_injection:
            offer = await self.offer(client_request, wire, request, targets[:same_format])
        first_target = 0 if offer is None else offer.model_index
        keeping = TurnKeeping.SURE
        if asks_model and offer is not None and offer.definitions and (request.tool_names or offer.client_run):
            keeping = await self._turns.keeping(
                client_request.identity, client_request.format, client_request.wire_request.client_messages
            )
        return PreparedRequest(
            wire,
            request,
            targets[first_target:],
            offer,
            headers,
            client_request.wishes.show_calls,
            client_request.tier_rule,
            keeping,
            long,
            losses,
        )

    def _count_same_format(self, client_format: WireFormat, wire: WireFormat, targets: Sequence[ModelTarget]) -> int:
        """Number of targets at the beginning of the list whose requests have the format `wire`."""
        for index, target in enumerate(targets):
            if provider_format(client_format, self.providers.by_name[target.provider]) is not wire:
                return index
        return len(targets)

    async def count_conversation(self, request: WireRequest) -> ConversationTokens:
        """Count the tokens of a request's messages and system prompt."""
        messages = b",".join(map(bytes, request.messages))
        measured_conversation = await self._tools.work.measure(
            [b'{"messages":[', messages, b'],"system":', request.system, b"}"]
        )
        return measured_conversation.tokens

    async def offer(
        self,
        client_request: ModelRequest,
        wire: WireFormat,
        request: WireRequest,
        targets: Sequence[ModelTarget],
    ) -> ToolOffer:
        """Choose the tools for a request. Counting the tokens of a conversation takes milliseconds, and a text never
        has more tokens than bytes. So the tokens are counted only if the conversation's bytes exceed the context
        window.
        """
        tool_format, windows = registry.find(wire.name), self._tools.models.windows
        catalog = self._tools.catalogs.seen_by(client_request.identity)
        models = [
            RouteModel(target.model, windows.window(target.model), wire.name, tool_format.max_tools)
            for target in targets
        ]
        limits = PlanLimits(client_request.wishes.max_tools, client_request.wishes.tool_tokens, 0).combine_with(
            client_request.route.limits
        )
        upper_bound = ConversationTokens(0, len(client_request.raw.body) + request.restored_bytes)
        fits = OfferBounds(models, limits, request.tool_names, upper_bound, exact=False)

        async def make(fits: OfferBounds) -> ToolOffer | None:
            return await self._tools.work.run_in_steps(
                lambda: self._offers.make(wire.name, catalog, client_request.wishes, fits)
            )

        offer = await self._memory.get(wire.name, catalog, client_request.wishes, fits, make)
        if offer is None:
            tokens = await self.count_conversation(request)
            counted_tokens = ConversationTokens(tokens.system, tokens.messages + len(request.tools) // 3)
            exact_fits = msgspec.structs.replace(fits, conversation=counted_tokens, exact=True)
            offer = await make(exact_fits)
        assert offer is not None
        return offer


def provider_format(client_format: WireFormat, provider: Provider) -> WireFormat:
    """The wire format of a client's request at a provider: the client's format if the provider supports it, else a
    format that translates between the client's format and the provider's. Equal arguments return the same object. If a
    provider has both of OpenAI's APIs, clients of other families get Responses, because Responses keep reasoning
    between calls.
    """
    if accepts_format(provider, client_format):
        return client_format
    return pair(client_format, RESPONSES if provider.speaks_responses else FORMAT_OF_KIND[provider.kind])


def accepts_format(provider: Provider, client_format: WireFormat) -> bool:
    """Whether a provider accepts requests in the client's format."""
    if client_format.name == RESPONSES.name:
        return provider.speaks_responses
    return client_format.name == FORMAT_OF_KIND[provider.kind].name
