"""Endpoint for speech sessions: takes WebSockets, and has the engine of their path serve them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from typing import Final

from aiohttp import web
from starlette.routing import Route

from fairlead_formats.wire.errors import LlmError
from fairlead_gateway.core.exchange import agent_name
from fairlead_gateway.core.share_counts import ShareCounts
from fairlead_gateway.endpoint import responses
from fairlead_gateway.endpoint.framing import Field
from fairlead_gateway.endpoint.upgrades import ADMITTED, AdmittedUpgrade, UpgradeRequest
from fairlead_models.breakers import ModelBreakers
from fairlead_models.errors import of_problem
from fairlead_models.providers import Providers
from fairlead_models.request_record import RequestRecord, RequestRecords
from fairlead_models.upstream import ProviderClient
from fairlead_offers.problems import Problem
from fairlead_offers.services import ToolServices
from fairlead_speech.admission import SessionRequest, SessionSlot, SessionSlots, admit
from fairlead_speech.bridge import FAILED
from fairlead_speech.cascaded.chat_model import ChatModel
from fairlead_speech.client_secrets import CLIENT_SECRETS, ClientSecrets
from fairlead_speech.gemini.endpoint import LiveEndpoint
from fairlead_speech.metrics import SpeechMetrics
from fairlead_speech.realtime_endpoint import RealtimeEndpoint
from fairlead_speech.services import EngineEndpoint, Serve, SpeechServices, SpeechSettings
from fairlead_speech.sockets import CLOSE_SECONDS
from fairlead_web.guard import RequestGuard

_RESTARTING: Final = "the gateway is being restarted"
log = logging.getLogger(__name__)


class SpeechFront:
    """Takes over connections that ask for a speech session. One per gateway; `drain` and `aclose` it."""

    def __init__(
        self,
        tools: ToolServices,
        guard: RequestGuard,
        providers: Callable[[], Providers],
        settings: SpeechSettings,
        breakers: ModelBreakers,
        records: RequestRecords,
        metrics: SpeechMetrics,
        client: ProviderClient,
        chat: ChatModel,
        shares: ShareCounts,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`client` is closed with this. `chat`: models of cascaded engines. `shares` counts refusals of agents that
        have their share. `clock` times frames, in seconds.
        """
        self._guard = guard
        self._records = records
        self._services = SpeechServices(tools, providers, settings, breakers, metrics, clock, client, chat)
        self._endpoints: tuple[EngineEndpoint, ...] = (RealtimeEndpoint(self._services), LiveEndpoint(self._services))
        self._slots = SessionSlots(settings.allowed.sessions, settings.allowed.sessions_each, shares)
        self._draining = False
        self._server: web.Server | None = None

    # Called by the listener

    def takes(self, target: bytes, fields: Sequence[Field]) -> bool:
        """Whether a request is for a speech session."""
        asks = any(name == b"upgrade" and value.lower() == b"websocket" for name, value in fields)
        path = target.partition(b"?")[0].decode("latin-1")
        return asks and self._endpoint(path) is not None and bool(self._services.providers())

    async def judge(self, request: UpgradeRequest, client: tuple[str, int] | None) -> AdmittedUpgrade | bytes:
        """Who asks, whether there is room, and for which model; or a refusal in the form of the API."""
        endpoint = self._endpoint(request.path)
        assert endpoint is not None  # it is taken
        try:
            session_request = await admit(self._guard, request, client)
            return self._admit(endpoint, request.path, session_request)
        except LlmError as error:
            self._services.metrics.refuse_session(endpoint.engine, error.code)
            body = endpoint.error_body(error)
            extra = "".join(f"{name}: {value}\r\n" for name, value in error.headers.items())
            return responses.head(error.status, len(body), extra.encode("latin-1")) + body

    # Called by the composition root

    @property
    def routes(self) -> list[Route]:
        """Paths of OpenAI's API that are about sessions and need no WebSocket."""
        services = self._services
        secrets = ClientSecrets(
            services.providers,
            services.client,
            allowed=services.settings.allowed.client_secrets,
            provider_mcp=services.settings.allowed.provider_mcp,
        )
        return [Route(CLIENT_SECRETS, secrets.answer, methods=["POST"])]

    async def drain(self, seconds: float) -> None:
        """Take no more sessions, and close those that there are: when their model has answered, at the latest after
        so many seconds.
        """
        services = self._services
        self._draining = True
        for bridge in [*services.running]:
            bridge.drain(services.clock() + seconds)
        if services.running:
            services.over.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(services.over.wait(), seconds + 4 * CLOSE_SECONDS)

    async def aclose(self) -> None:
        """Cut off what is left."""
        if self._server is not None:
            await self._server.shutdown(CLOSE_SECONDS)
        await self._services.client.aclose()

    # Inside

    def _admit(self, endpoint: EngineEndpoint, path: str, session_request: SessionRequest) -> AdmittedUpgrade:
        """Raises LlmError."""
        if self._draining:
            raise LlmError(503, _RESTARTING, "unavailable", headers={"retry-after": "1"})
        record = self._records.open(session_request.origin, path)
        slot = self._slots.slot(agent_name(session_request.origin.identity, session_request.origin.address))
        try:
            serve = endpoint.judge(session_request, slot)
        except LlmError as error:
            slot.release()
            record.end(error.code)
            raise
        if self._server is None:
            self._server = web.Server(self._answer, access_log=None)
        return _AdmittedSession(endpoint, serve, record, self._server, slot)

    def _endpoint(self, path: str) -> EngineEndpoint | None:
        return next((each for each in self._endpoints if each.takes(path)), None)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """A session, or a refusal in the form of the API, with which the connection ends."""
        assert request.transport is not None
        session: _AdmittedSession = request.transport.get_extra_info(ADMITTED)
        try:
            answer = await self._session_or_refusal(request, session)
        finally:
            session.release()
        answer.force_close()
        return answer

    async def _session_or_refusal(self, request: web.BaseRequest, session: _AdmittedSession) -> web.StreamResponse:
        try:
            return await session.serve(request, session.record)
        except LlmError as error:
            refusal = error
        except Problem as problem:
            refusal = of_problem(problem)
        except web.HTTPException as invalid:  # no handshake of a WebSocket (RFC 6455 section 4.2.1)
            refusal = LlmError(invalid.status, invalid.text or invalid.reason, "invalid_request")
        except Exception:
            log.exception("A speech session failed")
            session.record.end(FAILED)
            refusal = LlmError(500, "the gateway failed; its log says why", "INTERNAL")
        session.record.end(refusal.code)
        self._services.metrics.refuse_session(session.endpoint.engine, refusal.code)
        body = session.endpoint.error_body(refusal)
        return web.Response(status=refusal.status, body=body, headers=refusal.headers, content_type="application/json")


class _AdmittedSession:
    """One session, from the judgement of its request to its end."""

    def __init__(
        self,
        endpoint: EngineEndpoint,
        serve: Serve,
        record: RequestRecord,
        server: web.Server,
        slot: SessionSlot,
    ) -> None:
        self.endpoint = endpoint
        self.serve = serve
        self.record = record
        self._server = server
        self._slot = slot

    def protocol(self) -> asyncio.Protocol:
        """A protocol for the connection."""
        protocol: asyncio.Protocol = self._server()
        return protocol

    def release(self) -> None:
        """Give the slot back, once."""
        self.record.end(FAILED)  # unless it has ended
        self._slot.release()
