"""Streams on which servers announce changed lists."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from fairlead_api.meta import ServerKey
from fairlead_operator.discovery.list_change_streams import ListChangeStreams, ListenTarget
from fairlead_operator.ports import Connector
from fairlead_operator.workqueue import ItemBackoff

KEY = ServerKey("team", "loud")


class _Loud:
    """Connector to a server that sends the given announcements and is then silent."""

    def __init__(self, methods: list[str]) -> None:
        self._methods = methods
        self.heard = asyncio.Event()

    @asynccontextmanager
    async def session(self, key: ServerKey, endpoint: Any, credential: Any, heard: Any) -> AsyncIterator[_Loud]:
        for method in self._methods:
            heard(method)
        self.heard.set()
        yield self

    async def listen(self) -> None:
        await asyncio.Event().wait()


async def test_a_list_is_announced_by_its_name_and_no_announcement_fills_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    changed: list[str] = []
    loud = _Loud(["notifications/tools/list_changed", "notifications/a\nb/list_changed", "notifications/message"] * 50)
    listeners = ListChangeStreams(
        cast("Connector", loud), lambda key, name: changed.append(name), retry=ItemBackoff(), rng=random.Random(1)
    )
    listeners.hold(KEY, ListenTarget(cast("Any", None), "", ""), None)
    async with asyncio.timeout(30):
        await loud.heard.wait()
    await listeners.aclose()
    assert changed == ["tools", ""] * 50
    assert not caplog.records
