"""Endpoint for OpenAI Realtime sessions over WebSockets."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlencode

from aiohttp import web

from fairlead_formats.providers.openai_chat.errors import error_body
from fairlead_formats.tokens.routes import ModelRoute
from fairlead_formats.wire.errors import LlmError
from fairlead_models.cascaded_engines import CASCADED
from fairlead_models.providers import ModelTarget
from fairlead_models.request_record import RequestRecord
from fairlead_speech.admission import SessionRequest, SessionSlot
from fairlead_speech.cascaded.session import CascadedSession
from fairlead_speech.realtime.session import ENGINE, RealtimeSession
from fairlead_speech.routed.routing import RoutedSession
from fairlead_speech.services import (
    OpenedModel,
    Serve,
    SpeechServices,
    make_engine_session,
    make_turn_answerer,
    set_slow_tier,
)
from fairlead_speech.session import BridgedSession
from fairlead_speech.sockets import MAX_MESSAGE, PROVIDER_PING_SECONDS, Closing, SessionSide
from fairlead_speech.tiers import is_slow

REALTIME: Final = "/v1/realtime"
_NOT_ROUTED: Final = frozenset({"call_id", "intent"})
"""Query parameters of sessions whose turns are always answered by the provider: the audio of a phone call (`call_id`)
bypasses the gateway, and sessions with an `intent` only transcribe.
"""
FORWARDED_HEADERS: Final = ("openai-safety-identifier",)
"""Headers of a client that are forwarded to its provider."""


class RealtimeEndpoint:
    """Endpoint for OpenAI Realtime sessions, `/v1/realtime`."""

    engine = ENGINE

    def __init__(self, services: SpeechServices) -> None:
        self._services = services

    def serves(self, path: str) -> bool:
        """Whether a WebSocket at a path belongs to this endpoint."""
        return path == REALTIME

    def error_body(self, error: LlmError) -> bytes:
        """Body of an error response to a request that is not upgraded to a WebSocket."""
        return error_body(error)

    def admit(self, session_request: SessionRequest, slot: SessionSlot) -> Serve:
        """Take a slot for a session, and choose its models. Raises LlmError."""
        slot.take_for_session()
        route_and_targets = self._services.targets(
            self._model_name(session_request), session_request, ("openai", CASCADED), "OpenAI's Realtime API"
        )
        return functools.partial(self._serve, session_request, *route_and_targets)

    async def _serve(
        self,
        session_request: SessionRequest,
        route: ModelRoute,
        targets: Sequence[ModelTarget],
        request: web.BaseRequest,
        record: RequestRecord,
    ) -> web.StreamResponse:
        services = self._services

        async def dial(target: ModelTarget) -> SessionSide:
            return await self._dial(session_request, target)

        opened_model = await services.open(session_request, route, targets, ENGINE, record, dial)
        try:
            socket, client = await services.accept(request, "realtime")
            engine = CASCADED if isinstance(opened_model.side, CascadedSession) else ENGINE
            session = self._make_session(session_request, opened_model, client, record, engine)
            await services.run(client, opened_model.side, session, engine, record)
        finally:
            await opened_model.side.close(Closing(1000))
        return socket

    def _model_name(self, session_request: SessionRequest) -> str:
        """Name of the model in a request. A request with `call_id` names none, and goes to the first provider of the
        kind `openai`.
        """
        model = session_request.query.get("model", "")
        openai_providers = [
            name for name, provider in self._services.providers().by_name.items() if provider.kind == "openai"
        ]
        if not model and "call_id" in session_request.query and openai_providers:
            return f"{openai_providers[0]}/call"  # the provider already has a model for the call
        return model

    def _make_session(
        self,
        session_request: SessionRequest,
        opened_model: OpenedModel,
        client: SessionSide,
        record: RequestRecord,
        engine: str,
    ) -> BridgedSession:
        services = self._services
        context = services.context(opened_model, record, engine)
        session = RealtimeSession(client, opened_model.side, context, waits_for_transcript=engine == CASCADED)
        if isinstance(opened_model.side, CascadedSession):
            set_slow_tier(opened_model.side, opened_model)
            return session
        slow_turns = services.providers().by_name[opened_model.target.provider].slow_turns
        if slow_turns is None or _NOT_ROUTED & session_request.query.keys():
            return session
        return RoutedSession(
            session,
            make_turn_answerer(services, slow_turns.engine, opened_model, client, record, session.end),
            lambda tier: is_slow(opened_model.toolbox.catalog(), tier, slow_turns.from_tier),
            slow_turns.transcription,
            services.metrics,
            opened_model.side,
        )

    async def _dial(self, session_request: SessionRequest, target: ModelTarget) -> SessionSide:
        services, providers = self._services, self._services.providers()
        if target.provider in providers.cascaded:
            return make_engine_session(services, target.provider, target.model)
        query = {name: value for name, value in session_request.query.items() if name != "model"}
        if "call_id" not in query:
            query = {"model": target.model, **query}
        headers = {name: session_request.headers[name] for name in FORWARDED_HEADERS if name in session_request.headers}
        provider, path = providers.by_name[target.provider], f"/realtime?{urlencode(query)}"
        socket = await services.client.connect(
            provider, path, headers, session_request.provider_key, max_message=MAX_MESSAGE, ping=PROVIDER_PING_SECONDS
        )
        return services.provider_side(socket)
