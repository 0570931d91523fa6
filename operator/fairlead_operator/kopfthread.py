"""Kopf in a thread with an event loop of its own, started again whenever it ends.

In our loop it would replace the signal handlers and, at its end, cancel tasks that are not its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

import kopf
from kopf._cogs.structs.credentials import Vault  # `kopf.operator` takes one, and exports no public name of it
from kubernetes.aio.client import Configuration

from fairlead_kube.client import CLOSING_SECONDS
from fairlead_operator.handlers import KopfFeed, Observe

logger = logging.getLogger(__name__)

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


class KopfThread:
    """Kopf with the handlers of `registry`, on all namespaces or one. `into` is called in the loop that `run` is
    awaited in.

    `prepared` is awaited before each start: Kopf watches only the kinds that it finds then.
    """

    def __init__(
        self,
        configuration: Configuration,
        registry: Callable[[], kopf.OperatorRegistry],
        into: Observe,
        namespace: str | None = None,
        prepared: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        self._configuration = configuration
        self._registry = registry
        self._into = into
        self._namespace = namespace
        self._prepared = prepared

    async def run(self) -> None:
        """Pass events on until cancelled. Kopf gives up where the API server is away at its start, and where a kind is
        deleted; then again.
        """
        while True:
            if self._prepared is not None:
                await self._prepared()
            await self._run_once()
            logger.warning("kopf ended by itself; starting it again")
            await asyncio.sleep(RESTART_SECONDS)

    async def _run_once(self) -> None:
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        stop = threading.Event()
        cancel: list[Callable[[], object]] = []
        feed = KopfFeed(loop, self._into, partial(connection_for, self._configuration))

        def work() -> None:
            try:
                asyncio.run(self._operator(feed, stop, cancel))
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

    async def _operator(self, feed: KopfFeed, stop: threading.Event, cancel: list[Callable[[], object]]) -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        cancel.append(lambda: loop.call_soon_threadsafe(task.cancel))
        if stop.is_set():
            return  # before there was anything to cancel
        for name in ("kopf.objects", "kopf.activities", "kopf._core"):
            logging.getLogger(name).setLevel(logging.WARNING)
        logging.getLogger("kopf._core.reactor.running").setLevel(logging.ERROR)  # warns that signals are not its own
        vault = Vault()
        try:
            await kopf.operator(
                identity=NOBODY,  # type: ignore[arg-type]  # a string of a type that Kopf keeps to itself
                vault=vault,
                standalone=True,
                clusterwide=self._namespace is None,
                namespaces=[self._namespace] if self._namespace is not None else [],
                registry=self._registry(),
                memo=feed,
            )
        finally:
            await ended_tasks()
            await vault.close()  # Kopf closes its HTTP session only where it ends without a failure
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
