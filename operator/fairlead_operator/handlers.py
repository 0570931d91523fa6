"""The edge to Kopf: which resources are watched, and how their events get into our event loop.

Only `kopf.on.event`: it writes nothing to the objects, neither annotations nor finalizers, so deleting an McpServer
never waits for an operator. Kopf runs in a thread with an event loop of its own, because in ours it would replace the
signal handlers and, at its end, cancel tasks that are not its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import kopf
from kubernetes.aio.client import Configuration

from fairlead_api.meta import GROUP, VERSION
from fairlead_kube.client import CLOSING_SECONDS
from fairlead_kube.resources import OWN_KINDS, Kind

logger = logging.getLogger(__name__)

Observe = Callable[[str, str | None, dict[str, Any]], None]
"""Told of each event, in our loop: plural of the kind, type (None = listed), the object."""

TOKEN_LIFE: Final = timedelta(minutes=5)
"""After this long a token is read again: a ServiceAccount's is replaced in its file about hourly."""
NOBODY: Final = "fairlead"
"""Kopf's name for this process, of use to its peering alone. Left to itself it looks up the name of the user, and a
container's often has none.
"""
STOP_SECONDS: Final = 2.4
ENDING_SECONDS: Final = 1.0
RESTART_SECONDS: Final = 2.0


async def connection_for(configuration: Configuration) -> kopf.ConnectionInfo:
    """The credentials of our own client, for Kopf: one place decides where they come from."""
    value = await configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
    scheme, _, token = (value or "").rpartition(" ")
    return kopf.ConnectionInfo(
        server=configuration.host,
        ca_path=configuration.ssl_ca_cert,
        ca_data=configuration.ca_cert_data if not configuration.ssl_ca_cert else None,
        insecure=not configuration.verify_ssl,
        scheme=(scheme or "Bearer").title() if token else None,
        token=token or None,
        certificate_path=configuration.cert_file,
        private_key_path=configuration.key_file,
        proxy_url=configuration.proxy,
        expiration=datetime.now(UTC) + TOKEN_LIFE if token else None,
    )


def registry_for(observe: Observe, kinds: Sequence[Kind] = OWN_KINDS) -> kopf.OperatorRegistry:
    """Handlers that pass every event of our kinds to `observe`, in Kopf's loop."""
    registry = kopf.OperatorRegistry()

    def watch(plural: str) -> None:
        @kopf.on.event(GROUP, VERSION, plural, registry=registry)  # type: ignore[arg-type]  # Kopf wants `**kwargs: Any`, unnamed
        async def seen(*, event: dict[str, Any], **_: Any) -> None:
            observe(plural, event["type"], dict(event["object"]))

    for kind in kinds:
        watch(kind.plural)
    return registry


def operator_settings() -> kopf.OperatorSettings:
    """Kopf without Events of its own, back soon after an outage, and quiet."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = True  # the CRDs are there before we start; watching them takes a cluster-wide right
    settings.networking.error_backoffs = (0.2, 0.5, 1, 1, 2, 2, 2, 2)
    settings.process.ultimate_exiting_timeout = None
    return settings


class EmbeddedKopf:
    """Kopf in a thread, on all namespaces or one. `observe` is called in the loop that `run` is awaited in.

    `known` is awaited before Kopf is started another time: it watches only the kinds that it finds at its start.
    """

    def __init__(
        self,
        configuration: Configuration,
        observe: Observe,
        namespace: str | None = None,
        known: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._configuration = configuration
        self._namespace = namespace
        self._observe = observe
        self._known = known

    async def run(self, kinds: Sequence[Kind] = OWN_KINDS) -> None:
        """Pass events on until cancelled. Kopf gives up where the API server is away at its start, and where a kind is
        deleted; then again.
        """
        while True:
            await self._run_once(kinds)
            logger.warning("kopf ended by itself; starting it again")
            await asyncio.sleep(RESTART_SECONDS)
            if self._known is not None:
                await self._known()

    async def _run_once(self, kinds: Sequence[Kind]) -> None:
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        stop = threading.Event()
        cancel: list[Callable[[], object]] = []

        def observe(plural: str, type_: str | None, item: dict[str, Any]) -> None:
            loop.call_soon_threadsafe(self._observe, plural, type_, item)

        def work() -> None:
            try:
                asyncio.run(self._operator(registry_for(observe, kinds), stop, cancel))
            except asyncio.CancelledError:
                logger.debug("kopf was in the middle of something and has been cancelled")
            except Exception:  # the outermost edge of a thread
                logger.warning("kopf broke down", exc_info=True)
            finally:
                with contextlib.suppress(RuntimeError):  # our loop has closed: this took longer than STOP_SECONDS
                    loop.call_soon_threadsafe(ended.set)

        thread = threading.Thread(target=work, name="kopf", daemon=True)
        thread.start()
        try:
            await ended.wait()
        finally:
            stop.set()
            if cancel:
                with contextlib.suppress(RuntimeError):  # its loop has closed just now
                    cancel[0]()  # it has nothing to finish, and a Lease that is to be given up waits for it
            if await self._ends(ended):
                thread.join()  # it has nothing left to do but to end
            else:
                logger.warning("kopf did not end within %g s", STOP_SECONDS)

    @staticmethod
    async def _ends(ended: asyncio.Event) -> bool:
        try:
            async with asyncio.timeout(STOP_SECONDS):
                return await ended.wait()
        except TimeoutError:
            return False

    async def _operator(
        self, registry: kopf.OperatorRegistry, stop: threading.Event, cancel: list[Callable[[], object]]
    ) -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        cancel.append(lambda: loop.call_soon_threadsafe(task.cancel))
        if stop.is_set():
            return  # before there was anything to cancel

        @kopf.on.login(registry=registry)
        async def login(**_: Any) -> kopf.ConnectionInfo:
            return await connection_for(self._configuration)

        for name in ("kopf.objects", "kopf.activities", "kopf._core"):
            logging.getLogger(name).setLevel(logging.WARNING)
        logging.getLogger("kopf._core.reactor.running").setLevel(logging.ERROR)  # warns that signals are not its own
        try:
            await kopf.operator(
                identity=NOBODY,  # type: ignore[arg-type]  # a string of a type that Kopf keeps to itself
                standalone=True,
                clusterwide=self._namespace is None,
                namespaces=[self._namespace] if self._namespace is not None else [],
                registry=registry,
                settings=operator_settings(),
            )
        finally:
            await ended_tasks()
            await asyncio.sleep(CLOSING_SECONDS)  # its connections close in further turns of this loop


async def ended_tasks() -> None:
    """Wait until all other tasks of this loop have ended, for at most ENDING_SECONDS; each is cancelled once.

    Kopf leaves its tasks behind when it is cancelled while it ends by itself. `asyncio.run` would cancel those a second
    time, and the one that closes Kopf's HTTP session then skips that.
    """
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        if not task.cancelling():
            task.cancel()
    if others:
        await asyncio.wait(others, timeout=ENDING_SECONDS)
