"""Passes the reports of this process's gateway to the operator in memory, by the operator's interface `Gateways`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from fairlead_api.reports import Report
from fairlead_gateway.reports.outbox import Outbox

_NAME: Final = "this machine"


class OwnGateway:
    """Implements fairlead_operator.ports.Gateways."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    async def replicas(self) -> Collection[str]:
        return (_NAME,)

    async def report(self, replica: str, cursor: str, wait: float) -> Report:
        return await self._outbox.wait(cursor, wait)
