"""Sessions of clients in stores that replicas share: a folder, a real Redis, Secrets of a real API server."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path

import pytest

from controlplane import ControlPlane
from fairlead_authorization.sessions.ended_sessions import EndedSessions
from fairlead_authorization.sessions.session import SessionRefused, SessionStoreUnavailable
from fairlead_gateway.core.redis_settings import RedisSettings
from fairlead_gateway.grants.folder_store import FolderGrantStore
from fairlead_gateway.grants.machine_keys import MachineKeys
from fairlead_gateway.grants.redis_store import RedisGrantStore
from fairlead_gateway.grants.sealing_keys import new_sealing_key
from fairlead_gateway.grants.secret_store import SLOTS, SecretGrantStore
from fairlead_gateway.grants.store import ClosableGrantStore
from fairlead_kube.client import Kube
from fairlead_kube.connection import load_configuration
from redisserver import RedisServer, redis_server
from sessionworld import CLIENT, TIMES, Replica, SessionWorld, key_of
from waiting import LONGEST, eventually, until_async

Stores = Callable[[Path], AbstractAsyncContextManager[Callable[[], ClosableGrantStore]]]
SEALING_KEY = new_sealing_key("k")
KILLED = """
import asyncio, os, signal, sys
from sessionworld import SessionWorld
from fairlead_gateway.core.redis_settings import RedisSettings
from fairlead_gateway.grants.redis_store import RedisGrantStore
from fairlead_gateway.grants.sealing_keys import read_sealing_keys

async def die(who, token):
    os.kill(os.getpid(), signal.SIGKILL)

async def refresh(url, keys, token, client):
    world = SessionWorld(lambda: RedisGrantStore(RedisSettings(url=url), read_sealing_keys(keys)))
    await world.replica().sessions.refresh(token, client, die)

asyncio.run(refresh(*sys.argv[1:]))
"""
"""Program of a replica that is killed after it has claimed a session."""


@asynccontextmanager
async def folder_stores(folder: Path) -> AsyncIterator[Callable[[], ClosableGrantStore]]:
    yield lambda: FolderGrantStore(folder / "grants", MachineKeys(folder / "grants", lambda: None))


@asynccontextmanager
async def redis_stores(folder: Path) -> AsyncIterator[Callable[[], ClosableGrantStore]]:
    async with redis_server(folder) as redis:
        yield lambda: at(redis)


def at(redis: RedisServer, seconds: float = LONGEST) -> RedisGrantStore:
    return RedisGrantStore(RedisSettings(url=redis.url, timeout=seconds), [SEALING_KEY])


@asynccontextmanager
async def world_of(make: Callable[[], ClosableGrantStore]) -> AsyncIterator[SessionWorld]:
    async with AsyncExitStack() as stack:

        def open_store() -> ClosableGrantStore:
            store = make()
            stack.push_async_callback(store.aclose)
            return store

        async with SessionWorld(open_store) as world:
            yield world


async def race(world: SessionWorld, rounds: int) -> None:
    """Let two clients use the same refresh token at two replicas, for some rounds that are ten minutes apart."""
    replica, other = world.replica(), world.replica()
    mine = theirs = (await replica.sign_in()).refresh_token
    for _ in range(rounds):
        world.later(600)
        ours = await asyncio.gather(replica.refresh(mine), other.refresh(theirs))
        mine, theirs = (issued.refresh_token for issued in ours)
    assert mine == theirs
    assert world.provider.requests == rounds
    assert len(await other.sign_ins.of(key_of())) == 1


@pytest.mark.parametrize("stores", [folder_stores, redis_stores])
async def test_a_day_of_two_racing_clients_logs_nobody_out(tmp_path: Path, stores: Stores) -> None:
    async with stores(tmp_path) as make, world_of(make) as world:
        await race(world, 24 * 6)


@asynccontextmanager
async def secret_stores(plane: ControlPlane, namespace: str) -> AsyncIterator[Callable[[], ClosableGrantStore]]:
    for slot in range(SLOTS):
        body = {"metadata": {"name": f"grants-{slot}"}}
        await asyncio.to_thread(plane.request, "POST", f"/api/v1/namespaces/{namespace}/secrets", body)
    async with aclosing(Kube.connect(await load_configuration(plane.kubeconfig))) as kube:
        yield lambda: SecretGrantStore(kube, namespace, "grants", [SEALING_KEY])


async def test_sessions_are_kept_in_secrets(control_plane: ControlPlane, namespace: str) -> None:
    async with secret_stores(control_plane, namespace) as make, world_of(make) as world:
        await race(world, 6)
        await end_elsewhere(world)


async def end_elsewhere(world: SessionWorld) -> None:
    """Let one replica end another's sign-in, and check that a replica that starts later knows this."""
    replica, other = world.replica(), world.replica()
    told: list[str] = []
    watch = EndedSessions(replica.store, told.append)
    await watch.start()
    issued, left = await replica.sign_in("ben"), await replica.sign_in("cleo")
    (listed,) = await other.sign_ins.of(key_of("ben"))
    assert listed.id == issued.session.id
    assert {listed.id, left.session.id} <= {each.id for each in await other.sign_ins.of_everybody()}
    assert await other.sign_ins.end(key_of("ben"), listed.id) is not None
    await eventually(lambda: told)
    late: list[str] = []
    third = EndedSessions(world.replica().store, late.append)
    await third.start()
    assert told == late == [issued.session.id]
    with pytest.raises(SessionRefused):
        await replica.refresh(issued.refresh_token)
    assert await replica.refresh(left.refresh_token)
    await watch.aclose()
    await third.aclose()


