"""Grants in Secrets of a real API server, which replicas share."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from controlplane import ControlPlane
from fairlead_gateway.grants.sealed_grant import encode_record, new_version, record_name
from fairlead_gateway.grants.sealing import GrantSealer
from fairlead_gateway.grants.sealing_keys import new_sealing_key
from fairlead_gateway.grants.secret_room import ALL_RECORDS_BYTES, MAX_BYTES
from fairlead_gateway.grants.secret_store import SLOTS, SecretGrantStore
from fairlead_gateway.identity.key_format import encode_keys, new_key
from fairlead_kube.client import Kube
from fairlead_kube.connection import load_configuration
from fairlead_kube.resources import SECRETS
from fairlead_mcp.oauth.stored_grant import GrantKey, GrantStoreError, StoredGrant, UnreadableGrant
from gatewayprocess import started
from gatewayworld import Ask, ask
from restworld import get, problem
from waiting import eventually

NAME = "fairlead-grants"
KEY = GrantKey(b"jwt:https://idp#ada", "default/linear")
OTHER = GrantKey(b"jwt:https://idp#ada", "default/sentry")
SOMEBODY = GrantKey(b"jwt:https://idp#ben", "default/linear")
GRANT = StoredGrant(issuer="https://as", client_id="c", refresh_token="r1-secret", holder="ada")
SEALING_KEY = new_sealing_key("k")


@asynccontextmanager
async def cluster(plane: ControlPlane, namespace: str) -> AsyncIterator[Kube]:
    """API server with the empty Secrets of the chart."""
    for slot in range(SLOTS):
        body = {"metadata": {"name": f"{NAME}-{slot}"}}
        await asyncio.to_thread(plane.request, "POST", f"/api/v1/namespaces/{namespace}/secrets", body)
    async with aclosing(Kube.connect(await load_configuration(plane.kubeconfig))) as kube:
        yield kube


@asynccontextmanager
async def store_in(kube: Kube, namespace: str) -> AsyncIterator[SecretGrantStore]:
    store = SecretGrantStore(kube, namespace, NAME, [SEALING_KEY])
    try:
        yield store
    finally:
        await store.aclose()


def another(number: int) -> GrantKey:
    """Key of a numbered grant. The first 50 belong to ada, the others to many other users."""
    return GrantKey(b"jwt:https://idp#%04d" % (number // 50) if number >= 50 else KEY.person, f"default/other-{number}")


async def fill(kube: Kube, namespace: str, secret: str, numbers: range, token: str) -> int:
    """Store grants of numbered servers in a Secret, 50 of each user. Returns their size in bytes."""
    sealer = GrantSealer([SEALING_KEY])
    data = {}
    for number in numbers:
        key = another(number)
        sealed = sealer.seal(key, msgspec.structs.replace(GRANT, refresh_token=token), new_version())
        data[record_name(key)] = encode_record(sealed)
    body = {"data": {name: base64.b64encode(value).decode() for name, value in data.items()}}
    await kube.merge(SECRETS, namespace, secret, body)
    return sum(map(len, data.values()))


async def test_a_grant_is_shared_by_replicas_and_sealed(control_plane: ControlPlane, namespace: str) -> None:
    async with (
        cluster(control_plane, namespace) as kube,
        store_in(kube, namespace) as store,
        store_in(kube, namespace) as replica,
    ):
        assert await replica.read(KEY) is None
        version = await store.write(KEY, GRANT)
        assert await replica.read(KEY) == (GRANT, version)
        secret = await kube.get(SECRETS, namespace, store.secret_of(KEY.person))
        (value,) = secret["data"].values()
        assert b"r1-secret" not in base64.b64decode(value)
        assert {key for key, _ in await replica.all_grants()} == {KEY}
        assert await replica.all_grants({"default/another"}) == []


async def test_a_version_is_replaced_by_one_of_many_writers_and_no_other_grant_is_lost(
    control_plane: ControlPlane, namespace: str
) -> None:
    async with (
        cluster(control_plane, namespace) as kube,
        store_in(kube, namespace) as store,
        store_in(kube, namespace) as replica,
    ):
        first = await store.write(KEY, GRANT, replaces="")
        assert first
        others = [GrantKey(KEY.person, f"default/other-{number}") for number in range(4)]
        versions = await asyncio.gather(
            *(each.write(KEY, GRANT, replaces=first) for each in (store, replica, store)),
            *(replica.write(key, GRANT) for key in others),
        )
        assert sum(version is not None for version in versions[:3]) == 1
        assert {key for key, _ in await store.of_person(KEY.person)} == {KEY, *others}
        assert not await store.delete(KEY, first)
        assert await store.delete(KEY)
        assert not await replica.delete(KEY)
        assert await store.write(KEY, GRANT, replaces=first) is None


async def test_a_burst_of_changes_at_each_of_many_replicas_is_taken_whole(
    control_plane: ControlPlane, namespace: str
) -> None:
    """All grants of a user are in one Secret, and all replicas renew them at their start."""
    async with cluster(control_plane, namespace) as kube, AsyncExitStack() as stack:
        stores = [await stack.enter_async_context(store_in(kube, namespace)) for _ in range(4)]
        keys = [GrantKey(KEY.person, f"default/server-{number}") for number in range(4 * 30)]
        writers = [(stores[number % 4], key) for number, key in enumerate(keys)]
        versions = await asyncio.gather(*(store.write(key, GRANT, replaces="") for store, key in writers))
        assert all(versions)
        assert {key for key, _ in await stores[0].all_grants()} == set(keys)
        twice = [
            store.write(key, GRANT, replaces=version) for (store, key), version in zip(writers, versions, strict=True)
        ]
        once_more = [
            store.write(key, GRANT, replaces=version) for (store, key), version in zip(writers, versions, strict=True)
        ]
        taken = await asyncio.gather(*twice, *once_more)
        assert sum(version is not None for version in taken) == len(keys), "each version is replaced once"


async def test_changes_of_another_replica_are_noticed(control_plane: ControlPlane, namespace: str) -> None:
    async with (
        cluster(control_plane, namespace) as kube,
        store_in(kube, namespace) as store,
        store_in(kube, namespace) as replica,
    ):
        changes = replica.changes()
        await eventually(lambda: replica.watches)
        await store.write(KEY, GRANT)
        assert await anext(changes) == KEY
        await store.write(SOMEBODY, GRANT)
        assert await anext(changes) == SOMEBODY
        await store.delete(KEY)
        assert await anext(changes) == KEY


async def test_a_record_of_another_person_is_refused_and_not_listed(
    control_plane: ControlPlane, namespace: str
) -> None:
    async with cluster(control_plane, namespace) as kube, store_in(kube, namespace) as store:
        await store.write(KEY, GRANT)
        secret = await kube.get(SECRETS, namespace, store.secret_of(KEY.person))
        (value,) = secret["data"].values()
        body = {"data": {record_name(SOMEBODY): value, "odd": "e30="}}
        await kube.merge(SECRETS, namespace, store.secret_of(SOMEBODY.person), body)
        with pytest.raises(UnreadableGrant, match="somebody else"):
            await store.read(SOMEBODY)
        assert {key for key, _ in await store.all_grants()} == {KEY}


async def test_a_secret_holds_300_large_grants_and_then_says_that_it_is_full(
    control_plane: ControlPlane, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with cluster(control_plane, namespace) as kube, store_in(kube, namespace) as store:
        secret = store.secret_of(KEY.person)
        token = "t" * 1_880
        assert msgspec.structs.replace(GRANT, refresh_token=token).fits
        size = sum([await fill(kube, namespace, secret, range(at, at + 100), token) for at in range(0, 300, 100)])
        room = ALL_RECORDS_BYTES
        assert 0.8 * MAX_BYTES < size < room
        with caplog.at_level(logging.WARNING):
            store.changes()
            await eventually(lambda: store.fill > 0.8)
        assert f"The Secret {secret} is " in caplog.text
        await fill(kube, namespace, secret, range(300, 300 + (room - size) // (size // 300)), token)
        with pytest.raises(GrantStoreError, match=rf"{secret} is full \(3\d\d grants\): end accounts that nobody uses"):
            await store.write(KEY, msgspec.structs.replace(GRANT, refresh_token=token))
        assert await store.write(SOMEBODY, GRANT), "another Secret has room"
        with contextlib.suppress(GrantStoreError):
            for number in range(32):
                await store.write(GrantKey(KEY.person, f"default/small-{number}"), GRANT)
        with pytest.raises(GrantStoreError, match="is full"):
            await store.write(KEY, GRANT)
        longer = msgspec.structs.replace(GRANT, refresh_token=token, holder="x" * 60, renewing_until=1_700_000_000.5)
        for number in range(10):
            assert await store.write(another(number), longer), "grants of a full Secret can be renewed"


async def test_a_person_leaves_room_for_others_in_a_secret(control_plane: ControlPlane, namespace: str) -> None:
    async with cluster(control_plane, namespace) as kube, store_in(kube, namespace) as store:
        large = msgspec.structs.replace(GRANT, refresh_token="t" * 1_880)
        keys = [GrantKey(KEY.person, f"default/server-{number}") for number in range(100)]
        written = await asyncio.gather(*(store.write(key, large) for key in keys), return_exceptions=True)
        refused = [str(each) for each in written if isinstance(each, GrantStoreError)]
        assert 70 < len(keys) - len(refused) < 100
        assert all("240 kB of this person" in each for each in refused)
        neighbours = (f"jwt:https://idp#{number}".encode() for number in range(1_000))
        neighbour = next(each for each in neighbours if store.secret_of(each) == store.secret_of(KEY.person))
        assert await store.write(GrantKey(neighbour, "default/linear"), large)
        await store.delete(keys[0])
        assert await store.write(KEY, large)


async def test_a_secret_that_is_missing_is_named(control_plane: ControlPlane, namespace: str) -> None:
    async with (
        aclosing(Kube.connect(await load_configuration(control_plane.kubeconfig))) as kube,
        store_in(kube, namespace) as store,
    ):
        for work in (store.read(KEY), store.write(KEY, GRANT), store.delete(KEY)):
            with pytest.raises(GrantStoreError, match=f"{store.secret_of(KEY.person)} cannot be read or written"):
                await work


async def test_a_gateway_on_a_cluster_lists_and_ends_accounts_in_secrets(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    key, record = new_key("ada", [], now=datetime.now(UTC))
    (tmp_path / "keys.json").write_bytes(encode_keys([record]))
    account = GrantKey(b"key:ada", "default/linear")
    async with cluster(control_plane, namespace) as kube, store_in(kube, namespace) as store:
        await store.write(account, GRANT)
        async with started(
            KUBECONFIG=str(control_plane.kubeconfig),
            FAIRLEAD_NAMESPACE=namespace,
            FAIRLEAD_API_KEYS=str(tmp_path / "keys.json"),
            FAIRLEAD_GRANTS="secrets",
            FAIRLEAD_GRANTS_SECRET=NAME,
            FAIRLEAD_GRANT_KEYS=SEALING_KEY.text,
        ) as gateway:
            match = await gateway.line(r"MCP on http://127\.0\.0\.1:(\d+)/mcp, metrics on port (\d+)")
            gateway.port = int(match[1])
            ada = {"authorization": f"Bearer {key}"}
            listed = await get(gateway, "/v1/accounts", **ada)
            target = "/v1/accounts/default/linear"
            ended = await ask(gateway, Ask(verb="DELETE", target=target, body=b"", headers=ada))
            again = await ask(gateway, Ask(verb="DELETE", target=target, body=b"", headers=ada))
        assert [each["server"] for each in listed.message["accounts"]] == ["default/linear"]
        assert ended.status == 200
        assert problem(again) == (404, "UNKNOWN_ACCOUNT")
        assert await store.read(account) is None
