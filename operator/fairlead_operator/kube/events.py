"""Events of events.k8s.io/v1: what a person sees under `kubectl describe`.

The same thing is not told twice in a row, and no more than a few times in a while: of a server that comes and goes the
first losses and returns are told.

An Event is a courtesy: nothing depends on it and its failure is logged, not raised.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from fairlead_api.meta import API_VERSION, MANAGER
from fairlead_api.v1alpha1.common import Resource
from fairlead_kube.client import Kube
from fairlead_kube.errors import ApiError
from fairlead_kube.resources import EVENTS
from fairlead_operator.ports import Announcement

logger = logging.getLogger(__name__)

NOTE_LIMIT: Final = 1000
"""Characters; the API server refuses more than 1024."""
REMEMBERED: Final = 10_000
REPEATS: Final = 3


class Events:
    """Posts Events about our resources. One is dropped that is the last one of its resource again, or that was posted
    `REPEATS` times already, within `quiet` seconds.
    """

    def __init__(
        self,
        kube: Kube,
        instance: str,
        *,
        quiet: float = 600.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kube = kube
        self._instance = instance
        self._quiet = quiet
        self._monotonic = monotonic
        self._told: OrderedDict[tuple[str, Announcement], list[float]] = OrderedDict()
        self._last: dict[str, Announcement] = {}
        """By uid, for those of `_told`."""

    async def post(self, resource: Resource, announcement: Announcement) -> None:
        """Tell it, unless it was told lately. Never raises."""
        if not self._is_news(resource.metadata.uid, announcement):
            return
        metadata = resource.metadata
        body = {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"generateName": f"{metadata.name}-", "namespace": metadata.namespace},
            "eventTime": datetime.now(UTC).isoformat(timespec="microseconds"),
            "type": announcement.kind,
            "reason": announcement.reason,
            "action": "Reconcile",
            "note": announcement.note[:NOTE_LIMIT],
            "reportingController": f"fairlead.dev/{MANAGER}",
            "reportingInstance": self._instance[:128],
            "regarding": {
                "apiVersion": API_VERSION,
                "kind": resource.kind_name,
                "namespace": metadata.namespace,
                "name": metadata.name,
                "uid": metadata.uid,
            },
        }
        try:
            await self._kube.create(EVENTS, metadata.namespace, body)
        except ApiError as error:
            logger.warning("an event about %s was not posted: %s", metadata.name, error)

    def _is_news(self, uid: str, announcement: Announcement) -> bool:
        now, subject = self._monotonic(), (uid, announcement)
        times = [then for then in self._told.get(subject, ()) if now - then < self._quiet]
        if len(times) >= REPEATS or (times and self._last.get(uid) == announcement):
            return False
        self._told[subject] = [*times, now]
        self._told.move_to_end(subject)
        self._last[uid] = announcement
        while len(self._told) > REMEMBERED:
            (gone, _), _ = self._told.popitem(last=False)
            self._last.pop(gone, None)
        return True
