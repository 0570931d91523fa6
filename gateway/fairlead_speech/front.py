"""Endpoint for speech sessions: takes WebSockets, connects each to its provider, and runs it."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Final
from urllib.parse import urlencode

import msgspec
from aiohttp import web
from starlette.routing import Route

from fairlead_gateway.endpoint.framing import Field
from fairlead_models.breakers import ModelBreakers, ModelClosed
from fairlead_models.credentials import PROVIDER_KEY
from fairlead_models.errors import LlmError, of_problem, over_budget, unavailable
from fairlead_models.openai_errors import error_body
from fairlead_models.providers import ModelTarget, ProviderKeyRefused, Providers, UnknownModel
from fairlead_models.request_record import RequestRecord, RequestRecords
from fairlead_models.upstream import ProviderClient, ProviderRefused, ProviderSocket, ProviderUnavailable, transport_of
from fairlead_rest.context import RestContext
from fairlead_rest.problems import Problem
from fairlead_speech.admission import SessionRequest, admitted
from fairlead_speech.bridge import FAILED, SpeechBridge
from fairlead_speech.client_secrets import CLIENT_SECRETS, ClientSecrets
from fairlead_speech.metrics import SpeechMetrics
from fairlead_speech.realtime.session import ENGINE, RealtimeSession
from fairlead_speech.sockets import CLIENT_PING_SECONDS, CLOSE_SECONDS, MAX_MESSAGE, SessionSocket
from fairlead_speech.tiers import SpokenTier
from fairlead_speech.toolbox import SessionToolbox, ToolShelf

REALTIME: Final = "/v1/realtime"
PASSED_ON: Final = ("openai-safety-identifier",)
"""Headers of a client that its provider gets."""
_NEXT: Final = frozenset({401, 403, 404, 408, 429})
"""Statuses of a provider, beside those from 500 on, after which the route's next model is asked."""
log = logging.getLogger(__name__)


