"""Opens and runs the speech sessions of all engines: connects to a model of the route, offers tools, and records the
session.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final, Protocol

import msgspec
from aiohttp import web

from fairlead_formats.tokens.routes import ModelRoute
from fairlead_formats.wire.errors import LlmError
from fairlead_models.cascaded_engines import CASCADED
from fairlead_models.errors import budget_error, closed_error
from fairlead_models.model_breakers import ModelBreakers, ModelClosed
from fairlead_models.next_model import asks_next
from fairlead_models.provider_requests import (
    ProviderClient,
    ProviderRefused,
    ProviderSocket,
    ProviderUnavailable,
    transport_of,
)
from fairlead_models.providers import ModelTarget, ProviderKeyRefused, Providers, UnknownModel
from fairlead_models.request_record import RequestRecord
from fairlead_models.settings import SpeechSessionSettings
from fairlead_offers.services import ToolServices
from fairlead_speech.admission import SessionRequest, SessionSlot
from fairlead_speech.bridge import FAILED, BridgeServices, SpeechBridge
from fairlead_speech.cascaded.answering import RelayedEvents, TurnAnswerer
from fairlead_speech.cascaded.chat_model import ChatModel
from fairlead_speech.cascaded.engine import CascadedEngines
from fairlead_speech.cascaded.session import CascadedSession
from fairlead_speech.metrics import SpeechMetrics
from fairlead_speech.realtime.session import ENGINE, RealtimeSession
from fairlead_speech.session import BridgedSession, MessageSink, SessionEnd, SpeechBounds
from fairlead_speech.sockets import CLIENT_PING_SECONDS, CLOSE_SECONDS, MAX_MESSAGE, SessionSide, SessionSocket
from fairlead_speech.tiers import SpokenTier, is_slow
from fairlead_speech.tools import SessionToolbox, SpeechContext, SpeechOffers

DEFAULT_BOUNDS: Final = SpeechBounds()
Dial = Callable[[ModelTarget], Awaitable[SessionSide]]
"""Function that connects to a given model. Raises ProviderUnavailable and ProviderRefused."""
Serve = Callable[[web.BaseRequest, RequestRecord], Awaitable[web.StreamResponse]]
"""Function that runs a session to its end. Raises LlmError and Problem before the upgrade."""


class SpeechSettings(msgspec.Struct, frozen=True):
    """Limits and permissions of speech sessions."""

    allowed: SpeechSessionSettings
    key: bytes
    """Key with which session handles are sealed for their principals; replicas share it. Empty: a random key of this
    process.
    """


class SpeechModels(msgspec.Struct, frozen=True):
    """Models of the installation, with the objects that connections to them need."""

    providers: Callable[[], Providers]
    breakers: ModelBreakers
    client: ProviderClient
    chat: ChatModel
    """Chat Completions interface to the models of cascaded engines."""


class OpenedModel(msgspec.Struct, frozen=True):
    """Connection of a session to a model, with the toolbox and tier of the session."""

    target: ModelTarget
    side: SessionSide
    toolbox: SessionToolbox
    tier: SpokenTier
    make_toolbox: Callable[[str], SessionToolbox]
    """Makes another toolbox of the session, for an engine that answers slow turns. Its argument is the name of a
    message format.
    """


class EngineEndpoint(Protocol):
    """Interface of an endpoint for the sessions of one speech engine."""

    engine: str
    """Name of the engine, which is a label of metrics."""

    def serves(self, path: str) -> bool:
        """Whether a WebSocket at a path belongs to this endpoint."""
        ...

    def error_body(self, error: LlmError) -> bytes:
        """JSON body of an error response to a request that is not upgraded, in the format of the engine's API."""
        ...

    def admit(self, session_request: SessionRequest, slot: SessionSlot) -> Serve:
        """Take the slot, and choose the models if the request (not a later message) names one. Raises LlmError."""
        ...


