"""Keys that users create for themselves in a cluster: one Secret, to which several replicas write."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

import pytest

from controlplane import ControlPlane
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.identity.key_format import encode_keys, new_key
from fairlead_gateway.identity.keys_in_secret import SecretKeyStore
from fairlead_gateway.identity.made_keys import KeysUnwritable, MadeKeys
from fairlead_kube.client import Kube
from fairlead_kube.connection import load_configuration
from gatewayworld import ask, modern
from restworld import get, post
from togetherworld import gateway_on
from waiting import until_async

MADE = "fairlead-made-keys"
ANN = Identity(kind="apiKey", principal="key:ann", agent="ann", credential="0" * 12)


async def secret(plane: ControlPlane, namespace: str, name: str, **content: Any) -> None:
    body = {"metadata": {"name": name, "labels": {"fairlead.dev/api-keys": "true"}}, **content}
    await asyncio.to_thread(plane.request, "POST", f"/api/v1/namespaces/{namespace}/secrets", body)


async def test_a_key_that_one_replica_made_is_taken_and_revoked_by_another(
    control_plane: ControlPlane, namespace: str
) -> None:

    key, record = new_key("ann", ["staff"], now=datetime.now(UTC))
    await secret(control_plane, namespace, "keys", stringData={"keys.json": encode_keys([record]).decode()})
    await secret(control_plane, namespace, MADE)
    settings: dict[str, Any] = {
        "api_key_secrets": ("keys",),
        "key_makers": ("staff",),
        "made_keys_secret": MADE,
        "anonymous": "deny",
    }
    ann = {"authorization": f"Bearer {key}"}
    async with (
        gateway_on(control_plane, namespace, **settings) as first,
        gateway_on(control_plane, namespace, **settings) as other,
    ):

        async def first_taken() -> bool:
            return (await get(first, "/v1/keys", **ann)).status == 200

        await until_async("the first key", first_taken)
        made = json.loads((await post(first, "/v1/keys", {"name": "editor"}, **ann)).body)
        theirs = modern("tools/list").with_headers(authorization=f"Bearer {made['key']}")

        async def is_taken() -> bool:
            return (await ask(other, theirs)).status == 200

        async def is_refused() -> bool:
            return (await ask(first, theirs)).status == 401

        await until_async("the made key", is_taken)
        listed = json.loads((await get(other, "/v1/keys", **ann)).body)
        assert other.rest.administration.keys is not None
        await other.rest.administration.keys.revoke(ANN, made["facts"]["id"], of_anyone=False)
        await until_async("the end", is_refused)

    assert [entry["name"] for entry in listed["keys"]] == ["editor"]


async def test_replicas_that_write_at_once_lose_no_key(control_plane: ControlPlane, namespace: str) -> None:
    await secret(control_plane, namespace, MADE)
    async with aclosing(Kube.connect(await load_configuration(control_plane.kubeconfig))) as kube:
        replicas = [
            MadeKeys(SecretKeyStore(kube, namespace, MADE), (), everybody=True, days=90, each=10) for _ in range(3)
        ]
        await asyncio.gather(*(keys.make(ANN, f"key {number}", 1) for number, keys in enumerate(replicas)))

        assert {key.maker.name for key in await replicas[0].all() if key.maker} == {"key 0", "key 1", "key 2"}


async def test_a_secret_that_is_missing_says_so(control_plane: ControlPlane, namespace: str) -> None:
    async with aclosing(Kube.connect(await load_configuration(control_plane.kubeconfig))) as kube:
        keys = MadeKeys(SecretKeyStore(kube, namespace, MADE), (), everybody=True, days=90, each=10)
        with pytest.raises(KeysUnwritable, match=MADE):
            await keys.make(ANN, "key", 1)