@pytest.mark.parametrize("stores", [folder_stores, redis_stores])
async def test_a_replica_lists_and_ends_what_another_has_signed_in(tmp_path: Path, stores: Stores) -> None:
    async with stores(tmp_path) as make, world_of(make) as world:
        await end_elsewhere(world)


@pytest.mark.parametrize("stores", [folder_stores, redis_stores])
async def test_a_replay_after_the_grace_window_ends_the_family_at_every_replica(tmp_path: Path, stores: Stores) -> None:
    async with stores(tmp_path) as make, world_of(make) as world:
        replica, other = world.replica(), world.replica()
        first = await replica.sign_in()
        second = await replica.refresh(first.refresh_token)
        world.later(TIMES.grace)
        for token in (first.refresh_token, second.refresh_token):
            with pytest.raises(SessionRefused):
                await other.refresh(token)


async def test_a_code_of_one_replica_is_redeemed_once_at_another(tmp_path: Path) -> None:
    async with redis_stores(tmp_path) as make, world_of(make) as world:
        replica, other = world.replica(), world.replica()
        code = await replica.code()
        issued = await other.sessions.redeem(code, CLIENT.id)
        with pytest.raises(SessionRefused):
            await replica.sessions.redeem(code, CLIENT.id)
        with pytest.raises(SessionRefused):
            await other.refresh(issued.refresh_token)


async def test_a_replica_that_was_killed_between_claim_and_write_logs_nobody_out(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as redis, world_of(lambda: at(redis)) as world:
        replica = world.replica()
        issued = await replica.sign_in()
        support = Path(__file__).parents[2] / "support"
        arguments = (redis.url, SEALING_KEY.text, issued.refresh_token, CLIENT.id)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(support), *sys.path])}
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", KILLED, *arguments, env=environment, stderr=PIPE
        )
        _, errors = await process.communicate()
        assert process.returncode == -signal.SIGKILL, errors.decode()
        grant = await replica.stored_record(issued.session)
        assert grant is not None
        assert grant.renewing_until > 0
        assert await replica.refresh(issued.refresh_token)
        assert world.provider.requests == 1


async def test_a_redis_that_is_away_loses_nothing(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as redis, world_of(lambda: at(redis, 0.5)) as world:
        replica = world.replica()
        issued = await replica.sign_in()
        redis.freeze()
        for away in (replica.refresh(issued.refresh_token), replica.begin_session("ben")):
            with pytest.raises(SessionStoreUnavailable, match="does not respond"):
                await away
        assert await replica.tokens.issue(issued.session), "the keys were read before"
        redis.thaw()
        assert (await until_async("a refresh", lambda: _is_refreshed(replica, issued.refresh_token))) is True


async def _is_refreshed(replica: Replica, token: str) -> bool:
    try:
        return bool(await replica.refresh(token))
    except SessionStoreUnavailable:
        return False
