"""Polls all gateway replicas for their reports, with one task per replica, so that slow replicas do not delay others.

Runs while this replica of the operator leads. Requests go through the protocol `ports.Gateways`.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from typing import Final, Protocol

from fairlead_api.reports import Report
from fairlead_operator.ports import Gateways, GatewayTrouble
from fairlead_operator.workqueue import ItemBackoff

logger = logging.getLogger(__name__)

LOOKUP_SECONDS: Final = 5.0
"""Seconds between two lookups of the replicas."""
WAIT_SECONDS: Final = 1.0
"""Seconds for which a gateway may hold a long poll. Requests of users, suspected losses of a server and late attempts
end the poll at once; other measurements arrive with up to this delay.
"""
MIN_GAP_SECONDS: Final = 0.1
"""Minimum seconds between two requests to one replica. Each late attempt ends a poll at once, so many late attempts
would otherwise cause as many requests.
"""


class PollObserver(Protocol):
    """Receives the outcome of each request."""

    def __call__(self, *, answered: bool) -> None: ...


class Puller:
    """Long-polls every gateway replica. `on_report` receives each report, `poll_observer` each request's outcome."""

    def __init__(
        self,
        gateways: Gateways,
        on_report: Callable[[Report], None],
        *,
        poll_observer: PollObserver = lambda *, answered: None,
        retry: ItemBackoff | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self._gateways = gateways
        self._on_report = on_report
        self._poll_observer = poll_observer
        self._retry = retry or ItemBackoff(first=0.5, limit=15.0)
        self._rng = rng or random.Random()
        self._polls: dict[str, asyncio.Task[None]] = {}
        self.is_reached: dict[str, bool] = {}
        """Whether the last request to each replica (`ADDRESS:PORT`) was answered."""

    def __repr__(self) -> str:
        return f"<Puller replicas={len(self._polls)} reached={sum(self.is_reached.values())}>"

    async def run(self) -> None:
        """Poll until cancelled."""
        try:
            while True:
                await self._update_replicas()
                await asyncio.sleep(LOOKUP_SECONDS)
        finally:
            tasks = list(self._polls.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _update_replicas(self) -> None:
        try:
            replicas = set(await self._gateways.replicas())
        except GatewayTrouble as error:
            logger.warning("the gateway replicas cannot be looked up: %s", error)
            return
        for old_replica in self._polls.keys() - replicas:
            self._polls.pop(old_replica).cancel()
            self.is_reached.pop(old_replica, None)
        for replica in replicas - self._polls.keys():
            self._polls[replica] = asyncio.create_task(self._keep_polling(replica), name=f"reports of {replica}")

    async def _keep_polling(self, replica: str) -> None:
        cursor, failures = "", 0
        while True:
            try:
                report = await self._gateways.report(replica, cursor, WAIT_SECONDS)
            except GatewayTrouble as error:
                failures += 1
                self._poll_observer(answered=False)
                if self.is_reached.get(replica, True):
                    logger.warning("gateway %s cannot be polled, so its calls do not affect tiers: %s", replica, error)
                self.is_reached[replica] = False
                await asyncio.sleep(self._retry.delay(failures, self._rng))
                continue
            if not self.is_reached.get(replica):
                logger.info("polling latencies of gateway %s", replica)
            self.is_reached[replica] = True
            failures, cursor = 0, report.cursor
            self._poll_observer(answered=True)
            try:
                self._on_report(report)
            except Exception:
                logger.exception("the report of gateway %s could not be processed", replica)
            await asyncio.sleep(MIN_GAP_SECONDS)
