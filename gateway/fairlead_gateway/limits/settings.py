"""Settings of what agents may take up."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from fairlead_api.environment import EnvironmentSettings, prefixed
from fairlead_gateway.core.redis_settings import RedisSettings


class LimitSettings(EnvironmentSettings, frozen=True, kw_only=True, rename=prefixed("agent_")):
    """Limits of each agent."""

    calls_per_minute: Annotated[int, Meta(ge=1)] | None = None
    """Calls of tools that each agent may make in a minute; those of a whole minute may come at once. Any by default."""
    concurrency: Annotated[int, Meta(ge=1)] | None = None
    """Calls of tools that each agent may have running at once, at one replica."""
    tokens_per_day: Annotated[int, Meta(ge=1)] | None = None
    """Tokens that models may read and write for each agent in a UTC day, over the endpoints in front of models. Any by
    default.
    """
    redis: RedisSettings = RedisSettings()
