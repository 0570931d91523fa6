"""Connects to the installation's Redis.

This module is imported only if Redis is configured, because loading the client takes 100 ms.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

UNREACHABLE: Final = (RedisError, OSError, TimeoutError, ValueError)
"""Exceptions of requests to a Redis that is unreachable or responds with an error."""


class BadUrl(ValueError):
    """The URL of the Redis is invalid. The message does not quote the URL, as it may contain a password."""


def connect(url: str, *, timeout: float, connections: int = 1) -> Redis:
    """Create a client whose requests time out after `timeout` seconds. Requests beyond `connections` wait for a
    connection, with the same timeout. Raises BadUrl.
    """
    try:
        pool = BlockingConnectionPool.from_url(
            url,
            socket_timeout=timeout,
            socket_connect_timeout=timeout,
            retry=Retry(NoBackoff(), 0),
            max_connections=connections,
            timeout=timeout,
            protocol=2,
        )
        return Redis.from_pool(pool)
    except ValueError as error:
        raise BadUrl("the URL must have the form redis://:password@host:6379/0, or rediss:// for TLS") from error


def host_of(url: str) -> str:
    """Host of a URL for logs."""
    return urlsplit(url).hostname or "its socket"
