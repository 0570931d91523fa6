"""Changes of grants whose common request was made, though its response was not awaited."""

from __future__ import annotations

import asyncio
import base64
from typing import Any, cast

import pytest
from kubernetes.aio.client import ApiClient

from fairlead_gateway.grants.sealed_grant import record_name
from fairlead_gateway.grants.secret_store import API_SECONDS, SecretGrantStore
from fairlead_kube.client import Json, Kube
from fairlead_mcp.oauth.stored_grant import GrantKey, GrantStoreError
from virtualtime import in_virtual_time

pytestmark = in_virtual_time

FIRST = GrantKey(b"jwt:https://idp#ada", "default/linear")
SECOND = GrantKey(b"jwt:https://idp#ada", "default/sentry")


class SilentServer(Kube):
    """An API server with one Secret, which makes the first change and does not answer it."""

    def __init__(self, *keys: GrantKey) -> None:
        super().__init__(cast("ApiClient", None))
        self.data: dict[str, Any] = {record_name(key): base64.b64encode(b"x").decode() for key in keys}
        self.version = 1
        self.reads = 0

    async def get(self, *args: object, **options: object) -> Json:
        self.reads += 1
        await asyncio.sleep(1 if self.reads == 1 else 0)
        return {"metadata": {"resourceVersion": str(self.version)}, "data": dict(self.data)}

    async def merge(self, kind: Any, namespace: Any, name: str, patch: Json, *, manager: str = "") -> Json:
        merged = self.data | patch["data"]
        self.data = {member: value for member, value in merged.items() if value is not None}
        self.version += 1
        if self.version == 2:
            await asyncio.sleep(API_SECONDS * 10)
        return {}


async def test_a_deletion_is_reported_though_the_request_that_made_it_was_given_up_by_another_task() -> None:
    store = SecretGrantStore(SilentServer(FIRST, SECOND), "release", "grants", [])
    first = asyncio.create_task(store.delete(FIRST))
    await asyncio.sleep(0.5)
    second = asyncio.create_task(store.delete(SECOND))
    with pytest.raises(GrantStoreError, match="could not be changed within"):
        await first
    assert await second is True
    assert await store.delete(SECOND) is False
    await store.aclose()


async def test_a_deletion_of_a_grant_that_never_was_stays_unreported() -> None:
    store = SecretGrantStore(SilentServer(FIRST), "release", "grants", [])
    first = asyncio.create_task(store.delete(FIRST))
    await asyncio.sleep(0.5)
    second = asyncio.create_task(store.delete(SECOND))
    with pytest.raises(GrantStoreError):
        await first
    assert await second is False
    await store.aclose()