class SpeechServices:
    """Services that all speech sessions of one gateway share."""

    def __init__(
        self,
        tools: ToolServices,
        models: SpeechModels,
        settings: SpeechSettings,
        metrics: SpeechMetrics,
        clock: Callable[[], float] = time.perf_counter,
        bounds: SpeechBounds = DEFAULT_BOUNDS,
    ) -> None:
        """`clock`: monotonic clock in seconds, which measures how long messages stay in the gateway."""
        self.tools = tools
        self.bounds = bounds
        self.providers = models.providers
        self.settings = settings
        self.metrics = metrics
        self.clock = clock
        self.client = models.client
        self.engines = CascadedEngines(models.client, models.chat, metrics)
        self.running: set[SpeechBridge] = set()
        self.all_ended = asyncio.Event()
        """Set when the last running session has ended."""
        self._bridge_services = BridgeServices(metrics, clock, asyncio.Lock(), bounds)
        self._breakers = models.breakers
        self._offers = SpeechOffers(tools)

    def targets(
        self, model: str, session_request: SessionRequest, kinds: Collection[str], api: str
    ) -> tuple[ModelRoute, Sequence[ModelTarget]]:
        """Resolve the name of a model or route. Returns the route, and those of its models whose provider has one of
        `kinds`. `api`: name of the API for error messages. Raises LlmError.
        """
        providers = self.providers()
        try:
            route, targets = providers.targets(model, keyed=bool(session_request.provider_key), spoken=True)
        except UnknownModel as error:
            raise LlmError(404, str(error), "model_not_found", param="model") from error
        except ProviderKeyRefused as error:
            raise LlmError(error.status, str(error), "provider_key") from error
        matching_targets = [target for target in targets if providers.kind_of(target) in kinds]
        if not matching_targets:
            raise LlmError(404, f"no provider of the model {model[:128]!r} has {api}", "model_not_found")
        return route, matching_targets

    async def open(
        self,
        session_request: SessionRequest,
        route: ModelRoute,
        targets: Sequence[ModelTarget],
        format_name: str,
        record: RequestRecord,
        dial: Dial,
    ) -> OpenedModel:
        """Connect to the first model that can be reached, and offer tools. Raises LlmError and Problem, also if the
        agent has used up its daily tokens.
        """

        def make_toolbox(target: ModelTarget, name: str = format_name) -> SessionToolbox:
            return SessionToolbox(self._offers, session_request, route, name, record, target)

        toolbox = make_toolbox(targets[0])
        tier = SpokenTier(self.tools, toolbox.catalog, session_request.wishes.tier)
        offer = await toolbox.offer_tools(tier.current, frozenset())  # raises Problem for an unknown tier
        record.open_budget(targets[0], offer.quotas)
        if (reached_quota := record.refusal()) is not None:
            raise budget_error(reached_quota)
        target, side = await self.connect(session_request, targets, dial)
        if target != targets[0]:
            toolbox = make_toolbox(target)
            record.open_budget(target, offer.quotas)
            tier = SpokenTier(self.tools, toolbox.catalog, session_request.wishes.tier)
        return OpenedModel(target, side, toolbox, tier, functools.partial(make_toolbox, target))

    async def connect(
        self, session_request: SessionRequest, targets: Sequence[ModelTarget], dial: Dial
    ) -> tuple[ModelTarget, SessionSide]:
        """Connect to the first model in `targets` that can be reached. Raises LlmError."""
        failure: LlmError | None = None
        for target in targets:
            try:
                attempt = self._breakers.attempt(target)
            except ModelClosed as closed_model:
                failure = closed_error(closed_model, {})
                continue
            try:
                side = await dial(target)
            except ProviderRefused as error:
                attempt.record_answer(error.status, None if session_request.provider_key else error.retry_after)
                status = error.status if 400 <= error.status < 500 else 502
                failure = LlmError(status, f"the provider {target.provider}: {error}", "provider_refused")
                if not asks_next(error.status):
                    raise failure from error
            except ProviderUnavailable as error:
                attempt.record_failure(error)
                failure = LlmError(502, f"the provider {target.provider}: {error}", "provider_unavailable")
            except BaseException:
                attempt.abandon()
                raise
            else:
                attempt.record_answer(200, None)
                attempt.record_success()
                return target, side
        raise failure or LlmError(502, "no provider of the model can be reached", "provider_unavailable")

    def context(self, opened_model: OpenedModel, record: RequestRecord, engine: str) -> SpeechContext:
        """Collect the objects that a session needs in addition to its connections."""
        return SpeechContext(
            engine, opened_model.toolbox, opened_model.tier, record, self.metrics, self.settings.allowed.provider_mcp
        )

    async def accept(self, request: web.BaseRequest, *protocols: str) -> tuple[web.WebSocketResponse, SessionSocket]:
        """Upgrade the client's connection. Returns the WebSocket, and an object that wraps it as the client's side of a
        session. `protocols`: supported subprotocols.
        """
        socket = web.WebSocketResponse(
            timeout=CLOSE_SECONDS,
            heartbeat=CLIENT_PING_SECONDS,
            protocols=protocols,
            compress=False,
            max_msg_size=MAX_MESSAGE,
            decode_text=False,
        )
        await socket.prepare(request)
        return socket, SessionSocket(socket, request.transport, self.clock)

    def provider_side(self, socket: ProviderSocket) -> SessionSocket:
        """Wrap the WebSocket to a provider as the provider's side of a session."""
        return SessionSocket(socket, transport_of(socket), self.clock)

    async def run(
        self, client: SessionSide, provider: SessionSide, session: BridgedSession, engine: str, record: RequestRecord
    ) -> None:
        """Bridge a session until it ends, and record its outcome."""
        bridge = SpeechBridge(client, provider, session, engine, self._bridge_services)
        if isinstance(provider, CascadedSession):  # other sessions are ended by their provider
            provider.expire_in(self.bounds.session_seconds)
        self.running.add(bridge)
        self.metrics.begin_session(engine)
        outcome = FAILED
        try:
            outcome = await bridge.run()
        finally:
            self.running.discard(bridge)
            if not self.running:
                self.all_ended.set()
            self.metrics.end_session(engine, outcome)
            record.end(outcome)


