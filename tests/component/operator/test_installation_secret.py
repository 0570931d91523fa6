"""The Secret of the installation, which the operator creates and restores, on a real API server."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from typing import Any

import pytest

from fairlead_kube.client import Kube
from fairlead_kube.connection import load_configuration
from fairlead_operator.kube.installationsecret import KEYS, InstallationSecret
from operatorworld import Json, World, running


@pytest.fixture
async def kube(world: World) -> AsyncIterator[Kube]:
    client = Kube.connect(await load_configuration(str(world.plane.kubeconfig)))
    yield client
    await client.aclose()


def read_secret(world: World) -> Json | None:
    return world.get(f"/api/v1/namespaces/{world.release}/secrets/keys")


def put(world: World, **body: Any) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", **body}
    status, answer = world.request("POST", f"/api/v1/namespaces/{world.release}/secrets", secret)
    assert status == 201, answer


async def test_replicas_that_start_at_once_agree_on_one_token(world: World, kube: Kube) -> None:
    replicas = [InstallationSecret(kube, world.release, "keys") for _ in range(8)]
    tokens = set(await asyncio.gather(*(replica.ensure() for replica in replicas)))
    secret = read_secret(world)
    assert secret is not None
    values = {key: base64.b64decode(value).decode() for key, value in secret["data"].items()}
    assert tokens == {values["pullToken"]}
    assert values.keys() == set(KEYS)
    assert len(set(values.values())) == 3
    assert min(map(len, values.values())) >= 48


async def test_values_of_the_installation_secret_stay_and_missing_ones_are_added(world: World, kube: Kube) -> None:
    put(world, metadata={"name": "keys"}, stringData={"pullToken": "given"})
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "name": "operator", "uid": "1"}
    assert await InstallationSecret(kube, world.release, "keys", [account]).ensure() == "given"
    secret = read_secret(world)
    assert secret is not None
    assert secret["data"].keys() == set(KEYS)
    assert "ownerReferences" not in secret["metadata"]


async def test_deleted_while_an_operator_leads_it_comes_back_with_the_same_values(world: World) -> None:
    async with running(world, installation_secret="keys"):
        await world.until("made", lambda: read_secret(world))
        before = read_secret(world)
        world.request("DELETE", f"/api/v1/namespaces/{world.release}/secrets/keys")
        await world.until("made again", lambda: read_secret(world))
    after = read_secret(world)
    assert before is not None
    assert after is not None
    assert after["data"] == before["data"]
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
