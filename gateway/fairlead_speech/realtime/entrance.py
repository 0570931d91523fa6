"""Endpoint for sessions of OpenAI Realtime."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

from aiohttp import web

from fairlead_models.errors import LlmError
from fairlead_models.openai_errors import error_body
from fairlead_models.providers import ModelTarget
from fairlead_models.request_record import RequestRecord
from fairlead_models.upstream import ProviderSocket
from fairlead_speech.admission import SessionRequest
from fairlead_speech.realtime.session import ENGINE, RealtimeSession
from fairlead_speech.services import SpeechServices
from fairlead_speech.sockets import MAX_MESSAGE, PROVIDER_PING_SECONDS

REALTIME: Final = "/v1/realtime"
PASSED_ON: Final = ("openai-safety-identifier",)
"""Headers of a client that its provider gets."""


class RealtimeEntrance:
    """Takes sessions of OpenAI Realtime."""

    engine = ENGINE

    def __init__(self, services: SpeechServices) -> None:
        self._services = services

    def takes(self, path: str) -> bool:
        """Whether a WebSocket to that path is a session of this engine."""
        return path == REALTIME

    def refusal(self, error: LlmError) -> web.Response:
        """An answer before the upgrade."""
        return web.Response(
            status=error.status, body=error_body(error), headers=error.headers, content_type="application/json"
        )

    async def serve(self, request: web.BaseRequest, asked: SessionRequest, record: RequestRecord) -> web.StreamResponse:
        """Run a session to its end. Raises LlmError and Problem before the upgrade."""
        services = self._services
        route, targets = services.targets(self._model(asked), asked, "openai", "OpenAI's Realtime API")

        async def dial(target: ModelTarget) -> ProviderSocket:
            return await self._dialled(asked, target)

        opened = await services.opened(asked, route, targets, ENGINE, record, dial)
        try:
            socket, client = await services.accepted(request, "realtime")
            provider = services.side(opened.socket)
            session = RealtimeSession(
                client, provider, opened.toolbox, opened.tier, record, services.metrics,
                provider_mcp=services.settings.provider_mcp,
            )  # fmt: skip
            await services.run(client, provider, session, ENGINE, record)
        finally:
            await opened.socket.close()
        return socket

    def _model(self, asked: SessionRequest) -> str:
        """Name of the model that a request is for."""
        wanted = asked.query.get("model", "")
        speaking = [name for name, each in self._services.providers().by_name.items() if each.kind == "openai"]
        if not wanted and "call_id" in asked.query and speaking:
            return f"{speaking[0]}/call"  # a call has a model already
        return wanted

    async def _dialled(self, asked: SessionRequest, target: ModelTarget) -> ProviderSocket:
        services = self._services
        query = {name: value for name, value in asked.query.items() if name != "model"}
        if "call_id" not in query:
            query = {"model": target.model, **query}
        headers = {name: asked.headers[name] for name in PASSED_ON if name in asked.headers}
        provider, path = services.providers().by_name[target.provider], f"/realtime?{urlencode(query)}"
        return await services.client.connect(
            provider, path, headers, asked.provider_key, max_message=MAX_MESSAGE, ping=PROVIDER_PING_SECONDS
        )
