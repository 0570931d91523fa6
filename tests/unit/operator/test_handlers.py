"""The adapter to Kopf, with an emulated API server: every event arrives, and Kopf writes nothing."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import kmock as kmock_
import pytest
from kubernetes.aio.client import Configuration

from fairlead_kube.resources import Kind
from fairlead_operator.handlers import handlers
from fairlead_operator.kopfthread import KopfThread, cancel_other_tasks, connection_for
from waiting import until_async

Event = tuple[str, str | None, str]
GROUP = "fairlead.dev/v1alpha1"


@pytest.fixture
def api(kmock: kmock_.KubernetesEmulator) -> kmock_.KubernetesEmulator:
    """An API server with the operator's three kinds, and the two kinds that Kopf needs for its start."""
    for name in ("v1/namespaces", "apiextensions.k8s.io/v1/customresourcedefinitions"):
        kmock.resources[name] = kmock_.ResourceInfo(kind=name, namespaced=False, verbs={"list", "watch"})
    for plural, kind, namespaced in (
        ("mcpservers", "McpServer", True),
        ("latencytiers", "LatencyTier", False),
        ("toolpolicies", "ToolPolicy", True),
    ):
        kmock.resources[f"{GROUP}/{plural}"] = kmock_.ResourceInfo(
            kind=kind,
            singular=kind.lower(),
            namespaced=namespaced,
            verbs={"get", "list", "watch", "patch", "create", "delete"},
        )
    return kmock


def server(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": GROUP,
        "kind": "McpServer",
        "metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}", "resourceVersion": "1"},
        "spec": spec,
    }


class Listener:
    """Collects the feed's events, and waits for them."""

    def __init__(self) -> None:
        self.seen: list[Event] = []
        self._changed = asyncio.Event()

    def __call__(self, kind: Kind, type_: str | None, item: dict[str, Any]) -> None:
        self.seen.append((kind.plural, type_, item["metadata"]["name"]))
        self._changed.set()

    async def until(self, event: Event) -> None:
        async with asyncio.timeout(10):
            while event not in self.seen:
                self._changed.clear()
                await self._changed.wait()


@asynccontextmanager
async def run_feed(api: kmock_.KubernetesEmulator, listener: Listener) -> AsyncIterator[None]:
    """Run a feed within the context."""
    task = asyncio.create_task(KopfThread(Configuration(host=str(api.url).rstrip("/")), handlers, listener).run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_handlers_tell_of_objects_and_changes_and_write_nothing(api: kmock_.KubernetesEmulator) -> None:
    api.objects[f"{GROUP}/mcpservers", "team", "old"] = server("old")
    listener = Listener()
    path = f"/apis/{GROUP}/namespaces/team/mcpservers"
    async with run_feed(api, listener), aiohttp.ClientSession(str(api.url)) as people:
        await listener.until(("mcpservers", None, "old"))
        await people.post(path, json=server("new"))
        await listener.until(("mcpservers", "ADDED", "new"))
        await people.patch(f"{path}/new", json={"spec": {"url": "http://x.example/mcp"}})
        await listener.until(("mcpservers", "MODIFIED", "new"))
        await people.delete(f"{path}/new")
        await listener.until(("mcpservers", "DELETED", "new"))
    written = [request.method for request in api if request.method is not kmock_.method.GET]
    assert written == [kmock_.method.POST, kmock_.method.PATCH, kmock_.method.DELETE], "those of the test alone"


async def test_a_user_without_a_name_can_run_the_operator(
    api: kmock_.KubernetesEmulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.objects[f"{GROUP}/mcpservers", "team", "old"] = server("old")
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.getuid", lambda: 54_321)  # as in a container without an entry in /etc/passwd
    listener = Listener()
    async with run_feed(api, listener):
        await listener.until(("mcpservers", None, "old"))


async def test_a_feed_that_is_cancelled_ends_its_thread_soon(api: kmock_.KubernetesEmulator) -> None:
    loop = asyncio.get_running_loop()
    api.objects[f"{GROUP}/mcpservers", "team", "old"] = server("old")
    listener = Listener()
    async with run_feed(api, listener):
        await listener.until(("mcpservers", None, "old"))
        before = loop.time()
    assert loop.time() - before < 2
    assert "kopf" not in {thread.name for thread in threading.enumerate()}


async def test_a_feed_that_asks_an_absent_api_server_ends_soon_when_cancelled() -> None:
    loop = asyncio.get_running_loop()
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # never listens
        host = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        task = asyncio.create_task(KopfThread(Configuration(host=host), handlers, Listener()).run())
        await until_async("kopf to start", lambda: asyncio.to_thread(_kopf_runs), seconds=10)
        before = loop.time()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert loop.time() - before < 3, "the Lease's watchdog ends the process after that"
    assert not _kopf_runs()


def test_closing_tasks_of_a_cancelled_kopf_are_awaited_and_cancelled_once() -> None:
    closed: list[bool] = []

    async def close_slowly() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            for _ in range(9):
                await asyncio.sleep(0)
            closed.append(True)

    async def work() -> None:
        ending = asyncio.create_task(close_slowly())
        running = asyncio.create_task(close_slowly())
        await asyncio.sleep(0)
        ending.cancel()
        await asyncio.sleep(0)
        await cancel_other_tasks()
        assert running.done()

    asyncio.run(work())
    assert closed == [True, True]


def test_a_kopf_that_ends_after_our_loop_has_closed_ends_without_an_error() -> None:
    ended = threading.Event()
    go_on = threading.Event()

    def refresh(current: Configuration) -> None:
        ended.set()
        go_on.wait(30)  # blocks Kopf's loop, so that it cannot end

    configuration = Configuration(host="http://127.0.0.1:9")
    configuration.api_key["BearerToken"] = "bearer stale"
    configuration.refresh_api_key_hook = refresh  # type: ignore[assignment]  # annotated as None

    async def run_cut_short() -> None:
        task = asyncio.create_task(KopfThread(configuration, handlers, Listener()).run())
        assert await asyncio.to_thread(ended.wait, 30)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run_cut_short())
    (kopf,) = (thread for thread in threading.enumerate() if thread.name == "kopf")
    go_on.set()
    kopf.join(30)
    assert not kopf.is_alive()


def _kopf_runs() -> bool:
    return "kopf" in {thread.name for thread in threading.enumerate()}


async def test_kopf_logs_in_with_the_credentials_of_our_own_client() -> None:
    configuration = Configuration(host="https://api.example:6443")
    configuration.ssl_ca_cert = "/ca.crt"
    configuration.cert_file = "/user.crt"
    configuration.key_file = "/user.key"
    by_certificate = await connection_for(configuration)
    assert (by_certificate.server, by_certificate.ca_path) == ("https://api.example:6443", "/ca.crt")
    assert (by_certificate.certificate_path, by_certificate.private_key_path) == ("/user.crt", "/user.key")
    assert by_certificate.token is None
    assert by_certificate.expiration is None


async def test_a_token_is_read_again_before_it_is_stale() -> None:
    configuration = Configuration(host="https://api.example:6443")
    tokens = iter(["first", "second"])

    def refresh(current: Configuration) -> None:
        current.api_key["BearerToken"] = f"bearer {next(tokens)}"

    configuration.api_key["BearerToken"] = "bearer stale"
    configuration.refresh_api_key_hook = refresh  # type: ignore[assignment]  # annotated as None
    first = await connection_for(configuration)
    second = await connection_for(configuration)
    assert (first.scheme, first.token, second.token) == ("Bearer", "first", "second")
    assert first.expiration is not None
