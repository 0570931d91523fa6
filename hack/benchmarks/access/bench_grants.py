"""Memory of a stored grant: in a gateway that watches a folder of them, and in Redis.

Each person has one grant, with a refresh token and scopes as those of an ordinary provider.
"""

from __future__ import annotations

import asyncio
import gc
import shutil
import tempfile
import tracemalloc
from contextlib import aclosing
from pathlib import Path
from typing import Final

import msgspec

from fairlead_gateway.core.redis_settings import RedisSettings
from fairlead_gateway.grants.folder_store import SUFFIX, FolderGrantStore
from fairlead_gateway.grants.machine_keys import MachineKeys
from fairlead_gateway.grants.redis_store import RedisGrantStore
from fairlead_gateway.grants.sealing_keys import new_sealing_key
from fairlead_mcp.oauth.stored_grant import GrantKey, GrantStore, StoredGrant
from redisserver import redis_server
from rig.harness import Report, Settings, Unmeasurable

GRANT: Final = StoredGrant(
    issuer="https://login.example.com/realms/everybody",
    client_id="https://gateway.example.com/sign-in/client/default/linear",
    refresh_token="r" * 256,
    scopes=("openid", "offline_access", "issues.read", "issues.write"),
    resource="https://mcp.example.com/mcp",
    granted_at=1_700_000_000.0,
    renewed_at=1_700_000_000.0,
    server_address="https://mcp.example.com/mcp",
    holder="https://idp.example.com 00000000-0000-0000-0000-000000000000",
)
_AT_ONCE: Final = 50


def _keys(count: int) -> list[GrantKey]:
    return [GrantKey(b"jwt:https://idp.example.com#%032d" % number, "default/linear") for number in range(count)]


async def _fill(store: GrantStore, count: int) -> None:
    keys = _keys(count)
    for start in range(0, count, _AT_ONCE):
        await asyncio.gather(*(store.write(key, GRANT) for key in keys[start : start + _AT_ONCE]))


async def _of_folder(folder: Path, count: int) -> tuple[float, float]:
    """Bytes of a grant on the disk, and in the memory of a gateway that watches the folder."""
    await _fill(FolderGrantStore(folder, MachineKeys(folder, lambda: None)), count)
    disk = await asyncio.to_thread(_disk, folder, count)
    gc.collect()
    tracemalloc.start()
    async with aclosing(FolderGrantStore(folder, MachineKeys(folder, lambda: None))) as gateway:
        gateway.changes()  # remembers each file
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return disk, held / count


def _disk(folder: Path, count: int) -> float:
    """Bytes of a file."""
    files = list(folder.glob(f"*{SUFFIX}"))
    if len(files) != count:
        raise Unmeasurable(f"the folder has {len(files)} of {count} grants")
    return sum(512 * file.stat().st_blocks for file in files) / count


async def _of_redis(folder: Path, count: int) -> float:
    """Bytes of a grant in the memory of Redis, with its place in the set of persons and without the changes."""
    async with (
        redis_server(folder) as redis,
        aclosing(RedisGrantStore(RedisSettings(url=redis.url), (new_sealing_key("k"),))) as store,
    ):
        client = store._redis  # noqa: SLF001  # which has the password
        await _fill(store, 1)
        before = (await client.info("memory"))["used_memory"]
        await _fill(store, count)
        changes = await client.memory_usage(store._shared[1]) or 0  # noqa: SLF001  # of a fixed length
        return float((await client.info("memory"))["used_memory"] - before - changes) / count


async def _measured(folder: Path, count: int) -> Report:
    disk, held = await _of_folder(folder / "grants", count)
    report = Report("grants")
    record = len(msgspec.json.encode(GRANT))
    report.rows.append({"store": "folder", "JSON, bytes": record, "stored, bytes": disk, "in a gateway, bytes": held})
    if shutil.which("redis-server") is None:
        raise Unmeasurable("redis-server is not installed (Debian: apt-get install redis-server)")
    stored = await _of_redis(folder, count)
    report.rows.append({"store": "Redis", "JSON, bytes": record, "stored, bytes": stored, "in a gateway, bytes": 0.0})
    return report


def run(settings: Settings) -> Report:
    """Measure; raises Unmeasurable without Redis."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_measured(Path(folder), 500 if settings.quick else 5_000))
