"""The answer of a probe, asked for once a day and kept in a ConfigMap over restarts and changes of the leader."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

from fairlead_kube.client import Json, Kube
from fairlead_kube.errors import ApiError
from fairlead_kube.resources import CONFIG_MAPS, Scope
from fairlead_operator.enforcement.probe import EnforcementProbe
from fairlead_operator.enforcement.probe_answer import NAME, Enforcement, ProbeRecord
from fairlead_operator.ports import ConditionVerdict

logger = logging.getLogger(__name__)

APART: Final = timedelta(days=1)
LOOK_S: Final = 300.0
"""Seconds between two looks at whether a probe is due."""
RETRY_S: Final = 1.0
UNENDED: Final = 3
"""Probes in a row that may be cut off, as an operator ends or stops leading, before a day passes without one."""


class DailyProbe:
    """Runs `probe` once a day, and again where that was cut off.

    `changed` is called when the answer is another, `told` with each answer.
    """

    def __init__(
        self,
        kube: Kube,
        namespace: str,
        probe: EnforcementProbe,
        changed: Callable[[], None],
        told: Callable[[Enforcement], None],
        now: Callable[[], datetime],
        owners: Sequence[Json] = (),
    ) -> None:
        self._kube = kube
        self._probe = probe
        self._changed = changed
        self._told = told
        self._now = now
        self._owners = list(owners)
        self._scope = Scope(CONFIG_MAPS, Json, namespace, name=NAME)
        self._answer: Enforcement | None = None

    def verdict(self) -> ConditionVerdict | None:
        """For the condition of servers that run in pods; None before the first answer."""
        return None if self._answer is None else self._answer.verdict()

    async def restore(self) -> None:
        """Take up the answer of earlier, trying again until the API server has told it."""
        while True:
            try:
                record = await self._read()
            except ApiError as error:
                logger.warning("what a probe found before cannot be read yet: %s", error)
                await asyncio.sleep(RETRY_S)
            else:
                if record is not None and record.answer != Enforcement():
                    self._take(record.answer)
                return

    async def run(self) -> None:
        """Probe whenever that is due, until cancelled."""
        while True:
            try:
                await self.look()
            except ApiError as error:
                logger.warning("whether NetworkPolicies are enforced is asked again in %g s: %s", LOOK_S, error)
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        """Probe if that is due. Raises ApiError."""
        record = await self._read()
        begun = self._now()
        unended = 0
        if record is not None and timedelta() <= begun - record.checked < APART:
            if record.unended not in range(1, UNENDED):
                self._take(record.answer)
                return
            unended = record.unended
        # Before the probe: one that is cut off each time would otherwise make pods at each start of an operator.
        await self._write(ProbeRecord(begun, Enforcement() if record is None else record.answer, unended + 1))
        answer = await self._probe.run()
        self._take(answer)
        await self._write(ProbeRecord(begun, answer))

    async def _read(self) -> ProbeRecord | None:
        config_maps, _ = await self._kube.list(self._scope)
        return ProbeRecord.read(config_maps[0].get("data") or {}) if config_maps else None

    async def _write(self, record: ProbeRecord) -> None:
        metadata: Json = {"name": NAME, "labels": {"app.kubernetes.io/name": "fairlead"}}
        if self._owners:
            metadata["ownerReferences"] = self._owners
        await self._kube.apply(CONFIG_MAPS, self._scope.namespace, {"metadata": metadata, "data": record.data()})

    def _take(self, answer: Enforcement) -> None:
        self._told(answer)
        if answer == self._answer:
            return
        self._answer = answer
        verdict = answer.verdict()
        level = logging.INFO if verdict.ok else logging.WARNING
        logger.log(level, "NetworkPolicies: %s: %s", verdict.cause, verdict.message)
        self._changed()