class SpeechSettings(msgspec.Struct, frozen=True):
    """Bounds and permissions of speech sessions."""

    sessions: int
    """Sessions at the same time."""
    provider_mcp: bool
    """Whether clients may have providers call MCP servers by themselves."""
    client_secrets: bool
    """Whether clients get secrets with which they speak to providers themselves."""


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
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`clock` times frames, in seconds."""
        self._context = context
        self._providers = providers
        self._settings = settings
        self._breakers = breakers
        self._records = records
        self._metrics = metrics
        self._clock = clock
        self._shelf = ToolShelf(context)
        self._client = ProviderClient()
        self._running: set[SpeechBridge] = set()
        self._opening = 0
        self._over = asyncio.Event()
        self._draining = False
        self._server: web.Server | None = None

    # Called by the listener

    def takes(self, target: bytes, fields: Sequence[Field]) -> bool:
        """Whether a request is for a speech session."""
        path = target.partition(b"?")[0].decode("latin-1")
        asks = any(name == b"upgrade" and value.lower() == b"websocket" for name, value in fields)
        return asks and path == REALTIME and bool(self._providers())

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
        secrets = ClientSecrets(
            self._providers, self._client, allowed=self._settings.client_secrets,
            provider_mcp=self._settings.provider_mcp,
        )  # fmt: skip
        return [Route(CLIENT_SECRETS, secrets.answer, methods=["POST"])]

    async def drain(self, seconds: float) -> None:
        """Take no more sessions, and close those that there are: when their model has answered, at the latest after
        so many seconds.
        """
        self._draining = True
        for bridge in [*self._running]:
            bridge.retire(self._clock() + seconds)
        if self._running:
            self._over.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), seconds + 4 * CLOSE_SECONDS)

    async def aclose(self) -> None:
        """Cut off what is left."""
        if self._server is not None:
            await self._server.shutdown(CLOSE_SECONDS)
        await self._client.aclose()

    # Inside

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """A session, or a refusal in the form of the API."""
        try:
            asked = await admitted(self._context.guard, request)
            return await self._session(request, asked)
        except LlmError as error:
            self._metrics.refused(ENGINE, error.code)
            return _refusal(error)
        except Problem as problem:
            found = of_problem(problem)
            self._metrics.refused(ENGINE, found.code)
            return _refusal(found)
        except Exception:
            log.exception("A speech session failed")
            return _refusal(LlmError(500, "the gateway failed; its log says why", "INTERNAL"))

    async def _session(self, request: web.BaseRequest, asked: SessionRequest) -> web.StreamResponse:
        if self._draining:
            raise LlmError(503, "the gateway is being restarted", "unavailable", headers={"retry-after": "1"})
        if len(self._running) + self._opening >= self._settings.sessions:
            raise LlmError(
                503, f"{self._settings.sessions} speech sessions are open already, the most of this gateway",
                "unavailable", headers={"retry-after": "5"},
            )  # fmt: skip
        record = self._records.open(asked.origin, REALTIME)
        self._opening += 1
        try:
            return await self._opened(request, asked, record)
        except LlmError as error:
            record.end(error.code)
            raise
        except Problem as problem:
            record.end(problem.document.code)
            raise
        finally:
            self._opening -= 1
            record.end(FAILED)  # unless it has ended

    async def _opened(
        self, request: web.BaseRequest, asked: SessionRequest, record: RequestRecord
    ) -> web.StreamResponse:
        route, targets = self._targets(asked)
        make = functools.partial(SessionToolbox, self._shelf, asked.origin, asked.wishes, route, ENGINE, record)
        toolbox = make(targets[0])
        tier = SpokenTier(self._context, toolbox.catalog, asked.wishes.tier)
        offer = await toolbox.show(tier.current, frozenset())  # a tier that is unknown is refused here
        record.open_budget(targets[0], offer.quotas)
        if (refused := record.refusal()) is not None:
            raise over_budget(refused)
        target, upstream = await self._connected(asked, targets)
        if target != targets[0]:
            toolbox = make(target)
            record.open_budget(target, offer.quotas)
            tier = SpokenTier(self._context, toolbox.catalog, asked.wishes.tier)
        socket = web.WebSocketResponse(
            timeout=CLOSE_SECONDS, heartbeat=CLIENT_PING_SECONDS, protocols=("realtime",), compress=False,
            max_msg_size=MAX_MESSAGE, decode_text=False,
        )  # fmt: skip
        try:
            await socket.prepare(request)
            client = SessionSocket(socket, request.transport, self._clock)
            await self._run(client, SessionSocket(upstream, transport_of(upstream), self._clock), toolbox, tier, record)
        finally:
            await upstream.close()
        return socket

    async def _run(
        self,
        client: SessionSocket,
        provider: SessionSocket,
        toolbox: SessionToolbox,
        tier: SpokenTier,
        record: RequestRecord,
    ) -> None:
        session = RealtimeSession(
            client, provider, toolbox, tier, record, self._metrics, provider_mcp=self._settings.provider_mcp
        )
        bridge = SpeechBridge(client, provider, session, ENGINE, self._metrics, self._clock)
        self._running.add(bridge)
        self._metrics.begun(ENGINE)
        outcome = FAILED
        try:
            outcome = await bridge.run()
        finally:
            self._running.discard(bridge)
            if not self._running:
                self._over.set()
            self._metrics.ended(ENGINE, outcome)
            record.end(outcome)

    def _targets(self, asked: SessionRequest) -> tuple[Any, list[ModelTarget]]:
        """The route and the models that have this API. Raises LlmError."""
        providers, keyed = self._providers(), bool(asked.provider_key)
        wanted = asked.query.get("model", "")
        speaking = [name for name, each in providers.by_name.items() if each.kind == "openai"]
        if not wanted and "call_id" in asked.query and speaking:
            wanted = f"{speaking[0]}/call"  # a call has a model already
        try:
            route, targets = providers.targets(wanted, keyed=keyed)
        except UnknownModel as error:
            raise LlmError(404, str(error), "model_not_found", param="model") from error
        except ProviderKeyRefused as error:
            raise LlmError(error.status, str(error), "provider_key") from error
        found = [target for target in targets if target.provider in speaking]
        if not found:
            raise LlmError(404, f"no provider of {wanted[:128]!r} has OpenAI's Realtime API", "model_not_found")
        return route, found

    async def _connected(
        self, asked: SessionRequest, targets: Sequence[ModelTarget]
    ) -> tuple[ModelTarget, ProviderSocket]:
        """The first model that takes the session. Raises LlmError."""
        failure = LlmError(502, "no model takes the session", "provider_unavailable")
        for target in targets:
            try:
                attempt = self._breakers.attempt(target)
            except ModelClosed as closed:
                failure = unavailable(closed, {})
                continue
            try:
                socket = await self._dialled(asked, target)
            except ProviderRefused as error:
                attempt.answered(error.status, None if asked.provider_key else error.retry_after)
                status = error.status if 400 <= error.status < 500 else 502
                failure = LlmError(status, f"{target.provider}: {error}", "provider_refused")
                if error.status < 500 and error.status not in _NEXT:
                    raise failure from error
            except ProviderUnavailable as error:
                attempt.failed(error)
                failure = LlmError(502, f"{target.provider}: {error}", "provider_unavailable")
            except BaseException:
                attempt.given_up()
                raise
            else:
                attempt.answered(200, None)
                attempt.over()
                return target, socket
        raise failure

    async def _dialled(self, asked: SessionRequest, target: ModelTarget) -> ProviderSocket:
        provider = self._providers().by_name[target.provider]
        query = {name: value for name, value in asked.query.items() if name != "model"}
        if "call_id" not in query:
            query = {"model": target.model, **query}
        headers = {name: asked.headers[name] for name in PASSED_ON if name in asked.headers}
        path = f"/realtime?{urlencode(query)}"
        return await self._client.connect(provider, path, headers, asked.provider_key, max_message=MAX_MESSAGE)


def _refusal(error: LlmError) -> web.Response:
    headers = {name: value for name, value in error.headers.items() if name.lower() != PROVIDER_KEY}
    return web.Response(status=error.status, body=error_body(error), headers=headers, content_type="application/json")
