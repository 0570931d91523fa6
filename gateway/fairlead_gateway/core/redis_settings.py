"""Settings of the Redis that replicas share."""

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
