"""Reads Warning events about pods (events.k8s.io/v1), which contain reasons that a pod's status lacks. Pure.

The status of a pod says neither why its sandbox cannot be created, nor why a probe failed, nor which volume is not
mounted.
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

FIELD_SELECTOR: Final = "type=Warning,regarding.kind=Pod"
"""Field selector of the events that are read."""
_PROBE: Final = re.compile(r"(Readiness|Startup|Liveness) probe (?:failed|errored)", re.IGNORECASE)
_FATAL_PROBE: Final = re.compile(r"(?:Startup|Liveness) probe failed", re.IGNORECASE)
_MEMORY_LIMIT: Final = re.compile(r"memory limit too low|oom-?kill", re.IGNORECASE)
_VARIABLE: Final = re.compile(r"[0-9a-f]{12,}|[0-9]+")
"""IDs of sandboxes, addresses and counts, which differ in each repetition."""
_IGNORED: Final = frozenset({"FailedScheduling", "DNSConfigForming"})
"""Ignored reasons. FailedScheduling is also in the pod's status, which drops it when it no longer applies.
DNSConfigForming affects every pod on a node with many name servers, and does not keep pods from being ready.
"""


@dataclass(frozen=True)
class PodWarning:
    """A Warning event about a pod, with its repetitions."""

    pod: ServerKey
    """Namespace and name of the pod."""
    uid: str
    reason: str
    note: str
    first_at: datetime
    """Time of the first occurrence."""
    last_at: datetime
    """Time of the last occurrence."""

    @property
    def ends_container(self) -> bool:
        """Whether the warning reports a failed probe after which the kubelet ends the container."""
        return _FATAL_PROBE.match(self.note) is not None

    @property
    def symptom(self) -> Symptom:
        if _PROBE.match(self.note):
            return Symptom(Cause.PROBE_FAILED, f"the container runs but is not ready: {self.note}", needs_change=False)
        advice = "; raise memory in spec.resources.limits" if _MEMORY_LIMIT.search(self.note) else ""
        return Symptom(
            Cause.POD_WARNING,
            f"Kubernetes warns about the server's pod ({self.reason}): {self.note}{advice}",
            needs_change=False,
        )

    def repeats(self, earlier_warning: PodWarning) -> bool:
        """Whether the warning equals an earlier warning, apart from IDs and numbers."""
        note, earlier_note = (_VARIABLE.sub("#", warning.note) for warning in (self, earlier_warning))
        return (self.uid, self.reason, note) == (earlier_warning.uid, earlier_warning.reason, earlier_note)


def pod_warning(event: Mapping[str, Any]) -> PodWarning | None:
    """The warning in an event; None for ignored reasons and for events that are not about a pod."""
    regarding = event.get("regarding") or {}
    reason = str(event.get("reason") or "Warning")
    if regarding.get("kind") != "Pod" or event.get("type") != "Warning" or reason in _IGNORED:
        return None
    times = _times(event)
    if times is None:
        return None
    pod = ServerKey(_text(regarding, "namespace"), _text(regarding, "name"))
    note = cut(event.get("note") or "without details")
    return PodWarning(pod, _text(regarding, "uid"), reason[:128], note, *times)


def _times(event: Mapping[str, Any]) -> tuple[datetime, datetime] | None:
    """Times of an event's first and last occurrence, in either form of the API; None without a valid time."""
    creation_time = (event.get("metadata") or {}).get("creationTimestamp")
    first_time = event.get("deprecatedFirstTimestamp") or event.get("eventTime") or creation_time
    last_time = (
        (event.get("series") or {}).get("lastObservedTime") or event.get("deprecatedLastTimestamp") or first_time
    )
    try:
        return datetime.fromisoformat(str(first_time)), datetime.fromisoformat(str(last_time))
    except ValueError:
        return None


def _text(members: Mapping[str, Any], name: str) -> str:
    return str(members.get(name) or "")
