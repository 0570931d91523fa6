"""Endpoint for Gemini Live sessions. The first message of a connection, `setup`, names the model of the session."""

from __future__ import annotations

import asyncio
import functools
import logging
import re
from typing import Final

from aiohttp import web

from fairlead_formats.providers.gemini.errors import error_body
from fairlead_formats.wire.errors import LlmError
from fairlead_models.errors import llm_error
from fairlead_models.provider_requests import ProviderSocket
from fairlead_models.providers import ModelTarget
from fairlead_models.request_record import RequestRecord
from fairlead_offers.problems import Problem
from fairlead_speech.admission import SessionRequest, SessionSlot
from fairlead_speech.gemini.connections import LiveParts, ProviderConnection, ToolSwitch
from fairlead_speech.gemini.handles import ForeignHandle, HandleSealer
from fairlead_speech.gemini.messages import CLIENT_MESSAGES, SETUP, ClientNotices, Message, member, members, text
from fairlead_speech.gemini.models import CallModes, live_model
from fairlead_speech.gemini.routing import live_routing
from fairlead_speech.gemini.session import ENGINE, MAX_SETUP_BYTES, MCP_REFUSED, LiveSession
from fairlead_speech.gemini.setup import SessionSetup, has_provider_mcp
from fairlead_speech.gemini.turns import LiveTurns
from fairlead_speech.messages import TooLargeMessage, UnreadableMessage
from fairlead_speech.services import OpenedModel, Serve, SpeechServices
from fairlead_speech.session import BridgedSession
from fairlead_speech.sockets import (
    BAD_ARGUMENT,
    INTERNAL_ERROR,
    MAX_MESSAGE,
    POLICY_VIOLATION,
    PROVIDER_PING_SECONDS,
    TOO_LARGE,
    TRY_AGAIN_LATER,
    Closing,
    SessionSide,
)

SETUP_SECONDS: Final = 10.0
"""Seconds that a client has to send its setup."""
MAX_WITHOUT_UPDATE: Final = 256
"""Maximum number of model names that are stored because the model refused `contextUpdate`."""
FORWARDED_HEADERS: Final = ("x-goog-api-client",)
"""Headers of a client that are forwarded to its provider."""
_PATH_PATTERN: Final = re.compile(
    r"/ws/google\.ai\.generativelanguage\.v1[a-z0-9]{0,8}\.GenerativeService\.BidiGenerateContent"
)
_PROVIDER_PATH: Final = "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent"
_API_NAME: Final = "Gemini's Live API"
_RESOURCE_PREFIX: Final = "models/"
_NO_SETUP: Final = f"the first message must be a setup with the name of a model, sent within {SETUP_SECONDS:.0f} s"
log = logging.getLogger(__name__)


