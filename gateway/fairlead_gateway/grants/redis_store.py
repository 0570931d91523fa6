"""Store of grants in the installation's Redis, which has to be persistent, shared by all replicas.

A user's grants are one hash. Scripts compare and set, and append each changed key to a stream. Every replica reads the
stream from the last change that it has seen, so that no change is lost while Redis is unavailable. All keys share one
hash tag, so that a script finds them on one node of a Redis cluster.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from fairlead_gateway.core.redis_settings import RedisSettings
from fairlead_gateway.grants.lazy_sealer import LazySealer
from fairlead_gateway.grants.sealed_grant import SealedGrant, decode_record, encode_record, new_version, record_name
from fairlead_gateway.grants.sealing_keys import SealingKey
from fairlead_gateway.grants.watching_store import WatchingGrantStore
from fairlead_gateway.redis_client import UNREACHABLE, connect, host_of
from fairlead_mcp.oauth.stored_grant import GrantKey, GrantStoreError, StoredGrant, UnreadableGrant, VersionedGrant

log = logging.getLogger(__name__)

CONNECTIONS: Final = 4
PAUSE_SECONDS: Final = 1.0
"""Seconds between a failure and the next request, so that calls do not wait while Redis is unavailable."""
CHECK_SECONDS: Final = 0.4
"""Seconds between two checks for changes."""
CHANGES: Final = 10_000
"""Number of changes that Redis keeps for replicas that lost their connection."""
BATCH: Final = 200
"""Number of records or changes per response."""

WRITE: Final = """
if ARGV[4] ~= '*' then
  local before = redis.call('HGET', KEYS[1], ARGV[1])
  local version = before and string.match(before, '^%S*') or ''
  if '=' .. version ~= ARGV[4] then return 0 end
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. ' ' .. ARGV[3])
redis.call('SADD', KEYS[2], KEYS[1])
redis.call('XADD', KEYS[3], 'MAXLEN', '~', ARGV[6], '*', 'key', ARGV[5], 'written', '1')
return 1
"""
"""KEYS: hash of the user, set of these hashes, stream of changes. ARGV: name and version of the record, the record,
`=` and the version that it replaces or `*` for any, its key as JSON, length of the stream. Returns whether it was
written.
"""
DELETE: Final = """
if ARGV[4] ~= '*' then
  local before = redis.call('HGET', KEYS[1], ARGV[1])
  if not before or '=' .. string.match(before, '^%S*') ~= ARGV[4] then return 0 end
