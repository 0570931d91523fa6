"""Posts Events of events.k8s.io/v1, which users see in `kubectl describe`.

Two equal Events about a resource are not posted in a row, and an Event is posted only a few times within a period: if a
server is lost and returns repeatedly, only the first losses and returns are posted. Nothing depends on Events, so a
failure to post an Event is logged and not raised.
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
from fairlead_kube.errors import ApiError, NamespaceTerminating
from fairlead_kube.resources import EVENTS
from fairlead_operator.ports import Announcement

logger = logging.getLogger(__name__)

NOTE_LIMIT: Final = 1000
"""Maximum characters of a note; the API server refuses more than 1024."""
MAX_EVENTS: Final = 10_000
"""Maximum number of different Events whose times are kept."""
REPEATS: Final = 3
"""Number of times that an Event is posted within a period."""


class Events:
    """Posts Events about custom resources.

    An Event is dropped if, within `period_s` seconds, it equals the last one of its resource or was posted `REPEATS`
    times.
    """

    def __init__(
        self,
        kube: Kube,
        instance: str,
        *,
        period_s: float = 600.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kube = kube
        self._instance = instance
        self._period_s = period_s
        self._monotonic = monotonic
        self._post_times: OrderedDict[tuple[str, Announcement], list[float]] = OrderedDict()
        """Monotonic times at which each Event was posted, by the UID of its resource and its announcement."""
        self._last_announcements: dict[str, Announcement] = {}
        """Last announcement about each resource in `_post_times`, by UID."""

    async def post(self, resource: Resource, announcement: Announcement) -> None:
        """Post an Event, unless it is a repetition. Never raises."""
        if not self._should_post(resource.metadata.uid, announcement):
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
        except NamespaceTerminating:
            return  # the resource is being deleted with its namespace, and so would be the Event
        except ApiError as error:
            logger.warning("an Event about %s could not be posted: %s", metadata.name, error)

    def _should_post(self, uid: str, announcement: Announcement) -> bool:
        now, event = self._monotonic(), (uid, announcement)
        times = [posted_at for posted_at in self._post_times.get(event, ()) if now - posted_at < self._period_s]
        if len(times) >= REPEATS or (times and self._last_announcements.get(uid) == announcement):
            return False
        self._post_times[event] = [*times, now]
        self._post_times.move_to_end(event)
        self._last_announcements[uid] = announcement
        while len(self._post_times) > MAX_EVENTS:
            (oldest_uid, _), _ = self._post_times.popitem(last=False)
            self._last_announcements.pop(oldest_uid, None)
        return True