class LiveEndpoint:
    """Endpoint for Gemini Live sessions (BidiGenerateContent)."""

    engine = ENGINE

    def __init__(self, services: SpeechServices) -> None:
        self._services = services
        self._handles = HandleSealer(services.settings.key)
        self._without_update: set[str] = set()
        """Names of models that refused `contextUpdate`. New sessions with these models do not try `contextUpdate`
        again."""

    def serves(self, path: str) -> bool:
        """Whether a WebSocket at a path belongs to this endpoint."""
        return _PATH_PATTERN.fullmatch(path) is not None

    def error_body(self, error: LlmError) -> bytes:
        """Body of an error response to a request that is not upgraded to a WebSocket."""
        return error_body(error)

    def admit(self, session_request: SessionRequest, slot: SessionSlot) -> Serve:
        """Take a slot until the setup, which names the model, arrives. Raises LlmError."""
        slot.take_for_setup()
        return functools.partial(self._serve, session_request, slot)

    async def _serve(
        self, session_request: SessionRequest, slot: SessionSlot, request: web.BaseRequest, record: RequestRecord
    ) -> web.StreamResponse:
        """Run a session to its end. A session that is refused after the upgrade gets the close frame that the provider
        would send.
        """
        socket, client = await self._services.accept(request)
        try:
            await self._run(client, session_request, slot, record)
        except LlmError as error:
            refusal = error
        except Problem as problem:
            refusal = llm_error(problem)
        except Exception:
            log.exception("A Gemini Live session failed")
            refusal = LlmError(500, "the gateway failed; its log says why", "INTERNAL")
        else:
            return socket
        self._services.metrics.refuse_session(ENGINE, refusal.code)
        record.end(refusal.code)
        await client.close(close_for(refusal))
        return socket

    async def _run(
        self, client: SessionSide, session_request: SessionRequest, slot: SessionSlot, record: RequestRecord
    ) -> None:
        """Receive the setup and run a session. Raises LlmError and Problem before the session begins."""
        services = self._services
        setup = await _receive_setup(client)
        if setup is None:
            record.end("client_closed")
            return
        slot.take_for_session()
        if not services.settings.allowed.provider_mcp and has_provider_mcp(members(setup, "tools")):
            raise LlmError(403, MCP_REFUSED, "mcp_tools_refused")
        identity, resumption = session_request.origin.identity, member(setup, "sessionResumption")
        model_name = text(setup, "model").removeprefix(_RESOURCE_PREFIX)
        route, targets = services.targets(model_name, session_request, ("gemini",), _API_NAME)
        if text(resumption, "handle"):
            providers = dict.fromkeys(target.provider for target in targets)
            try:
                resumption["handle"], provider = self._handles.unseal(text(resumption, "handle"), providers, identity)
            except ForeignHandle as error:
                raise LlmError(403, str(error), "foreign_handle", param="setup.sessionResumption.handle") from error
            targets = [target for target in targets if target.provider == provider]

        async def dial(target: ModelTarget) -> SessionSide:
            return services.provider_side(await self._dial(session_request, target))

        async def reconnect() -> SessionSide:
            _, side = await services.connect(session_request, [opened_model.target], dial)
            return side

        opened_model = await services.open(session_request, route, targets, ENGINE, record, dial)
        name = opened_model.target.model
        routing = live_routing(services, opened_model, setup)
        model = live_model(name)
        if name in self._without_update:
            model = model.without_update()
        modes = CallModes(model, opened_model.toolbox.traits)
        session_setup = SessionSetup(setup if routing is None else routing.setup.for_provider(), name, modes.behavior)
        context = services.context(opened_model, record, ENGINE)
        notices = ClientNotices(client, opened_model.tier)
        parts = LiveParts(session_setup, modes, LiveTurns(), notices, services.clock)
        switch = ToolSwitch(
            parts, context, opened_model.side, model, reconnect, lambda: self._remember_without_update(name)
        )
        session = LiveSession(
            client,
            context,
            parts,
            switch,
            lambda handle: self._handles.seal(handle, opened_model.target.provider, identity),
            is_slow=None if routing is None else routing.is_slow,
        )
        bridged: BridgedSession = session
        try:
            await _send_setup(opened_model, session_setup, switch.connection)
            if routing is not None:
                bridged = routing.wrap(session, services, client, switch.connection, record)
            await services.run(client, switch.connection, bridged, ENGINE, record)
        finally:
            await switch.connection.close(Closing(1000))

    def _remember_without_update(self, model: str) -> None:
        if len(self._without_update) < MAX_WITHOUT_UPDATE:
            self._without_update.add(model)

    async def _dial(self, session_request: SessionRequest, target: ModelTarget) -> ProviderSocket:
        services = self._services
        provider = services.providers().by_name[target.provider]
        headers = {name: session_request.headers[name] for name in FORWARDED_HEADERS if name in session_request.headers}
        return await services.client.connect(
            provider,
            _PROVIDER_PATH,
            headers,
            session_request.provider_key,
            max_message=MAX_MESSAGE,
            ping=PROVIDER_PING_SECONDS,
        )


def close_for(error: LlmError) -> Closing:
    """Close frame for an error, with the close code that Gemini's API uses."""
    if error.status in (429, 503):
        return Closing(TRY_AGAIN_LATER, str(error))
    if error.status >= 500:
        return Closing(INTERNAL_ERROR, str(error))
    if error.status == 413:
        return Closing(TOO_LARGE, str(error))
    return Closing(BAD_ARGUMENT if error.status == 400 else POLICY_VIOLATION, str(error))


async def _send_setup(opened_model: OpenedModel, setup: SessionSetup, connection: ProviderConnection) -> None:
    """Send the setup with the tools for the first turn. Raises Problem."""
    if opened_model.toolbox.enabled:
        await opened_model.tier.choose_first()
    setup.set_offer(await opened_model.toolbox.offer_tools(opened_model.tier.current, setup.client_names))
    await connection.send_unbuffered(setup.message())


async def _receive_setup(client: SessionSide) -> Message | None:
    """Wait for the client's setup. Returns None if the client closes the connection before it. Raises LlmError."""
    try:
        async with asyncio.timeout(SETUP_SECONDS):
            payload = await client.receive()
    except TimeoutError as error:
        raise LlmError(400, _NO_SETUP, "invalid_request") from error
    if isinstance(payload, Closing):
        return None
    if len(payload) > MAX_SETUP_BYTES:  # the setup is stored for the whole session
        raise LlmError(413, f"a setup may have at most {MAX_SETUP_BYTES >> 20} MiB", "invalid_request", param="setup")
    try:
        setup = member(CLIENT_MESSAGES.check(payload), SETUP)
    except TooLargeMessage as error:
        raise LlmError(413, str(error), "invalid_request") from error
    except UnreadableMessage as error:
        raise LlmError(400, str(error), "invalid_request") from error
    if not text(setup, "model"):
        raise LlmError(400, _NO_SETUP, "invalid_request", param="setup.model")
    return setup
