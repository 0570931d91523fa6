"""Endpoint for sessions of Gemini Live, whose model is named by the first message of a connection."""

from __future__ import annotations

import asyncio
import functools
import logging
import re
from typing import Final

from aiohttp import web

from fairlead_formats.providers.gemini.errors import error_body
from fairlead_formats.wire.errors import LlmError
from fairlead_models.errors import of_problem
from fairlead_models.providers import ModelTarget
from fairlead_models.request_record import RequestRecord
from fairlead_models.upstream import ProviderSocket
from fairlead_offers.problems import Problem
from fairlead_speech.admission import SessionRequest, SessionSlot
from fairlead_speech.gemini.connections import ProviderLine, ToolSwitch
from fairlead_speech.gemini.handles import ForeignHandle, HandleSealer
from fairlead_speech.gemini.messages import CLIENT_FRAMES, SETUP, ClientNotices, Message, member, members, text
from fairlead_speech.gemini.models import CallModes, live_model
from fairlead_speech.gemini.routing import live_routing
from fairlead_speech.gemini.session import ENGINE, MAX_SETUP, MCP_REFUSED, LiveSession
from fairlead_speech.gemini.setup import SessionSetup, has_provider_mcp
from fairlead_speech.gemini.turns import LiveTurns
from fairlead_speech.messages import TooLargeFrame, UnreadableFrame
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
"""For a client to send its first message."""
MOST_FIXED: Final = 256
"""Models that are remembered for having refused `contextUpdate`."""
PASSED_ON: Final = ("x-goog-api-client",)
"""Headers of a client that its provider gets."""
_PATH: Final = re.compile(
    r"/ws/google\.ai\.generativelanguage\.v1[a-z0-9]{0,8}\.GenerativeService\.BidiGenerateContent"
)
_PROVIDER_PATH: Final = "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent"
_API: Final = "Gemini's Live API"
_RESOURCE: Final = "models/"
_NO_SETUP: Final = "the first message must be a setup with the name of a model"
log = logging.getLogger(__name__)


