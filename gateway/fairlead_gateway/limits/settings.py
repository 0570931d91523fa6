"""Settings of the limits per agent."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from fairlead_api.environment import EnvironmentSettings, prefixed
from fairlead_gateway.core.redis_settings import RedisSettings


class LimitSettings(EnvironmentSettings, frozen=True, kw_only=True, rename=prefixed("agent_")):
    """Limits of each agent."""

    calls_per_minute: Annotated[int, Meta(ge=1)] | None = None
    """Maximum number of tool calls of each agent per minute; all of them may be made at once. Unlimited by default."""
    concurrency: Annotated[int, Meta(ge=1)] | None = None
    """Maximum number of tool calls of each agent at once, per replica. Unlimited by default."""
    tokens_per_day: Annotated[int, Meta(ge=1)] | None = None
    """Maximum number of tokens that models may read and write for each agent per UTC day, over the LLM endpoints.
    Unlimited by default.
    """
    redis: RedisSettings = RedisSettings()
