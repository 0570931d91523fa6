"""The endpoints as routes beside the REST API, and refusals in their own form where nobody got as far as a route.

Imported only where the installation has providers: the HTTP client takes a third of a second to load.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from fastapi import APIRouter, Request, Response
from starlette.routing import BaseRoute

from fairlead_gateway.calls.context_recorder import ContextRecorder
from fairlead_gateway.core.llm_counts import LlmCounts
from fairlead_llm.chat.format import CHAT
from fairlead_llm.llm_endpoint import LlmEndpoint, ModelServices, refuser
from fairlead_llm.loop import LoopLimits
from fairlead_llm.preparation import RequestPreparation
from fairlead_llm.providers import Providers
from fairlead_llm.turns import OpenTurns
from fairlead_llm.upstream import ProviderClient
from fairlead_rest.context import RestContext
from fairlead_rest.problems import Problem

CHAT_COMPLETIONS: Final = "/v1/chat/completions"


class LlmEndpoints:
    """All endpoints in front of models. One per gateway; `aclose` it."""

    def __init__(
        self,
        context: RestContext,
        providers: Providers,
        recorder: ContextRecorder,
        counts: LlmCounts,
        rounds: float,
        seconds: float,
    ) -> None:
        """`rounds` and `seconds` bound one request."""
        turns, self._client = OpenTurns(recorder), ProviderClient()
        preparation = RequestPreparation(context, providers, turns)
        limits = LoopLimits(int(rounds), seconds)
        services = ModelServices(context, providers, preparation, turns, self._client, limits, counts)
        chat = LlmEndpoint(services, CHAT)
        router = APIRouter(include_in_schema=False)

        @router.post(CHAT_COMPLETIONS)
        async def chat_completions(request: Request) -> Response:
            return await chat.answer(request)

        self.routes: list[BaseRoute] = [*router.routes]
        self.refusals: Mapping[str, Callable[[Problem], Response]] = {CHAT_COMPLETIONS: refuser(CHAT)}
        """By path: the form of refusals that come before a route is found, such as an unknown key."""

    async def aclose(self) -> None:
        """Close connections to providers."""
        await self._client.aclose()
