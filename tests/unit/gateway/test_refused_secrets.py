"""Secrets of the gateway that the API server refuses to show: the log says so once, however long it lasts."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from kubernetes.aio.client import ApiClient

from fairlead_gateway.grants.secret_store import SLOTS, SecretGrantStore
from fairlead_gateway.identity.keys_in_secret import KeySecret
from fairlead_kube.client import Kube
from fairlead_kube.errors import Forbidden
from fairlead_kube.resources import Scope
from virtualtime import in_virtual_time

pytestmark = in_virtual_time


class RefusingServer(Kube):
    """An API server that lists nothing for anybody, and counts the requests."""

    def __init__(self) -> None:
        super().__init__(cast("ApiClient", None))
        self.requests = 0

    async def list(self, scope: Scope[Any], *, cached: bool = False) -> tuple[list[Any], str]:
        self.requests += 1
        raise Forbidden(f"cannot list {scope} (403)", status=403)


async def test_grants_that_may_not_be_watched_are_told_once_for_each_secret(caplog: pytest.LogCaptureFixture) -> None:
    kube = RefusingServer()
    store = SecretGrantStore(kube, "release", "grants", [])
    changes = asyncio.ensure_future(anext(store.changes()))
    await asyncio.sleep(300)
    changes.cancel()
    await asyncio.wait([changes])
    await store.aclose()
    told = [record for record in caplog.records if "cannot be watched" in record.getMessage()]
    assert (len(told), kube.requests > 10 * SLOTS) == (SLOTS, True)


async def test_api_keys_that_may_not_be_read_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    kube = RefusingServer()
    reading = asyncio.create_task(KeySecret(kube, "release", "keys").run(lambda document: None))
    await asyncio.sleep(300)
    reading.cancel()
    await asyncio.wait([reading])
    told = [record for record in caplog.records if "the last ones stay in use" in record.getMessage()]
    assert (len(told), kube.requests > 10) == (1, True)
