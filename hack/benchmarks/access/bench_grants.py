"""Stored grants: memory in a folder, in Secrets, in Redis and in a gateway that watches the store; time to decrypt one.

The Secrets are in a real API server. Each person has one grant, with a refresh token and scopes as those of an ordinary
provider.
"""

from __future__ import annotations

import asyncio
import base64
import gc
import shutil
import tempfile
import time
import tracemalloc
from contextlib import aclosing
from pathlib import Path
from typing import Final

import msgspec

from controlplane import ControlPlane, NoControlPlane, find_assets
from fairlead_gateway.core.redis_settings import RedisSettings
from fairlead_gateway.grants.folder_store import SUFFIX, FolderGrantStore
from fairlead_gateway.grants.machine_keys import MachineKeys
from fairlead_gateway.grants.redis_store import RedisGrantStore
from fairlead_gateway.grants.sealing_keys import new_sealing_key
from fairlead_gateway.grants.secret_store import SLOTS, SecretGrantStore
from fairlead_kube.client import Kube
from fairlead_kube.connection import load_configuration
from fairlead_kube.resources import SECRETS
from fairlead_mcp.oauth.stored_grant import GrantKey, GrantStore, StoredGrant
from redisserver import redis_server
from rig.harness import Cell, Report, Settings, Unmeasurable
from waiting import eventually

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


async def _opening(store: GrantStore, count: int) -> float:
    """Microseconds for reading and decrypting one grant, on average over all grants."""
    await store.all_grants(())  # creates the keys
    began = time.perf_counter()
    opened = len(await store.all_grants())
    took = time.perf_counter() - began
    if opened != count:
        raise Unmeasurable(f"{opened} of {count} grants could be opened")
    return 1e6 * took / count


async def _of_folder(folder: Path, count: int) -> dict[str, Cell]:
    """Size of a grant in bytes: on disk, and in the memory of a gateway that watches the folder."""
    await _fill(FolderGrantStore(folder, MachineKeys(folder, lambda: None)), count)
    disk = await asyncio.to_thread(_disk, folder, count)
    gc.collect()
    tracemalloc.start()
    async with aclosing(FolderGrantStore(folder, MachineKeys(folder, lambda: None))) as gateway:
        gateway.changes()  # remembers each file
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        opening = await _opening(gateway, count)
    return _row("folder", count, stored=disk, held=held / count, opening=opening)


def _disk(folder: Path, count: int) -> float:
    """Size of a file on disk in bytes."""
    files = list(folder.glob(f"*{SUFFIX}"))
    if len(files) != count:
        raise Unmeasurable(f"the folder has {len(files)} of {count} grants")
    return sum(512 * file.stat().st_blocks for file in files) / count


async def _of_secrets(plane: ControlPlane, count: int) -> dict[str, Cell]:
    """Size of a grant in bytes: in its Secret, and in the memory of a gateway that watches the Secrets."""
    namespace, key = plane.create_namespace("grants"), new_sealing_key("k")
    for slot in range(SLOTS):
        plane.request("POST", f"/api/v1/namespaces/{namespace}/secrets", {"metadata": {"name": f"grants-{slot}"}})
    async with aclosing(Kube.connect(await load_configuration(plane.kubeconfig))) as kube:
        async with aclosing(SecretGrantStore(kube, namespace, "grants", [key])) as filling:
            await _fill(filling, count)
        secrets = [await kube.get(SECRETS, namespace, f"grants-{slot}") for slot in range(SLOTS)]
        values = [value for secret in secrets for value in (secret.get("data") or {}).values()]
        stored = sum(len(base64.b64decode(value)) for value in values)
        gc.collect()
        tracemalloc.start()
        async with aclosing(SecretGrantStore(kube, namespace, "grants", [key])) as gateway:
            gateway.changes()
            await eventually(lambda: gateway.watches)
            gc.collect()
            held, _ = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            opening = await _opening(gateway, count)
    return _row("Secrets", count, stored=stored / count, held=held / count, opening=opening)


async def _of_redis(folder: Path, count: int) -> dict[str, Cell]:
    """Bytes of Redis's memory per grant, including its entry in the set of users and excluding the list of
    changes.
    """
    async with (
        redis_server(folder) as redis,
        aclosing(RedisGrantStore(RedisSettings(url=redis.url), (new_sealing_key("k"),))) as store,
    ):
        client = store._redis  # noqa: SLF001  # which has the password
        await _fill(store, 1)
        before = (await client.info("memory"))["used_memory"]
        await _fill(store, count)
        changes = await client.memory_usage(store._shared_keys[1]) or 0  # noqa: SLF001  # of a fixed length
        stored = float((await client.info("memory"))["used_memory"] - before - changes) / count
        return _row("Redis", count, stored=stored, held=0.0, opening=await _opening(store, count))


def _row(store: str, count: int, *, stored: float, held: float, opening: float) -> dict[str, Cell]:
    return {
        "store": store,
        "grants": count,
        "JSON, bytes": len(msgspec.json.encode(GRANT)),
        "stored, bytes": stored,
        "in a gateway, bytes": held,
        "opened, µs": opening,
    }


async def _measured(folder: Path, count: int, in_secrets: int) -> Report:
    report = Report("grants")
    report.rows.append(await _of_folder(folder / "grants", count))
    try:
        with ControlPlane(folder / "plane", find_assets()) as plane:
            report.rows.append(await _of_secrets(plane, in_secrets))
    except NoControlPlane as error:
        raise Unmeasurable(str(error)) from error
    if shutil.which("redis-server") is None:
        raise Unmeasurable("redis-server is not installed (Debian: apt-get install redis-server)")
    report.rows.append(await _of_redis(folder, count))
    return report


def run(settings: Settings) -> Report:
    """Measure. Raises Unmeasurable without Redis or a control plane."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_measured(Path(folder), *((500, 100) if settings.quick else (5_000, 1_000))))
