"""Pulling of gateways' reports: a gateway that hangs or refuses delays no other, and is asked at growing intervals."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection
from dataclasses import dataclass, field

from fairlead_api.reports import Report
from fairlead_operator.gateways.pull import Puller
from fairlead_operator.ports import GatewayTrouble
from fairlead_operator.workqueue import ItemBackoff


@dataclass
class Replicas:
    """Three gateways: one answers, one hangs, one refuses."""

    pulls: dict[str, int] = field(default_factory=dict)

    async def replicas(self) -> Collection[str]:
        return ("answers", "hangs", "refuses")

    async def report(self, replica: str, cursor: str, wait: float) -> Report:
        self.pulls[replica] = self.pulls.get(replica, 0) + 1
        if replica == "hangs":
            await asyncio.Event().wait()
        if replica == "refuses":
            raise GatewayTrouble("HTTP 401")
        return Report(replica, f"{replica}.{self.pulls[replica]}", "cluster", refresh=(("team", "demo"),))


class Pauses(ItemBackoff):
    """Backoff of zero seconds, which records the number of consecutive failures before each pause."""

    rows: list[int]

    def delay(self, failures: int, rng: random.Random) -> float:
        self.rows.append(failures)
        return 0.0 if len(self.rows) < 5 else 3600.0


async def test_a_gateway_that_hangs_and_one_that_refuses_keep_no_other_waiting() -> None:
    replicas = Replicas()
    heard = list[Report]()
    rows = list[int]()
    pauses = Pauses()
    object.__setattr__(pauses, "rows", rows)
    three = asyncio.Event()

    def hear(report: Report) -> None:
        heard.append(report)
        if len(heard) >= 3 and len(rows) >= 5:
            three.set()

    puller = Puller(replicas, hear, retry=pauses, rng=random.Random(1))
    task = asyncio.create_task(puller.run())
    async with asyncio.timeout(20):
        await three.wait()
    assert {report.replica for report in heard} == {"answers"}
    assert rows == [1, 2, 3, 4, 5], "each failure in a row counts towards the next pause"
    assert replicas.pulls["hangs"] == 1
    assert puller.is_reached == {"answers": True, "refuses": False}
    task.cancel()
    await asyncio.wait([task])
