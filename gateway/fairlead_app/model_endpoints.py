"""Creates the endpoints in front of model providers.

The packages of these endpoints are imported only if models are configured, because the import of their HTTP client
takes a third of a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from fairlead_app.configured_models import ConfiguredModels
from fairlead_app.metrics.models import ModelCollector
from fairlead_app.metrics.speech import SpeechCollector
from fairlead_app.shared_parts import SharedParts
from fairlead_gateway.calls.results.context_recorder import ContextRecorder
from fairlead_gateway.limits.shares import Shares
from fairlead_offers.services import ToolServices
from fairlead_web.guard import RequestGuard

if TYPE_CHECKING:
    from fairlead_llm.routes import LlmEndpoints
    from fairlead_models.request_record import RequestRecords
    from fairlead_speech.front import SpeechFront


class ModelEndpoints(msgspec.Struct, frozen=True, kw_only=True):
    """Endpoints in front of models, with their metrics.

    `llm` serves language models, `speech` serves speech models; both are None if no provider is configured.
    """

    configured: ConfiguredModels
    requests: ModelCollector
    """Metrics of requests to language models."""
    sessions: SpeechCollector
    """Metrics of speech sessions."""
    llm: LlmEndpoints | None
    speech: SpeechFront | None


def model_endpoints(
    shared: SharedParts,
    models: ConfiguredModels,
    tools: ToolServices,
    guard: RequestGuard,
    recorder: ContextRecorder,
) -> ModelEndpoints:
    """Create the endpoints, if providers are configured or may be added later to the watched file of models."""
    requests, sessions = ModelCollector(), SpeechCollector()
    llm, speech = None, None
    if models.changes is not None or models.current.providers:
        speech = _speech(shared, models, tools, guard, requests, sessions)
        llm = _llm(shared, models, tools, recorder, requests, speech)
    return ModelEndpoints(configured=models, requests=requests, sessions=sessions, llm=llm, speech=speech)


def _llm(
    shared: SharedParts,
    models: ConfiguredModels,
    tools: ToolServices,
    recorder: ContextRecorder,
    requests: ModelCollector,
    speech: SpeechFront,
) -> LlmEndpoints:
    from fairlead_llm.routes import LlmEndpoints
    from fairlead_llm.services import ModelServices
    from fairlead_llm.stored_responses.store import ResponseStore
    from fairlead_llm.stored_turns import TurnStore
    from fairlead_llm.tier_choice import TierChanges
    from fairlead_models.provider_requests import ProviderClient

    settings = shared.settings.models.llm
    services = ModelServices(
        tools=tools,
        turns=TurnStore(recorder),
        client=ProviderClient(),
        limits=settings,
        breakers=requests.breakers,
        records=_records(shared, models, requests),
        counts=shared.metrics.llm,
        tier_changes=TierChanges(),
    )
    shares = Shares("model_requests", settings.requests, settings.requests_each, shared.metrics.shares)
    return LlmEndpoints(services, models.providers, ResponseStore(recorder), shares, speech.routes)


def _speech(
    shared: SharedParts,
    models: ConfiguredModels,
    tools: ToolServices,
    guard: RequestGuard,
    requests: ModelCollector,
    sessions: SpeechCollector,
) -> SpeechFront:
    from fairlead_llm.model_streams import ModelStreams
    from fairlead_models.provider_requests import ProviderClient
    from fairlead_speech.front import SpeechFront
    from fairlead_speech.services import SpeechModels, SpeechServices, SpeechSettings

    client = ProviderClient()
    settings = SpeechSettings(shared.settings.models.speech, shared.settings.installation.session_key.encode())
    speech_models = SpeechModels(
        providers=models.providers,
        breakers=requests.breakers,
        client=client,
        chat=ModelStreams(models.providers, client, requests.breakers),
    )
    services = SpeechServices(tools, speech_models, settings, sessions.metrics)
    return SpeechFront(services, guard, _records(shared, models, requests), shared.metrics.shares)


def _records(shared: SharedParts, models: ConfiguredModels, requests: ModelCollector) -> RequestRecords:
    from fairlead_models.request_record import RequestRecords

    governance = shared.governance
    return RequestRecords(
        requests.metrics, governance.auditor, governance.tokens, models.prices, spans=governance.spans
    )
