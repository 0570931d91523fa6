"""Makes the endpoints in front of providers. What is not configured is not imported: the HTTP client alone takes a
third of a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairlead_gateway.calls.context_recorder import ContextRecorder
from fairlead_gateway.configured_models import ConfiguredModels
from fairlead_gateway.core.llm_counts import LlmCounts
from fairlead_gateway.governance import Governance
from fairlead_gateway.metrics.models import ModelCollector
from fairlead_gateway.settings import Settings
from fairlead_rest.context import RestContext

if TYPE_CHECKING:
    from fairlead_llm.routes import LlmEndpoints
    from fairlead_speech.front import SpeechFront
    from fairlead_speech.metrics import SpeechMetrics


def llm_endpoints(
    settings: Settings,
    models: ConfiguredModels,
    rest: RestContext,
    recorder: ContextRecorder,
    governance: Governance,
    collector: ModelCollector,
    counts: LlmCounts,
    speech: SpeechFront | None,
) -> LlmEndpoints | None:
    """None where there are no providers, and there will be none."""
    if models.changes is None and not models.current.providers:
        return None
    from fairlead_llm.loop import LoopLimits
    from fairlead_llm.routes import LlmEndpoints
    from fairlead_models.request_record import RequestRecords

    limits = LoopLimits(settings.llm_rounds, settings.llm_seconds, settings.llm_tokens, settings.llm_request_bytes)
    records = RequestRecords(
        collector.metrics, governance.auditor, governance.tokens, lambda: models.current.prices, spans=governance.spans
    )
    more = () if speech is None else speech.routes
    return LlmEndpoints(
        rest, lambda: models.current.providers, recorder, limits, collector.breakers, records, counts, more
    )


def speech_front(
    settings: Settings,
    models: ConfiguredModels,
    rest: RestContext,
    governance: Governance,
    collector: ModelCollector,
    metrics: SpeechMetrics,
) -> SpeechFront | None:
    """None where there are no providers, and there will be none."""
    if models.changes is None and not models.current.providers:
        return None
    from fairlead_llm.model_streams import ModelStreams
    from fairlead_models.request_record import RequestRecords
    from fairlead_models.upstream import ProviderClient
    from fairlead_speech.front import SpeechFront
    from fairlead_speech.services import SpeechSettings

    records = RequestRecords(
        collector.metrics, governance.auditor, governance.tokens, lambda: models.current.prices, spans=governance.spans
    )
    allowed = SpeechSettings(
        settings.speech_sessions,
        settings.speech_sessions_each,
        settings.speech_provider_mcp,
        settings.speech_client_secrets,
        settings.session_key.encode(),
    )
    client = ProviderClient()
    chat = ModelStreams(lambda: models.current.providers, client, collector.breakers)
    return SpeechFront(
        rest, lambda: models.current.providers, allowed, collector.breakers, records, metrics, client, chat
    )