def make_engine_session(services: SpeechServices, name: str, model: str) -> CascadedSession:
    """Make a session with the cascaded engine `name`. `model`: model name in the client's request."""
    engine = services.engines.engine(name, services.providers().cascaded[name])
    return CascadedSession(engine, model, services.clock, services.bounds)


def set_slow_tier(session: CascadedSession, opened_model: OpenedModel) -> None:
    """Let a cascaded engine speak a filler phrase at the start of responses in slow tiers, if the engine has
    fillers.
    """
    filler = session.state.engine.provider.filler
    if filler is not None:
        session.set_slow_tier(
            lambda: is_slow(opened_model.toolbox.catalog(), opened_model.tier.current, filler.from_tier)
        )


def make_turn_answerer(
    services: SpeechServices,
    name: str,
    opened_model: OpenedModel,
    client: MessageSink,
    record: RequestRecord,
    end: SessionEnd,
) -> TurnAnswerer:
    """Make the object that lets the cascaded engine `name` answer slow turns. `client`: receives the engine's events in
    OpenAI Realtime's format. `end`: ends the whole session if the agent's daily tokens are used up.
    """
    engine_session = make_engine_session(services, name, name)
    set_slow_tier(engine_session, opened_model)
    relay = RelayedEvents(client)
    toolbox = opened_model.make_toolbox(ENGINE)
    tier = SpokenTier(services.tools, toolbox.catalog, opened_model.tier.current)
    context = SpeechContext(CASCADED, toolbox, tier, record, services.metrics, provider_mcp=False)
    session = RealtimeSession(relay, engine_session, context, waits_for_transcript=True, end=end)
    return TurnAnswerer(engine_session, session, relay, tier)
