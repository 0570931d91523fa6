"""Services that all endpoints for model APIs share."""

from __future__ import annotations

import msgspec

from fairlead_gateway.core.llm_counts import LlmCounts
from fairlead_llm.stored_turns import TurnStore
from fairlead_llm.tier_choice import TierChanges
from fairlead_models.model_breakers import ModelBreakers
from fairlead_models.provider_requests import ProviderClient
from fairlead_models.request_record import RequestRecords
from fairlead_models.settings import LlmSettings
from fairlead_offers.services import ToolServices


class ModelServices(msgspec.Struct, frozen=True, kw_only=True):
    """Services that do not depend on the current configuration of providers. One per gateway."""

    tools: ToolServices
    turns: TurnStore
    """Store for the parts of turns that clients do not receive."""
    client: ProviderClient
    limits: LlmSettings
    """Limits of one request."""
    breakers: ModelBreakers
    records: RequestRecords
    counts: LlmCounts
    tier_changes: TierChanges
    """Changes of conversations' tiers that were counted already."""
