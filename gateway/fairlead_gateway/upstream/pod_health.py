"""Decides which pods of one server get calls: a pod is left while it answers no ping beside calls that wait for it.

Pure module. Times are in seconds of one clock. A slow tool alone says nothing of its pod, as long as pings are
answered beside it. Some servers answer nothing at all while a tool runs: how long they were silent before, without
being dead, is remembered, and a pod is left only after a longer silence.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from fairlead_mcp.http.dial import Address

PING_AFTER: Final = 1.0
"""Least time without a sign of life, beside a call that waits, before a pod is pinged."""
PING_SECONDS: Final = 1.0
"""How long a ping may take."""
MAX_PING_PAUSE: Final = 5.0
"""Between pings beside one slow call: doubled with each that is answered while nothing else is."""
FIRST_PAUSE: Final = 1.0
MAX_PAUSE: Final = 30.0
"""Between pings of a pod that was left: doubled after each that is not answered, and cut by up to a fifth at random."""
STEADY_SECONDS: Final = 60.0
"""How long a pod has to answer until its next pause is the first again."""
MAX_PATIENCE: Final = 30.0
"""Longest silence, beside a call that waits, of a pod that is not left."""
MAX_PODS: Final = 256
"""Pods that are remembered."""


class PodHealth:
    """One pod, as the gateway sees it."""

    __slots__ = (
        "_pause",
        "_ping_pause",
        "_returned_at",
        "heard_at",
        "left",
        "pinging",
        "seen",
        "silent_since",
        "try_at",
    )

    def __init__(self) -> None:
        self.left = False
        """Whether it gets no new calls that another pod can take."""
        self.seen = False
        """Whether it has ever answered: an address that never did may lead nowhere from here."""
        self.pinging = False
        self.heard_at = 0.0
        """When a ping was answered last."""
        self.silent_since = 0.0
        """Last sign of life before it was left, or when the call was sent; infinity where it refuses connections."""
        self.try_at = 0.0
        """Next ping of a pod that was left."""
        self._returned_at = 0.0
        self._pause = 0.0
        self._ping_pause = PING_AFTER

    def ping_due(self, now: float, oldest: float, heard: float) -> bool:
        """Whether to ping it: `oldest` is when the call that waits longest was sent, `heard` the last answer to one."""
        if self.pinging:
            return False
        if self.left:
            return now >= self.try_at
        if heard > self.heard_at:
            self._ping_pause = PING_AFTER
        since = max(oldest, heard)
        if now - since < PING_AFTER:
            return False
        return self.heard_at < since or now - self.heard_at >= self._ping_pause

    def record_answer(self, now: float) -> None:
        """A ping was answered."""
        self._ping_pause = min(self._ping_pause * 2, MAX_PING_PAUSE) if self.heard_at else PING_AFTER
        self.heard_at = now
        self.seen = True

    def leave(self, now: float, since: float, random: float) -> None:
        """Take it out, or leave it out for longer; it was silent since `since`."""
        if not self.left:
            self.silent_since = since
            if now - self._returned_at > STEADY_SECONDS:
                self._pause = 0.0
        self.left = True
        self._pause = min(self._pause * 2, MAX_PAUSE) if self._pause else FIRST_PAUSE
        self.try_at = now + self._pause * (1.0 - random / 5)

    def take_back(self, now: float) -> None:
        self.left = False
        self._returned_at = now


class PodHealthTable:
    """Health of all pods of one server, over all its sessions. `random` gives [0, 1)."""

    def __init__(self, random: Callable[[], float]) -> None:
        self.random = random
        self.concurrent = False
        """Whether the server is known to answer while a call is in progress."""
        self._patience = PING_AFTER
        self._pods: dict[Address, PodHealth] = {}

    def of(self, address: Address) -> PodHealth:
        health = self._pods.get(address)
        if health is None:
            health = self._pods[address] = PodHealth()
            if len(self._pods) > MAX_PODS:
                self._pods.pop(next(iter(self._pods)))
        return health

    def keep(self, addresses: Collection[Address]) -> None:
        """Forget all other pods."""
        for address in [address for address in self._pods if address not in addresses]:
            del self._pods[address]

    @property
    def patience(self) -> float:
        """Seconds of silence, beside a call that waits, after which an unanswered ping counts."""
        return PING_AFTER if self.concurrent else self._patience

    def learn_patience(self, silence: float) -> None:
        """A pod that was left after `silence` seconds answered after all: it may have been at work."""
        self._patience = min(max(self._patience, silence * 2), MAX_PATIENCE)

    def counts(self) -> tuple[int, int]:
        """Pods that get calls, and those that were left."""
        seen = [health for health in list(self._pods.values()) if health.seen]
        left = sum(health.left for health in seen)
        return len(seen) - left, left
