"""Settings of the Redis server that replicas share."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, field

from fairlead_api.environment import EnvironmentSettings, prefixed
from fairlead_api.setting_types import RedisUrl


class RedisSettings(EnvironmentSettings, frozen=True, kw_only=True, rename=prefixed("redis_")):
    """Redis server that replicas share."""

    url: RedisUrl = field(default="", name="redis")
    """`redis://…` or `rediss://…` (TLS). Replicas share rates of agents, policies, tools and servers, and tokens per
    day, through it. If unset, each replica counts for itself.
    """
    settle_seconds: Annotated[float, Meta(ge=0.01, le=60)] = 0.1
    """Seconds between two exchanges of the replicas' counts over Redis."""
    timeout: Annotated[float, Meta(gt=0, le=60)] = 0.5
    """Timeout of a request to Redis, in seconds. Calls never wait for Redis."""
    down: Literal["open", "closed"] = "open"
    """Behavior while Redis cannot be reached. `open`: each replica applies the limits to its own calls. `closed`: calls
    with a shared limit are refused.
    """
    prefix: str = "fairlead"
    """Prefix of keys in Redis; each installation needs its own."""