end
if redis.call('HDEL', KEYS[1], ARGV[1]) == 0 then return 0 end
if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('SREM', KEYS[2], KEYS[1]) end
redis.call('XADD', KEYS[3], 'MAXLEN', '~', ARGV[3], '*', 'key', ARGV[2])
return 1
"""
"""KEYS: the keys of WRITE. ARGV: name of the record, its key as JSON, length of the stream, `=` and the version that is
deleted or `*` for any. Returns whether it was deleted.
"""


class RedisGrantStore(WatchingGrantStore):
    """Grants in Redis, sealed with `keys`. `settings.timeout` limits each request, in seconds."""

    def __init__(
        self,
        settings: RedisSettings,
        keys: Sequence[SealingKey],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create the client; it connects at the first request. Raises BadUrl."""
        super().__init__()
        self._redis: Redis = connect(settings.url, timeout=settings.timeout, connections=CONNECTIONS)
        self._host = host_of(settings.url)
        self._timeout = settings.timeout
        self._sealer = LazySealer(keys)
        self._clock = clock
        tag = f"{{{settings.prefix}}}:grants"
        self._tag = tag
        self._shared_keys = [f"{tag}:persons", f"{tag}:changes"]
        self._write = self._redis.register_script(WRITE)
        self._delete = self._redis.register_script(DELETE)
        self._last_id = b""
        """Id of the last change that was read; empty before the first look."""
        self._retry_at = 0.0
        self._is_reachable = True

    def __repr__(self) -> str:
        return f"<RedisGrantStore at {self._host}>"

    async def read(self, key: GrantKey) -> VersionedGrant | None:
        value = await self._request(lambda: self._redis.hget(self._hash(key.person), record_name(key)))
        record = _record_in(value)
        if record is None:
            return None
        return VersionedGrant((await self._sealer.get()).open(key, record), record.version)

    async def write(self, key: GrantKey, grant: StoredGrant, replaces: str | None = None) -> str | None:
        sealed = (await self._sealer.get()).seal(key, grant, new_version())
        condition = "*" if replaces is None else f"={replaces}"
        arguments: list[str | bytes | int] = [
            record_name(key),
            sealed.version,
            encode_record(sealed),
            condition,
            _change_of(key),
            CHANGES,
        ]
        is_written = await self._request(
            lambda: self._write(keys=[self._hash(key.person), *self._shared_keys], args=arguments)
        )
        if not is_written:
            return None
        self._feed.publish(key, written=True)
        return sealed.version

    async def delete(self, key: GrantKey, version: str | None = None) -> bool:
        arguments: list[str | bytes | int] = [
            record_name(key),
            _change_of(key),
            CHANGES,
            "*" if version is None else f"={version}",
        ]
        deleted = await self._request(
            lambda: self._delete(keys=[self._hash(key.person), *self._shared_keys], args=arguments)
        )
        if deleted:
            self._feed.publish(key, written=False)
        return bool(deleted)

    async def of_person(self, person: bytes) -> Sequence[tuple[GrantKey, StoredGrant]]:
        return list({key: grant async for key, grant in self._grants(self._hash(person).encode())}.items())

    async def all_grants(self, servers: Container[str] | None = None) -> Sequence[tuple[GrantKey, StoredGrant]]:
        cursor = 0
        grants: dict[GrantKey, StoredGrant] = {}  # SSCAN and HSCAN may return an element twice
        while True:
            scan = partial(self._redis.sscan, self._shared_keys[0], cursor, count=BATCH)
            cursor, hashes = await self._request(scan)
            pages = self._redis.pipeline(transaction=False)  # one round trip for all these users
            for name in hashes:
                pages.hscan(name, 0, count=BATCH)
            for name, page in zip(hashes, await self._request(pages.execute) if hashes else (), strict=True):
                grants.update([grant async for grant in self._grants(name, servers, page)])
            if not cursor:
                return list(grants.items())

    async def aclose(self) -> None:
        await super().aclose()
        with contextlib.suppress(*UNREACHABLE):
            async with asyncio.timeout(self._timeout):
                await self._redis.aclose(close_connection_pool=True)

    # Internals

    async def _grants(
        self, name: bytes, servers: Container[str] | None = None, page: tuple[int, Mapping[bytes, bytes]] | None = None
    ) -> AsyncIterator[tuple[GrantKey, StoredGrant]]:
        """Readable grants of a hash, for all servers or for `servers`. `page` is the first response of HSCAN, if it was
        already received.
        """
        sealer = await self._sealer.get()
        cursor = 0
        while True:
            cursor, values = page or await self._request(partial(self._redis.hscan, name, cursor, count=BATCH))
            page = None
            for value in values.values():
                record = _record_in(value)
                if record is not None and (servers is None or record.key.server in servers):
                    with contextlib.suppress(UnreadableGrant):
                        yield record.key, sealer.open(record.key, record)
            if not cursor:
                return

    def _hash(self, person: bytes) -> str:
        return f"{self._tag}:of:{hashlib.blake2b(person, digest_size=16).hexdigest()}"

    def _start_watching(self) -> Sequence[Coroutine[object, object, None]]:
        return [self._watch_changes()]

    async def _watch_changes(self) -> None:
        has_warned = False
        while True:
            try:
                await self._publish_changed()
                if not has_warned:  # after the first check, from which on changes are noticed
                    has_warned = True
                    await self._warn_unless_persistent()
            except GrantStoreError:
                pass  # `_request` has warned
            except Exception:
                log.exception("Looking for changed grants failed")
            await asyncio.sleep(CHECK_SECONDS)

    async def _publish_changed(self) -> None:
        """Publish the keys that changed since the last check. They are published after each response, so that an error
        does not repeat them. Raises GrantStoreError.
        """
        stream = self._shared_keys[1]
        if not self._last_id:
            newest_entries = await self._request(lambda: self._redis.xrevrange(stream, count=1))
            self._last_id = newest_entries[0][0] if newest_entries else b"0-0"
            return
        while True:
            entries = await self._request(lambda: self._redis.xrange(stream, min=b"(" + self._last_id, count=BATCH))
            for ident, members in entries:
                with contextlib.suppress(msgspec.MsgspecError):
                    key = msgspec.json.decode(members.get(b"key", b""), type=GrantKey)
                    self._feed.publish(key, written=b"written" in members)
                self._last_id = ident
            if len(entries) < BATCH:
                return

    async def _warn_unless_persistent(self) -> None:
        """Warn if Redis would lose the grants when it restarts or runs out of memory."""
        with contextlib.suppress(GrantStoreError):
            persistence = await self._request(lambda: self._redis.info("persistence"))
            settings: dict[str, str] = await self._request(self._settings)
            if not persistence.get("aof_enabled") and settings.get("save") == "":
                log.warning(
                    "Redis at %s writes nothing to disk, so that its restart loses the grants of all users: set "
                    "appendonly yes, or save",
                    self._host,
                )
            if settings.get("maxmemory-policy", "").startswith("allkeys"):
                log.warning(
                    "Redis at %s evicts keys without an expiry (maxmemory-policy %s), and with them grants of users: "
                    "set noeviction, or volatile-lru",
                    self._host,
                    settings["maxmemory-policy"],
                )

    async def _settings(self) -> Any:
        """Settings of Redis; empty if the gateway's user may not read them, which is common with hosted Redis."""
        try:
            return await self._redis.config_get("save", "maxmemory-policy")
        except ResponseError:
            return {}

    async def _request(self, request: Callable[[], Awaitable[Any]]) -> Any:
        """Send a request to Redis and return the response. Raises GrantStoreError."""
        if self._clock() < self._retry_at:
            raise self._unavailable_error()
        try:
            async with asyncio.timeout(self._timeout):
                answer = await request()
        except ResponseError as error:
            raise GrantStoreError(
                f"the store of grants, Redis at {self._host}, refuses the request ({str(error)[:200]}): check that "
                "it is a primary, has memory left and lets the gateway write"
            ) from error
        except UNREACHABLE as error:
            self._retry_at = self._clock() + PAUSE_SECONDS
            if self._is_reachable:
                log.warning(
                    "Redis at %s does not respond (%s): grants cannot be read", self._host, type(error).__name__
                )
            self._is_reachable = False
            raise self._unavailable_error() from error
        if not self._is_reachable:
            log.warning("Redis at %s responds again: grants can be read", self._host)
        self._is_reachable = True
        return answer

    def _unavailable_error(self) -> GrantStoreError:
        return GrantStoreError(f"the store of grants, Redis at {self._host}, does not respond: try again in a moment")


def _record_in(value: bytes | None) -> SealedGrant | None:
    return None if value is None else decode_record(value.partition(b" ")[2])


def _change_of(key: GrantKey) -> bytes:
    return msgspec.json.encode(key)
