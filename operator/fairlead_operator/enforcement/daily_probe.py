"""Runs the network probe once a day, and stores its answer in a ConfigMap for restarts and new leaders."""

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

INTERVAL: Final = timedelta(days=1)
CHECK_SECONDS: Final = 300.0
"""Seconds between two checks whether a probe is due."""
RETRY_SECONDS: Final = 1.0
MAX_INTERRUPTED: Final = 3
"""Number of consecutive interrupted probes (by restarts or changes of the leader) after which the next probe waits for
a day.
"""


class DailyProbe:
    """Runs `probe` once a day, and repeats probes that were interrupted.

    `on_change` is called when the answer has changed, `on_answer` with each answer.
    """

    def __init__(
        self,
        kube: Kube,
        namespace: str,
        probe: EnforcementProbe,
        on_change: Callable[[], None],
        on_answer: Callable[[Enforcement], None],
        now: Callable[[], datetime],
        owners: Sequence[Json] = (),
    ) -> None:
        self._kube = kube
        self._probe = probe
        self._on_change = on_change
        self._on_answer = on_answer
        self._now = now
        self._owners = list(owners)
        self._scope = Scope(CONFIG_MAPS, Json, namespace, name=NAME)
        self._answer: Enforcement | None = None

    def verdict(self) -> ConditionVerdict | None:
        """Verdict NetworkPolicyEnforced of all servers with pods; None before the first answer."""
        return None if self._answer is None else self._answer.verdict()

    async def restore(self) -> None:
        """Load the stored answer, retrying until the API server answers."""
        while True:
            try:
                record = await self._read()
            except ApiError as error:
                logger.warning("the stored answer of the network probe cannot be read yet: %s", error)
                await asyncio.sleep(RETRY_SECONDS)
            else:
                if record is not None and record.answer != Enforcement():
                    self._take(record.answer)
                return

    async def run(self) -> None:
        """Run due probes until cancelled."""
        while True:
            try:
                await self.probe_if_due()
            except ApiError as error:
                logger.warning(
                    "the probe of NetworkPolicies failed and will be retried in %g s: %s", CHECK_SECONDS, error
                )
            await asyncio.sleep(CHECK_SECONDS)

    async def probe_if_due(self) -> None:
        """Run the probe if it is due. Raises ApiError."""
        record = await self._read()
        began = self._now()
        interruptions = 0
        if record is not None and timedelta() <= began - record.began < INTERVAL:
            if record.interruptions not in range(1, MAX_INTERRUPTED):
                self._take(record.answer)
                return
            interruptions = record.interruptions
        # The beginning of a probe is recorded too: if every probe were interrupted, each start of an operator would
        # otherwise create pods again.
        await self._write(ProbeRecord(began, Enforcement() if record is None else record.answer, interruptions + 1))
        answer = await self._probe.run()
        self._take(answer)
        await self._write(ProbeRecord(began, answer))

    async def _read(self) -> ProbeRecord | None:
        config_maps, _ = await self._kube.list(self._scope)
        return ProbeRecord.read(config_maps[0].get("data") or {}) if config_maps else None

    async def _write(self, record: ProbeRecord) -> None:
        metadata: Json = {"name": NAME, "labels": {"app.kubernetes.io/name": "fairlead"}}
        if self._owners:
            metadata["ownerReferences"] = self._owners
        await self._kube.apply(CONFIG_MAPS, self._scope.namespace, {"metadata": metadata, "data": record.data()})

    def _take(self, answer: Enforcement) -> None:
        """Store an answer in memory, and report it if it changed."""
        self._on_answer(answer)
        if answer == self._answer:
            return
        self._answer = answer
        verdict = answer.verdict()
        level = logging.INFO if verdict.ok else logging.WARNING
        logger.log(level, "NetworkPolicies: %s: %s", verdict.cause, verdict.message)
        self._on_change()
