"""Asks every gateway replica for its report, each in a task of its own, so that a slow one keeps no other waiting.

Runs while this replica of the operator leads. Knows gateways
through `ports.Gateways` alone.
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

LOOK_SECONDS: Final = 5.0
"""How often replicas are looked for."""
WAIT_SECONDS: Final = 1.0
"""How long a gateway may keep an answer back while it has nothing urgent: what is not urgent comes that late."""
APART_SECONDS: Final = 0.1
"""Between two answers of one replica: a stream of late calls is told in lots."""


class PollObserver(Protocol):
    """Is told of each request."""

    def __call__(self, *, answered: bool) -> None: ...


class Puller:
    """Long-polls every gateway replica. `heard` gets each report, `poll_observer` the outcome of each request."""

    def __init__(
        self,
        gateways: Gateways,
        heard: Callable[[Report], None],
        *,
        poll_observer: PollObserver = lambda *, answered: None,
        retry: ItemBackoff | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self._gateways = gateways
        self._heard = heard
        self._poll_observer = poll_observer
        self._retry = retry or ItemBackoff(first=0.5, limit=15.0)
        self._rng = rng or random.Random()
        self._asking: dict[str, asyncio.Task[None]] = {}
        self.reached: dict[str, bool] = {}
        """Replica to whether it answered last."""

    def __repr__(self) -> str:
        return f"<Puller replicas={len(self._asking)} reached={sum(self.reached.values())}>"

    async def run(self) -> None:
        """Ask until cancelled."""
        try:
            while True:
                await self._look()
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            tasks = list(self._asking.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _look(self) -> None:
        try:
            replicas = set(await self._gateways.replicas())
        except GatewayTrouble as error:
            logger.warning("gateways cannot be looked for: %s", error)
            return
        for gone in self._asking.keys() - replicas:
            self._asking.pop(gone).cancel()
            self.reached.pop(gone, None)
        for replica in replicas - self._asking.keys():
            self._asking[replica] = asyncio.create_task(self._keep_asking(replica), name=f"reports of {replica}")

    async def _keep_asking(self, replica: str) -> None:
        cursor, failures = "", 0
        while True:
            try:
                report = await self._gateways.report(replica, cursor, WAIT_SECONDS)
            except GatewayTrouble as error:
                failures += 1
                self._poll_observer(answered=False)
                if self.reached.get(replica, True):
                    logger.warning("no latencies from gateway %s: %s; tiers stand still for its calls", replica, error)
                self.reached[replica] = False
                await asyncio.sleep(self._retry.delay(failures, self._rng))
                continue
            if not self.reached.get(replica):
                logger.info("latencies of gateway %s are followed", replica)
            self.reached[replica], failures, cursor = True, 0, report.cursor
            self._poll_observer(answered=True)
            try:
                self._heard(report)
            except Exception:
                logger.exception("a report of gateway %s could not be used", replica)
            await asyncio.sleep(APART_SECONDS)
