"""Endpoint for client secrets: short-lived keys with which a browser or phone connects to OpenAI Realtime directly
(WebRTC).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from fairlead_formats.wire.errors import LlmError
from fairlead_models.credentials import PROVIDER_KEY
from fairlead_models.errors import llm_error
from fairlead_models.provider_requests import ProviderClient, ProviderRequest, ProviderUnavailable
from fairlead_models.providers import ProviderKeyRefused, Providers, UnknownModel
from fairlead_offers.documents import decode, encode
from fairlead_offers.problems import Problem
from fairlead_speech.realtime.events import member, misspelt_member
from fairlead_speech.realtime.tools import has_provider_mcp
from fairlead_web.bodies import JSON, read_pieces

CLIENT_SECRETS: Final = "/v1/realtime/client_secrets"
"""Path of the endpoint, as in OpenAI's API."""
MAX_BODY: Final = 1 << 20
"""Maximum size of a request body in bytes."""
_OFF_MESSAGE: Final = (
    "client secrets are turned off, because a client that has one bypasses this gateway's policies, limits and audit "
    "log. FAIRLEAD_SPEECH_CLIENT_SECRETS (gateway.settings.speechClientSecrets) turns them on"
)


class ClientSecrets:
    """Forwards requests for client secrets to the provider of the requested model."""

    def __init__(
        self, providers: Callable[[], Providers], client: ProviderClient, *, allowed: bool, provider_mcp: bool
    ) -> None:
        """`allowed`: whether the endpoint is enabled. `provider_mcp`: whether the requested sessions may have MCP
        servers, which the provider would call itself, bypassing the gateway.
        """
        self._providers = providers
        self._client = client
        self._allowed = allowed
        self._provider_mcp = provider_mcp

    async def answer(self, request: Request) -> Response:
        """Forward a request, and return the provider's answer. Raises LlmError."""
        if not self._allowed:
            raise LlmError(403, _OFF_MESSAGE, "client_secrets_off")
        try:
            body = decode(b"".join(await read_pieces(request, MAX_BODY)), dict[str, Any])
        except Problem as problem:
            raise llm_error(problem) from problem
        if (misspelling := misspelt_member(body)) is not None:
            raise LlmError(400, misspelling, "invalid_request")
        session = member(body, "session")
        if not self._provider_mcp and has_provider_mcp(body):
            message = (
                "tools of type mcp are refused: the provider would call them itself, bypassing this gateway's policies"
            )
            raise LlmError(400, message, "mcp_tools_refused", param="session.tools")
        providers, key = self._providers(), str(request.scope.get(PROVIDER_KEY, ""))
        try:
            _, targets = providers.targets(str(session.get("model", "")), keyed=bool(key))
        except UnknownModel as error:
            raise LlmError(404, str(error), "model_not_found", param="session.model") from error
        except ProviderKeyRefused as error:
            raise LlmError(error.status, str(error), "provider_key") from error
        target = next((entry for entry in targets if providers.by_name[entry.provider].kind == "openai"), None)
        if target is None:
            model = str(session.get("model", ""))[:64]
            raise LlmError(404, f"no provider of the model {model!r} has OpenAI's Realtime API", "model_not_found")
        forwarded_body = encode({**body, "session": {**session, "model": target.model}})
        try:
            answer = await self._client.send(
                providers.by_name[target.provider], ProviderRequest("/realtime/client_secrets", forwarded_body), key
            )
            content = await answer.read_whole()
        except ProviderUnavailable as error:
            raise LlmError(502, f"the provider {target.provider}: {error}", "provider_unavailable") from error
        if answer.status in (401, 403):
            raise LlmError(answer.status, f"the provider {target.provider} refused the API key", "provider_refused")
        return Response(content, answer.status, None, JSON)