class LiveEntrance:
    """Takes sessions of Gemini Live."""

    engine = ENGINE

    def __init__(self, services: SpeechServices) -> None:
        self._services = services
        self._handles = HandleSealer(services.settings.key)
        self._fixed: set[str] = set()
        """Models that refused `contextUpdate`."""

    def takes(self, path: str) -> bool:
        """Whether a WebSocket to that path is a session of this engine."""
        return _PATH.fullmatch(path) is not None

    def error_body(self, error: LlmError) -> bytes:
        """Body of a refusal before the upgrade."""
        return error_body(error)

    def judge(self, asked: SessionRequest, slot: SessionSlot) -> Serve:
        """Have the socket wait: its model is known with its first message. Raises LlmError."""
        slot.wait()
        return functools.partial(self._serve, asked, slot)

    async def _serve(
        self, asked: SessionRequest, slot: SessionSlot, request: web.BaseRequest, record: RequestRecord
    ) -> web.StreamResponse:
        """Run a session to its end. What is refused after the upgrade is a close, as the provider has it."""
        socket, client = await self._services.accepted(request)
        try:
            await self._served(client, asked, slot, record)
        except LlmError as error:
            found = error
        except Problem as problem:
            found = of_problem(problem)
        except Exception:
            log.exception("A speech session failed")
            found = LlmError(500, "the gateway failed; its log says why", "INTERNAL")
        else:
            return socket
        self._services.metrics.refused(ENGINE, found.code)
        record.end(found.code)
        await client.close(closing_of(found))
        return socket

    async def _served(
        self, client: SessionSide, asked: SessionRequest, slot: SessionSlot, record: RequestRecord
    ) -> None:
        """Run a session whose client is there. Raises LlmError and Problem while it is not begun."""
        services = self._services
        setup = await _first_message(client)
        if setup is None:
            record.end("client_closed")
            return
        slot.begin()
        if not services.settings.allowed.provider_mcp and has_provider_mcp(members(setup, "tools")):
            raise LlmError(403, MCP_REFUSED, "mcp_tools_refused")
        identity, resumption = asked.origin.identity, member(setup, "sessionResumption")
        wanted = text(setup, "model").removeprefix(_RESOURCE)
        route, targets = services.targets(wanted, asked, ("gemini",), _API)
        if text(resumption, "handle"):
            named = dict.fromkeys(target.provider for target in targets)
            try:
                resumption["handle"], provider = self._handles.read(text(resumption, "handle"), named, identity)
            except ForeignHandle as error:
                raise LlmError(403, str(error), "foreign_handle", param="setup.sessionResumption.handle") from error
            targets = [target for target in targets if target.provider == provider]

        async def dial(target: ModelTarget) -> SessionSide:
            return services.side(await self._dialled(asked, target))

        async def again() -> SessionSide:
            _, side = await services.connected(asked, [opened.target], dial)
            return side

        opened = await services.opened(asked, route, targets, ENGINE, record, dial)
        name, turns = opened.target.model, LiveTurns()
        routing = live_routing(services, opened, setup)
        model = live_model(name)
        if name in self._fixed:
            model = model.without_update()
        modes = CallModes(model, opened.toolbox.traits)
        described = SessionSetup(setup if routing is None else routing.setup.outgoing(), name, modes.behavior)
        notices = ClientNotices(client, opened.tier)
        switch = ToolSwitch(
            ENGINE,
            opened.side,
            described,
            model,
            turns,
            services.metrics,
            again,
            services.clock,
            notices,
            lambda: self._learn(name),
        )
        session = LiveSession(
            client,
            described,
            modes,
            switch,
            notices,
            turns,
            opened.toolbox,
            opened.tier,
            record,
            services.metrics,
            services.clock,
            lambda handle: self._handles.shown(handle, opened.target.provider, identity),
            provider_mcp=services.settings.allowed.provider_mcp,
            elsewhere=None if routing is None else routing.is_slow,
        )
        bridged: BridgedSession = session
        try:
            await _begin(opened, described, switch.line)
            if routing is not None:
                bridged = routing.around(session, services, client, switch.line, record)
            await services.run(client, switch.line, bridged, ENGINE, record)
        finally:
            await switch.line.close(Closing(1000))

    def _learn(self, model: str) -> None:
        if len(self._fixed) < MOST_FIXED:
            self._fixed.add(model)

    async def _dialled(self, asked: SessionRequest, target: ModelTarget) -> ProviderSocket:
        services = self._services
        provider = services.providers().by_name[target.provider]
        headers = {name: asked.headers[name] for name in PASSED_ON if name in asked.headers}
        return await services.client.connect(
            provider, _PROVIDER_PATH, headers, asked.provider_key, max_message=MAX_MESSAGE, ping=PROVIDER_PING_SECONDS
        )


def closing_of(error: LlmError) -> Closing:
    """A refusal as a close, by the codes that the provider has for the like."""
    if error.status in (429, 503):
        return Closing(TRY_AGAIN_LATER, str(error))
    if error.status >= 500:
        return Closing(INTERNAL_ERROR, str(error))
    if error.status == 413:
        return Closing(TOO_LARGE, str(error))
    return Closing(BAD_ARGUMENT if error.status == 400 else POLICY_VIOLATION, str(error))


async def _begin(opened: OpenedModel, setup: SessionSetup, line: ProviderLine) -> None:
    """Send the setup, with the tools of the first turn. Raises Problem."""
    if opened.toolbox.wanted:
        await opened.tier.begin()
    setup.show(await opened.toolbox.show(opened.tier.current, setup.client_names))
    await line.send_once(setup.message())


async def _first_message(client: SessionSide) -> Message | None:
    """The setup; None where the client is gone before it. Raises LlmError."""
    try:
        async with asyncio.timeout(SETUP_SECONDS):
            frame = await client.receive()
    except TimeoutError as error:
        raise LlmError(400, _NO_SETUP, "invalid_request") from error
    if isinstance(frame, Closing):
        return None
    if len(frame) > MAX_SETUP:  # it is kept as long as the session
        raise LlmError(413, f"a setup may have {MAX_SETUP >> 20} MiB", "invalid_request", param="setup")
    try:
        setup = member(CLIENT_FRAMES.check(frame), SETUP)
    except TooLargeFrame as error:
        raise LlmError(413, str(error), "invalid_request") from error
    except UnreadableFrame as error:
        raise LlmError(400, str(error), "invalid_request") from error
    if not text(setup, "model"):
        raise LlmError(400, _NO_SETUP, "invalid_request", param="setup.model")
    return setup
