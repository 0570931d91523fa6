"""Settings of what agents may take up, and of the Redis that replicas share it over."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, field

from fairlead_api.environment import EnvironmentSettings, prefixed
from fairlead_api.setting_types import RedisUrl


class RedisSettings(EnvironmentSettings, frozen=True, kw_only=True, rename=prefixed("redis_")):
    """Redis, which replicas share."""

    url: RedisUrl = field(default="", name="redis")
    """`redis://…` or `rediss://…` (TLS): replicas share the rates of agents, policies, tools and servers, and tokens of
    a day. Without it each has its own.
    """
    settle_seconds: Annotated[float, Meta(ge=0.01, le=60)] = 0.1
    """How often replicas tell each other, over Redis, what they let through."""
    timeout: Annotated[float, Meta(gt=0, le=60)] = 0.5
    """Seconds that Redis may take to answer. No call waits for it."""
    down: Literal["open", "closed"] = "open"
    """While Redis is away: `open`, each replica goes by its own limits; `closed`, calls with a shared limit are
    refused.
    """
    prefix: str = "fairlead"
    """Prefix of keys in Redis: one for each installation."""


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
