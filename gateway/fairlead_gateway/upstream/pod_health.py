"""Outlier detection for the pods of one server: a pod is ejected when calls wait for it and it answers no ping.

An ejected pod gets no new calls until it answers again. Metrics and REST call its state `left`. Pure module; times are
in seconds of one clock.

A slow tool does not lead to ejection while the pod answers pings. Some servers answer no pings while a tool runs. For
such a server, the health table remembers the longest silence after which a pod answered again; only a longer silence
ejects a pod.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from fairlead_mcp.http.dial import Address

PING_AFTER: Final = 1.0
"""Seconds of silence, while a call waits, after which a pod is pinged."""
PING_SECONDS: Final = 1.0
"""Timeout of a ping."""
MAX_PING_PAUSE: Final = 5.0
"""Longest pause between pings during one slow call. The pause doubles with each answered ping."""
FIRST_PAUSE: Final = 1.0
"""First pause between pings of an ejected pod."""
MAX_PAUSE: Final = 30.0
"""Longest pause between pings of an ejected pod. The pause doubles after each failed ping. A random part of up to a
fifth is subtracted from it.
"""
STEADY_SECONDS: Final = 60.0
"""Time that a pod has to be healthy before its next ejection starts with FIRST_PAUSE again."""
MAX_PATIENCE: Final = 30.0
"""Upper bound of `PodHealthTable.patience`."""
MAX_PODS: Final = 256
"""Limit on the pods in a `PodHealthTable`."""


class PodHealth:
    """Health of one pod, as observed by this gateway."""

    __slots__ = (
        "_pause",
        "_ping_pause",
        "_returned_at",
        "ejected",
        "has_answered",
        "next_ping_at",
        "ping_answered_at",
        "pinging",
        "silent_since",
    )

    def __init__(self) -> None:
        self.ejected = False
        """Whether new calls go to other pods."""
        self.has_answered = False
        """Whether the pod has ever answered. An address that never has may be unreachable from this gateway."""
        self.pinging = False
        self.ping_answered_at = 0.0
        """When the pod last answered a ping."""
        self.silent_since = 0.0
        """Start of the silence that led to the ejection; infinity if the pod refuses connections."""
        self.next_ping_at = 0.0
        """When to ping the pod next, while it is ejected."""
        self._returned_at = 0.0
        self._pause = 0.0
        self._ping_pause = PING_AFTER

    def ping_due(self, now: float, oldest: float, answered_at: float) -> bool:
        """Whether to ping the pod. `oldest` is when the oldest call in flight was sent, `answered_at` when the pod last
        answered a call.
        """
        if self.pinging:
            return False
        if self.ejected:
            return now >= self.next_ping_at
        if answered_at > self.ping_answered_at:
            self._ping_pause = PING_AFTER
        since = max(oldest, answered_at)
        if now - since < PING_AFTER:
            return False
        return self.ping_answered_at < since or now - self.ping_answered_at >= self._ping_pause

    def record_answer(self, now: float) -> None:
        """Record the answer to a ping."""
        self._ping_pause = min(self._ping_pause * 2, MAX_PING_PAUSE) if self.ping_answered_at else PING_AFTER
        self.ping_answered_at = now
        self.has_answered = True

    def eject(self, now: float, since: float, random: float) -> None:
        """Eject the pod, which was silent since `since`, or extend its ejection. `random` is in [0, 1)."""
        if not self.ejected:
            self.silent_since = since
            if now - self._returned_at > STEADY_SECONDS:
                self._pause = 0.0
        self.ejected = True
        self._pause = min(self._pause * 2, MAX_PAUSE) if self._pause else FIRST_PAUSE
        self.next_ping_at = now + self._pause * (1.0 - random / 5)

    def readmit(self, now: float) -> None:
        self.ejected = False
        self._returned_at = now


class PodHealthTable:
    """Health of all pods of one server, shared by its upstreams. `random` returns values in [0, 1)."""

    def __init__(self, random: Callable[[], float]) -> None:
        self.random = random
        self.concurrent = False
        """Whether the server has ever answered a request while another request was in progress."""
        self._patience = PING_AFTER
        self._pods: dict[Address, PodHealth] = {}

    def of(self, address: Address) -> PodHealth:
        health = self._pods.get(address)
        if health is None:
            health = self._pods[address] = PodHealth()
            if len(self._pods) > MAX_PODS:
                self._pods.pop(next(iter(self._pods)))
        return health

    def retain(self, addresses: Collection[Address]) -> None:
        """Remove all pods with other addresses."""
        for address in [address for address in self._pods if address not in addresses]:
            del self._pods[address]

    @property
    def patience(self) -> float:
        """Seconds of silence, while a call waits, after which a failed ping ejects the pod."""
        return PING_AFTER if self.concurrent else self._patience

    def learn_patience(self, silence: float) -> None:
        """Raise `patience`, because a pod that was ejected after `silence` seconds has answered: it was only busy."""
        self._patience = min(max(self._patience, silence * 2), MAX_PATIENCE)

    def counts(self) -> tuple[int, int]:
        """Numbers of serving and of ejected pods, without pods that have never answered."""
        observed_pods = [health for health in list(self._pods.values()) if health.has_answered]
        ejected = sum(health.ejected for health in observed_pods)
        return len(observed_pods) - ejected, ejected
