"""Makes what an installation with models has beside the tools: endpoints in front of its providers, and the reader of
its model server. What is not configured is not imported: the HTTP client alone takes a third of a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairlead_gateway.calls.context_recorder import ContextRecorder
from fairlead_gateway.configuration import Models
from fairlead_gateway.governance import Governance
from fairlead_gateway.metrics.models import ModelCollector
from fairlead_gateway.settings import Settings
from fairlead_rest.context import RestContext

if TYPE_CHECKING:
    from fairlead_llm.routes import LlmEndpoints
    from fairlead_rest.live_models import Refresher


def llm_endpoints(
    settings: Settings,
    models: Models,
    rest: RestContext,
    recorder: ContextRecorder,
    governance: Governance,
    collector: ModelCollector,
) -> LlmEndpoints | None:
    """None where there are no providers."""
    if models.providers is None:
        return None
    from fairlead_llm.loop import LoopLimits
    from fairlead_llm.request_record import ModelLedger
    from fairlead_llm.routes import LlmEndpoints

    limits = LoopLimits(settings.llm_rounds, settings.llm_seconds, settings.llm_tokens)
    ledger = ModelLedger(collector.metrics, governance.auditor, governance.tokens, models.prices)
    return LlmEndpoints(rest, models.providers, recorder, limits, collector.breakers, ledger)


def refresher(models: Models) -> Refresher | None:
    """None where no model server is asked."""
    if models.live is None:
        return None
    from fairlead_rest.live_models import Refresher

    return Refresher(models.live)
