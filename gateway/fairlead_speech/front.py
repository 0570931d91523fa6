"""Endpoint for speech sessions: upgrades HTTP connections to WebSockets, and passes each to the speech engine of its
path.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from typing import Final

from aiohttp import web
from starlette.routing import Route

from fairlead_formats.wire.errors import LlmError
from fairlead_gateway.core.request import agent_name
from fairlead_gateway.core.share_counts import ShareCounts
from fairlead_gateway.endpoint import responses
from fairlead_gateway.endpoint.framing import Field
from fairlead_gateway.endpoint.upgrades import ADMITTED, AdmittedUpgrade, UpgradeRequest
from fairlead_models.errors import llm_error
from fairlead_models.request_record import RequestRecord, RequestRecords
from fairlead_offers.problems import Problem
from fairlead_speech.admission import SessionRequest, SessionSlot, SessionSlots, admit
from fairlead_speech.bridge import FAILED
from fairlead_speech.client_secrets import CLIENT_SECRETS, ClientSecrets
from fairlead_speech.gemini.endpoint import LiveEndpoint
from fairlead_speech.realtime_endpoint import RealtimeEndpoint
from fairlead_speech.services import EngineEndpoint, Serve, SpeechServices
from fairlead_speech.sockets import CLOSE_SECONDS
from fairlead_web.guard import RequestGuard

_RESTARTING: Final = "the gateway is restarting: retry in a second"
log = logging.getLogger(__name__)


class SpeechFront:
    """Upgrades connections to speech sessions. Each gateway has one instance, and calls `drain` and `aclose` when it
    stops."""

    def __init__(
        self, services: SpeechServices, guard: RequestGuard, records: RequestRecords, shares: ShareCounts
    ) -> None:
        """`shares`: counts the requests that are refused because their agent has reached its limit. The HTTP client in
        `services` belongs to this object, and is closed by `aclose`.
        """
        allowed = services.settings.allowed
        self._guard = guard
        self._records = records
        self._services = services
        self._endpoints: tuple[EngineEndpoint, ...] = (RealtimeEndpoint(self._services), LiveEndpoint(self._services))
        self._slots = SessionSlots(allowed.sessions, allowed.sessions_each, shares)
        self._draining = False
        self._server: web.Server | None = None

    # Called by the listener

    def handles(self, target: bytes, fields: Sequence[Field]) -> bool:
        """Whether a request is for a speech session. `target`: request target with path and query."""
        is_upgrade = any(name == b"upgrade" and value.lower() == b"websocket" for name, value in fields)
        path = target.partition(b"?")[0].decode("latin-1")
        return is_upgrade and self._endpoint(path) is not None and bool(self._services.providers())

    async def admit(self, request: UpgradeRequest, client: tuple[str, int] | None) -> AdmittedUpgrade | bytes:
        """Authenticate a request, take a slot for a session and choose the models. Returns the admitted session, or the
        bytes of an HTTP response with an error in the format of the provider API.
        """
        endpoint = self._endpoint(request.path)
        assert endpoint is not None, "the listener calls `handles` before"
        try:
            session_request = await admit(self._guard, request, client)
            return self._admit(endpoint, request.path, session_request)
        except LlmError as error:
            self._services.metrics.refuse_session(endpoint.engine, error.code)
            body = endpoint.error_body(error)
            header_lines = "".join(f"{name}: {value}\r\n" for name, value in error.headers.items())
            return responses.head(error.status, len(body), header_lines.encode("latin-1")) + body

    # Called by the composition root

    @property
    def routes(self) -> list[Route]:
        """Routes of OpenAI's Realtime API that are requests over plain HTTP."""
        services = self._services
        secrets = ClientSecrets(
            services.providers,
            services.client,
            allowed=services.settings.allowed.client_secrets,
            provider_mcp=services.settings.allowed.provider_mcp,
        )
        return [Route(CLIENT_SECRETS, secrets.answer, methods=["POST"])]

    async def drain(self, seconds: float) -> None:
        """Accept no new sessions, and close each running session when its model is not responding, at the latest after
        `seconds`.
        """
        services = self._services
        self._draining = True
        for bridge in [*services.running]:
            bridge.drain(services.clock() + seconds)
        if services.running:
            services.all_ended.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(services.all_ended.wait(), seconds + 4 * CLOSE_SECONDS)

    async def aclose(self) -> None:
        """Close the remaining sessions and the HTTP client."""
        if self._server is not None:
            await self._server.shutdown(CLOSE_SECONDS)
        await self._services.client.aclose()

    # Internals

    def _admit(self, endpoint: EngineEndpoint, path: str, session_request: SessionRequest) -> AdmittedUpgrade:
        """Take a slot for a session, and let the endpoint choose models. Raises LlmError."""
        if self._draining:
            raise LlmError(503, _RESTARTING, "unavailable", headers={"retry-after": "1"})
        record = self._records.open(session_request.origin, path)
        slot = self._slots.slot(agent_name(session_request.origin.identity, session_request.origin.address))
        try:
            serve = endpoint.admit(session_request, slot)
        except LlmError as error:
            slot.release()
            record.end(error.code)
            raise
        if self._server is None:
            self._server = web.Server(self._answer, access_log=None)
        return _AdmittedSession(endpoint, serve, record, self._server, slot)

    def _endpoint(self, path: str) -> EngineEndpoint | None:
        return next((endpoint for endpoint in self._endpoints if endpoint.serves(path)), None)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Run a session, or answer with an error in the format of the provider API. The connection is closed in both
        cases.
        """
        assert request.transport is not None
        session: _AdmittedSession = request.transport.get_extra_info(ADMITTED)
        try:
            answer = await self._serve_or_refuse(request, session)
        finally:
            session.release()
        answer.force_close()
        return answer

    async def _serve_or_refuse(self, request: web.BaseRequest, session: _AdmittedSession) -> web.StreamResponse:
        try:
            return await session.serve(request, session.record)
        except LlmError as error:
            refusal = error
        except Problem as problem:
            refusal = llm_error(problem)
        except web.HTTPException as handshake_error:  # an invalid WebSocket handshake (RFC 6455 section 4.2.1)
            refusal = LlmError(
                handshake_error.status, handshake_error.text or handshake_error.reason, "invalid_request"
            )
        except Exception:
            log.exception("A speech session at %s failed", request.path)
            session.record.end(FAILED)
            refusal = LlmError(500, "the gateway failed; its log says why", "INTERNAL")
        session.record.end(refusal.code)
        self._services.metrics.refuse_session(session.endpoint.engine, refusal.code)
        body = session.endpoint.error_body(refusal)
        return web.Response(status=refusal.status, body=body, headers=refusal.headers, content_type="application/json")


class _AdmittedSession:
    """A speech session from the admission of its request to its end, with its record and its slot."""

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
        """Make the aiohttp protocol that serves the connection."""
        protocol: asyncio.Protocol = self._server()
        return protocol

    def release(self) -> None:
        """End the record of the session, and give its slot back. A second call does nothing."""
        self.record.end(FAILED)  # no effect if the record has ended
        self._slot.release()
