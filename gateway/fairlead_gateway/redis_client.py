"""Connects to the installation's Redis.

Imported only where one is set: the client takes a tenth of a second to load.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

UNREACHABLE: Final = (RedisError, OSError, TimeoutError, ValueError)
"""Exceptions of a request to a Redis that is away, or answers something else."""


class BadUrl(ValueError):
    """The URL of the Redis cannot be used. The message does not repeat it: it may hold a password."""


def connect(url: str, *, timeout: float, connections: int = 1) -> Redis:
    """A client whose every request ends within `timeout` seconds, by its answer or an error; requests beyond
    `connections` wait for a connection as long. Raises BadUrl.
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
        raise BadUrl("it should look like redis://:password@host:6379/0, or rediss:// for TLS") from error


def host_of(url: str) -> str:
    """Host of a URL, for logs."""
    return urlsplit(url).hostname or "its socket"
