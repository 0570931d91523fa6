"""Idle connections: conclusions about a server from the end of a connection and the failure of the next one."""

from __future__ import annotations

import asyncio
import errno
import random
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

import pytest

from fairlead_api.documents.catalog import Credential, Endpoint, HttpEndpoint
from fairlead_api.meta import ServerKey
from fairlead_mcp.errors import ConnectFailed
from fairlead_mcp.session import McpSession
from fairlead_operator.discovery.loss_detection import ConnectionObserver, LossDetector
from fairlead_operator.idle_connection import IdleConnection
from fairlead_operator.ports import MethodObserver
from virtualtime import in_virtual_time
from waiting import eventually

pytestmark = in_virtual_time

KEY = ServerKey("team", "demo")
ENDPOINT = HttpEndpoint(url="http://demo.example/mcp")


@dataclass
class Dialled:
    """Connector with scripted outcomes: an error, or a connection that the test ends."""

    answers: list[ConnectFailed | IdleConnection] = field(default_factory=list)
    dials: int = 0
    more: asyncio.Event = field(default_factory=asyncio.Event)

    async def open_idle_connection(
        self, key: ServerKey, endpoint: Endpoint, previous: tuple[str, int] | None
    ) -> IdleConnection | None:
        self.dials += 1
        while not self.answers:
            self.more.clear()
            await self.more.wait()
        answer = self.answers.pop(0)
        if isinstance(answer, ConnectFailed):
            raise answer
        return answer

    def end_shared_process(self, key: ServerKey) -> None:
        pass

    async def aclose(self) -> None:
        pass

    async def offers_sign_in(self, key: ServerKey, endpoint: HttpEndpoint) -> bool:
        return False

    def session(
        self,
        key: ServerKey,
        endpoint: Endpoint,
        credential: Credential | None,
        on_notification: MethodObserver | None = None,
        *,
        capabilities: bytes | None = None,
    ) -> AbstractAsyncContextManager[McpSession]:
        raise AssertionError("a open_idle_connection asks nothing")


def connect_failure(number: int | None = None, reason: str = "Unreachable") -> ConnectFailed:
    error = ConnectFailed("it did not work", reason=reason)
    if number is not None:
        error.__cause__ = OSError(number, "")
    return error


@pytest.mark.parametrize(
    ("failure", "lost"),
    [
        (connect_failure(errno.ECONNREFUSED, "ConnectionRefused"), True),
        (connect_failure(errno.EHOSTUNREACH), True),
        (connect_failure(None, "ConnectTimeout"), True),
        (connect_failure(None, "UnknownHost"), False),
        (connect_failure(errno.EMFILE), False),
        (connect_failure(errno.ENETUNREACH), False),
    ],
    ids=["refused", "no route", "silence", "no name", "no descriptors", "no network"],
)
async def test_only_a_fault_of_the_server_is_a_lost_connection(failure: ConnectFailed, lost: bool) -> None:
    told: list[str] = []
    first = IdleConnection()
    second = IdleConnection()
    dialled = Dialled([first, failure, failure, second])
    observer = ConnectionObserver(lambda key, error: told.append("lost"), lambda key: told.append("back"))
    watch = LossDetector(dialled, observer, rng=random.Random(1))
    watch.hold(KEY, ENDPOINT)
    first.closed.set_result(None)
    await eventually(lambda: "back" in told)
    assert told == (["lost", "back"] if lost else ["back"])
    await watch.aclose()


async def test_a_single_refusal_before_the_next_connection_is_not_a_loss() -> None:
    told: list[str] = []
    dialled = Dialled([connect_failure(errno.ECONNREFUSED, "ConnectionRefused"), IdleConnection()])
    observer = ConnectionObserver(lambda key, error: told.append("lost"), lambda key: told.append("back"))
    watch = LossDetector(dialled, observer, rng=random.Random(1))
    watch.hold(KEY, ENDPOINT)
    watch.hold(KEY, ENDPOINT)
    await eventually(lambda: told)
    assert told == ["back"], "it is asked again, for it may be another one"
    assert len(watch) == 1
    watch.drop(KEY)
    assert len(watch) == 0
    await watch.aclose()
