"""Reads Warning events about pods (events.k8s.io/v1): what Kubernetes tells of a pod beside its status. Pure.

The status of a pod says neither why its sandbox cannot be made, nor what a probe saw, nor which volume is not mounted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from fairlead_api.meta import ServerKey
from fairlead_api.v1alpha1.causes import Cause
from fairlead_operator.server.symptoms import Symptom, cut

FIELDS: Final = "type=Warning,regarding.kind=Pod"
"""Field selector of the events that are read."""
_PROBE: Final = re.compile(r"(Readiness|Startup|Liveness) probe (?:failed|errored)", re.IGNORECASE)
_KILLS: Final = re.compile(r"(?:Startup|Liveness) probe failed", re.IGNORECASE)
_LIMIT: Final = re.compile(r"memory limit too low|oom-?kill", re.IGNORECASE)
_VARIABLE: Final = re.compile(r"[0-9a-f]{12,}|[0-9]+")
"""Ids of sandboxes, addresses and counts, which differ from try to try."""
_ELSEWHERE: Final = frozenset({"FailedScheduling", "DNSConfigForming"})
"""Reasons that are not passed on: the pod's status says the first, in force or not any more; the second, of which each
pod of a node with many name servers has one, keeps no pod from being ready.
"""


@dataclass(frozen=True)
class PodWarning:
    """Last warning about a pod."""

    pod: ServerKey
    """Namespace and name of the pod."""
    uid: str
    reason: str
    note: str
    first: datetime
    last: datetime

    @property
    def kills(self) -> bool:
        """Whether it tells of a probe for which the kubelet ends the container."""
        return _KILLS.match(self.note) is not None

    @property
    def symptom(self) -> Symptom:
        if _PROBE.match(self.note):
            return Symptom(Cause.PROBE_FAILED, f"its container runs and is not ready: {self.note}", hopeless=False)
        advice = "; raise memory in spec.resources.limits" if _LIMIT.search(self.note) else ""
        return Symptom(
            Cause.POD_WARNING, f"Kubernetes warns about its pod ({self.reason}): {self.note}{advice}", hopeless=False
        )

    def repeats(self, earlier: PodWarning) -> bool:
        """Whether it says what an earlier one said, but for ids and numbers."""
        mine, theirs = (_VARIABLE.sub("#", warning.note) for warning in (self, earlier))
        return (self.uid, self.reason, mine) == (earlier.uid, earlier.reason, theirs)


def pod_warning(event: Mapping[str, Any]) -> PodWarning | None:
    """Warning that an event holds; None for one that is not passed on, or that is not an event about a pod."""
    about = event.get("regarding") or {}
    reason = str(event.get("reason") or "Warning")
    if about.get("kind") != "Pod" or event.get("type") != "Warning" or reason in _ELSEWHERE:
        return None
    times = _times(event)
    if times is None:
        return None
    pod = ServerKey(_text(about, "namespace"), _text(about, "name"))
    note = cut(event.get("note") or "it says no more")
    return PodWarning(pod, _text(about, "uid"), reason[:128], note, *times)


def _times(event: Mapping[str, Any]) -> tuple[datetime, datetime] | None:
    """When an event was seen first and last, of either form of the API; None for one without a valid time."""
    created = (event.get("metadata") or {}).get("creationTimestamp")
    first = event.get("deprecatedFirstTimestamp") or event.get("eventTime") or created
    last = (event.get("series") or {}).get("lastObservedTime") or event.get("deprecatedLastTimestamp") or first
    try:
        return datetime.fromisoformat(str(first)), datetime.fromisoformat(str(last))
    except ValueError:
        return None


def _text(members: Mapping[str, Any], name: str) -> str:
    return str(members.get(name) or "")
