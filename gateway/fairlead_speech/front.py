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

from fairlead_gateway.endpoint.framing import Field
from fairlead_models.breakers import ModelBreakers
from fairlead_models.errors import LlmError, of_problem
from fairlead_models.providers import Providers
from fairlead_models.request_record import RequestRecords
from fairlead_models.upstream import ProviderClient
from fairlead_rest.context import RestContext
from fairlead_rest.problems import Problem
from fairlead_speech.admission import SessionRequest, admitted
from fairlead_speech.bridge import FAILED
from fairlead_speech.cascaded.chat_model import ChatModel
from fairlead_speech.client_secrets import CLIENT_SECRETS, ClientSecrets
from fairlead_speech.gemini.entrance import LiveEntrance
from fairlead_speech.metrics import SpeechMetrics
from fairlead_speech.realtime.entrance import RealtimeEntrance
from fairlead_speech.services import Entrance, SpeechServices, SpeechSettings
from fairlead_speech.sockets import CLOSE_SECONDS

_RESTARTING: Final = "the gateway is being restarted"
log = logging.getLogger(__name__)


class SpeechFront:
    """Takes over connections that ask for a speech session. One per gateway; `drain` and `aclose` it."""

    def __init__(
        self,
        context: RestContext,
        providers: Callable[[], Providers],
        settings: SpeechSettings,
        breakers: ModelBreakers,
        records: RequestRecords,
        metrics: SpeechMetrics,
        client: ProviderClient,
        chat: ChatModel,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`client` is closed with this. `chat`: models of cascaded engines. `clock` times frames, in seconds."""
        self._context = context
        self._records = records
        self._services = SpeechServices(context, providers, settings, breakers, metrics, clock, client, chat)
        self._entrances: tuple[Entrance, ...] = (RealtimeEntrance(self._services), LiveEntrance(self._services))
        self._open = 0
        """Sessions that run or are being opened."""
        self._draining = False
        self._server: web.Server | None = None

    # Called by the listener

    def takes(self, target: bytes, fields: Sequence[Field]) -> bool:
        """Whether a request is for a speech session."""
        asks = any(name == b"upgrade" and value.lower() == b"websocket" for name, value in fields)
        path = target.partition(b"?")[0].decode("latin-1")
        return asks and self._entrance(path) is not None and bool(self._services.providers())

    def protocol(self) -> asyncio.Protocol:
        """A protocol for one connection."""
        if self._server is None:
            self._server = web.Server(self._answer, access_log=None)
        made: asyncio.Protocol = self._server()
        return made

    # Called by the composition root

    @property
    def routes(self) -> list[Route]:
        """Paths of OpenAI's API that are about sessions and need no WebSocket."""
        services = self._services
        secrets = ClientSecrets(
            services.providers, services.client, allowed=services.settings.client_secrets,
            provider_mcp=services.settings.provider_mcp,
        )  # fmt: skip
        return [Route(CLIENT_SECRETS, secrets.answer, methods=["POST"])]

    async def drain(self, seconds: float) -> None:
        """Take no more sessions, and close those that there are: when their model has answered, at the latest after
        so many seconds.
        """
        services = self._services
        self._draining = True
        for bridge in [*services.running]:
            bridge.retire(services.clock() + seconds)
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

    def _entrance(self, path: str) -> Entrance | None:
        return next((each for each in self._entrances if each.takes(path)), None)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """A session, or a refusal in the form of the API, with which the connection ends."""
        answer = await self._session_or_refusal(request)
        answer.force_close()
        return answer

    async def _session_or_refusal(self, request: web.BaseRequest) -> web.StreamResponse:
        entrance = self._entrance(request.path)
        if entrance is None:  # the path is read otherwise than by the listener
            return web.Response(status=404)
        try:
            asked = await admitted(self._context.guard, request)
            return await self._session(entrance, request, asked)
        except LlmError as error:
            found = error
        except Problem as problem:
            found = of_problem(problem)
        except web.HTTPException as refused:  # no handshake of a WebSocket (RFC 6455 section 4.2.1)
            found = LlmError(refused.status, refused.text or refused.reason, "invalid_request")
        except Exception:
            log.exception("A speech session failed")
            return entrance.refusal(LlmError(500, "the gateway failed; its log says why", "INTERNAL"))
        self._services.metrics.refused(entrance.engine, found.code)
        return entrance.refusal(found)

    async def _session(self, entrance: Entrance, request: web.BaseRequest, asked: SessionRequest) -> web.StreamResponse:
        most = self._services.settings.sessions
        if self._draining:
            raise LlmError(503, _RESTARTING, "unavailable", headers={"retry-after": "1"})
        if self._open >= most:
            raise LlmError(
                503, f"{most} speech sessions are open already, the most of this gateway", "unavailable",
                headers={"retry-after": "5"},
            )  # fmt: skip
        record = self._records.open(asked.origin, request.path)
        self._open += 1
        try:
            return await entrance.serve(request, asked, record)
        except LlmError as error:
            record.end(error.code)
            raise
        except Problem as problem:
            record.end(problem.document.code)
            raise
        finally:
            self._open -= 1
            record.end(FAILED)  # unless it has ended
