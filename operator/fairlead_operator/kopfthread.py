"""Runs Kopf in a thread with its own event loop, and restarts it whenever it ends.

In the operator's event loop, Kopf would replace the signal handlers and, at its end, cancel tasks of the operator.
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
from kopf._cogs.structs.credentials import Vault  # an argument of `kopf.operator`, without a public name
from kubernetes.aio.client import Configuration

from fairlead_kube.client import CLOSING_SECONDS
from fairlead_operator.handlers import KopfFeed, Observe

logger = logging.getLogger(__name__)

TOKEN_LIFE: Final = timedelta(minutes=5)
"""Time after which the token is read again: Kubernetes replaces a ServiceAccount's token file about hourly."""
IDENTITY: Final = "fairlead"
"""Identity of this process for Kopf's peering, which is not used. Without it, Kopf looks up the name of the user, which
fails for the unnamed users of containers.
"""
STOP_SECONDS: Final = 2.4
"""Seconds to wait for the end of the thread."""
ENDING_SECONDS: Final = 1.0
"""Seconds to wait for the tasks that Kopf leaves behind."""
RESTART_SECONDS: Final = 2.0


async def connection_for(configuration: Configuration) -> kopf.ConnectionInfo:
    """The credentials of the operator's own Kubernetes client, for Kopf."""
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
    """Runs Kopf with the handlers of `registry`, on all namespaces or one. `observer` receives each event, in the event
    loop of `run`.

    `prepare` is awaited before each start of Kopf: it waits for the custom resources, because Kopf never watches a kind
    that the API server does not serve when Kopf starts.
    """

    def __init__(
        self,
        configuration: Configuration,
        registry: Callable[[], kopf.OperatorRegistry],
        observer: Observe,
        namespace: str | None = None,
        prepare: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        self._configuration = configuration
        self._registry = registry
        self._observer = observer
        self._namespace = namespace
        self._prepare = prepare

    async def run(self) -> None:
        """Pass on events until cancelled. Restarts Kopf, which ends if it cannot reach the API server at its start, and
        when a kind is deleted.
        """
        while True:
            if self._prepare is not None:
                await self._prepare()
            await self._run_once()
            logger.warning("Kopf, which watches Fairlead's custom resources, ended and is restarted")
            await asyncio.sleep(RESTART_SECONDS)

    async def _run_once(self) -> None:
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        stop = threading.Event()
        cancel: list[Callable[[], object]] = []
        feed = KopfFeed(loop, self._observer, partial(connection_for, self._configuration))

        def run_kopf() -> None:
            try:
                asyncio.run(self._operator(feed, stop, cancel))
            except asyncio.CancelledError:
                logger.debug("Kopf was cancelled")
            except Exception:  # nothing else catches exceptions of a thread
                logger.warning("Kopf failed unexpectedly", exc_info=True)
            finally:
                with contextlib.suppress(RuntimeError):  # the operator's loop is closed: Kopf exceeded STOP_SECONDS
                    loop.call_soon_threadsafe(ended.set)

        thread = threading.Thread(target=run_kopf, name="kopf", daemon=True)
        thread.start()
        try:
            await ended.wait()
        finally:
            stop.set()
            if cancel:
                with contextlib.suppress(RuntimeError):  # Kopf's loop has just closed
                    cancel[0]()  # Kopf has nothing to finish, and the Lease is released only after the thread's end
            if await self._wait_for_end(ended):
                thread.join()  # returns at once: the thread's work is done
            else:
                logger.warning("Kopf did not end within %g s", STOP_SECONDS)

    @staticmethod
    async def _wait_for_end(end_event: asyncio.Event) -> bool:
        try:
            async with asyncio.timeout(STOP_SECONDS):
                return await end_event.wait()
        except TimeoutError:
            return False

    async def _operator(self, feed: KopfFeed, stop: threading.Event, cancel: list[Callable[[], object]]) -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        cancel.append(lambda: loop.call_soon_threadsafe(task.cancel))
        if stop.is_set():
            return  # stopped before `cancel` was filled
        for name in ("kopf.objects", "kopf.activities", "kopf._core"):
            logging.getLogger(name).setLevel(logging.WARNING)
        logging.getLogger("kopf._core.reactor.running").setLevel(logging.ERROR)  # hides a warning about signals
        vault = Vault()
        try:
            await kopf.operator(
                identity=IDENTITY,  # type: ignore[arg-type]  # the type is private to Kopf
                vault=vault,
                standalone=True,
                clusterwide=self._namespace is None,
                namespaces=[self._namespace] if self._namespace is not None else [],
                registry=self._registry(),
                memo=feed,
            )
        finally:
            await cancel_other_tasks()
            await vault.close()  # Kopf closes its HTTP session only where it ends without a failure
            await asyncio.sleep(CLOSING_SECONDS)  # connections close in further iterations of this event loop


async def cancel_other_tasks() -> None:
    """Cancel all other tasks of this event loop once, and wait for their end, for at most ENDING_SECONDS.

    Kopf leaves tasks behind when it is cancelled while it ends by itself. `asyncio.run` would cancel them a second
    time, and the task that closes Kopf's HTTP session would then not close it.
    """
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        if not task.cancelling():
            task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=ENDING_SECONDS)
