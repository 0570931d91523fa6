"""Limits how often the operator repairs an object that other clients keep changing: the first repairs are immediate,
later repairs of the object follow at growing intervals.

Another controller, a self-healing GitOps tool, `kubectl` in a loop, or an older Fairlead may undo every repair at once.
Without a limit, that client and the operator would send as many writes as the API server accepts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from fairlead_api.meta import MANAGER, ServerKey
from fairlead_api.v1alpha1.causes import Cause
from fairlead_kube.client import Json
from fairlead_kube.resources import Kind
from fairlead_operator.ports import ConditionVerdict

logger = logging.getLogger(__name__)
_encode = msgspec.json.Encoder(order="deterministic").encode

IMMEDIATE_REPAIRS: Final = 3
"""Number of repairs of one object without a pause."""
FIRST_PAUSE_S: Final = 2.0
"""First pause before a repair; each further pause is twice as long."""
LONGEST_PAUSE_S: Final = 60.0
CALM_S: Final = 600.0
"""Seconds without a repair after which the count of an object's repairs starts over."""
MANAGER_LIMIT: Final = 128
"""Maximum characters of a field manager's name in a message."""


class WriteTarget(NamedTuple):
    """An object, or a subresource of an object, that the operator writes."""

    kind: Kind
    namespace: str
    name: str
    subresource: str = ""

    def __str__(self) -> str:
        status = f"{self.subresource} of " if self.subresource else ""
        return f"{status}{self.kind.kind} {self.namespace}/{self.name}" if self.namespace else f"{status}{self.name}"


class Writers(NamedTuple):
    """The last field managers of an object, from `metadata.managedFields`; times in RFC 3339, UTC."""

    own_at: str = ""
    """Time of the last change by Fairlead's field manager."""
    other_manager: str = ""
    """Another field manager: the one that made the last change."""
    other_manager_at: str = ""
    """Time of the last change by `other_manager`."""

    @classmethod
    def of(cls, item: Json, subresource: str = "") -> Writers:
        """Read an API object."""
        own_at = other_manager = other_manager_at = ""
        for entry in item["metadata"].get("managedFields") or ():
            if (entry.get("subresource") or "") != subresource:
                continue
            manager, time = str(entry.get("manager") or ""), str(entry.get("time") or "")
            if manager == MANAGER:
                own_at = max(own_at, time)
            elif time >= other_manager_at:
                other_manager, other_manager_at = manager[:MANAGER_LIMIT], time
        return cls(own_at, other_manager, other_manager_at)

    def last_manager_after(self, own_at: str) -> str:
        """The field manager that changed the object after this operator's write at `own_at`; empty if unknown, because
        the object was deleted, or fields were only removed.

        Fairlead's own field manager means that another Fairlead operator changed the object.
        """
        if self.other_manager and self.other_manager_at >= own_at:
            return self.other_manager
        return MANAGER if self.own_at > own_at else ""


@dataclass
class _Repairs:
    """Recent repairs of one object."""

    owner: ServerKey | None
    """The server that the object belongs to; None if it belongs to the installation."""
    manager: str
    """Field manager that made the last change that had to be repaired; empty if unknown."""
    count: int = 0
    next_at: float = 0.0
    """Earliest time of the next repair, on the event loop's clock."""
    due: asyncio.TimerHandle | None = None
    """Timer of the postponed repair."""
    calm: asyncio.TimerHandle | None = None
    """Timer that forgets the repairs after `CALM_S` seconds."""

    @property
    def is_disputed(self) -> bool:
        """Whether another client keeps undoing the operator's writes."""
        return self.count > IMMEDIATE_REPAIRS


class DriftRepairs:
    """Counts and delays the repairs of all objects of one operator. `on_repair(kind)` is called for each repair."""

    def __init__(self, on_repair: Callable[[Kind], None] = lambda kind: None) -> None:
        self._on_repair = on_repair
        self._repairs: dict[WriteTarget, _Repairs] = {}
        """Repairs of objects that were repaired within the last `CALM_S` seconds."""
        self._last_writes: dict[WriteTarget, tuple[int, str]] = {}
        """Hash of each object's last write, and its time by the API server."""

    def __repr__(self) -> str:
        return f"<DriftRepairs of {len(self._repairs)} objects>"

    async def write(
        self,
        target: WriteTarget,
        content: bytes,
        writers_before: Writers | None,
        wake: Callable[[], None],
        send: Callable[[], Awaitable[Json]],
        owner: ServerKey | None = None,
    ) -> Json | None:
        """Send a write, and return the API server's answer. A write with the same `content` as the last write is a
        repair. If a repair comes too early, it is not sent: the method returns None, and calls `wake` when the repair
        may be sent.

        `writers_before` are the writers of the replaced object. Raises what `send` raises.
        """
        last_hash, own_at = self._last_writes.get(target, (None, ""))
        is_repair = last_hash == hash(content)
        if is_repair and self.postpone(target, wake):
            return None
        answer = await send()
        if is_repair:
            self.count_repair(
                target, writers_before.last_manager_after(own_at) if writers_before is not None else "", wake, owner
            )
        self._last_writes[target] = hash(content), Writers.of(answer, target.subresource).own_at
        return answer

    def seconds_until_repair(self, target: WriteTarget) -> float:
        """Seconds until the object may be repaired again."""
        repairs = self._repairs.get(target)
        return max(0.0, repairs.next_at - asyncio.get_running_loop().time()) if repairs is not None else 0.0

    def postpone(self, target: WriteTarget, wake: Callable[[], None]) -> bool:
        """Postpone the repair of an object if it is too early, and return whether it was postponed. `wake` is called
        when a postponed repair may be sent.
        """
        pause, repairs = self.seconds_until_repair(target), self._repairs.get(target)
        if not pause or repairs is None:
            return False
        if repairs.due is None:

            def due() -> None:
                repairs.due = None
                wake()

            repairs.due = asyncio.get_running_loop().call_later(pause, due)
        return True

    def count_repair(
        self, target: WriteTarget, manager: str, wake: Callable[[], None], owner: ServerKey | None = None
    ) -> None:
        """Count a repair of an object that the field manager `manager` had changed (empty: unknown).

        `wake` is called when a disputed object has not been repaired for `CALM_S` seconds.
        """
        self._on_repair(target.kind)
        loop = asyncio.get_running_loop()
        repairs = self._repairs.setdefault(target, _Repairs(owner, manager))
        repairs.count += 1
        repairs.manager = manager or repairs.manager
        if repairs.count >= IMMEDIATE_REPAIRS:
            pause = FIRST_PAUSE_S * 2.0 ** min(repairs.count - IMMEDIATE_REPAIRS, 16)
            repairs.next_at = loop.time() + min(LONGEST_PAUSE_S, pause)
        if repairs.count == IMMEDIATE_REPAIRS + 1:
            logger.warning("%s", _sentence(target, repairs.manager))

        def calm() -> None:
            del self._repairs[target]
            if repairs.is_disputed:
                logger.info("%s is no longer changed by others", target)
                wake()

        if repairs.calm is not None:
            repairs.calm.cancel()
        repairs.calm = loop.call_later(CALM_S, calm)

    def verdict(self, owner: ServerKey) -> ConditionVerdict | None:
        """Verdict about the clients that keep undoing the operator's writes for a server; None without such clients."""
        sentences = [
            _sentence(target, repairs.manager)
            for target, repairs in self._repairs.items()
            if repairs.owner == owner and repairs.is_disputed
        ]
        return ConditionVerdict(True, Cause.WRITES_UNDONE, ". ".join(sorted(sentences))) if sentences else None

    def forget(self, targets: Collection[WriteTarget]) -> None:
        """Forget the writes and repairs of objects that are no longer wanted."""
        for target in targets:
            self._last_writes.pop(target, None)
            self._drop(target)

    def close(self) -> None:
        """Cancel all timers, so that no `wake` is called later."""
        for target in list(self._repairs):
            self._drop(target)

    def _drop(self, target: WriteTarget) -> None:
        repairs = self._repairs.pop(target, None)
        if repairs is not None:
            for timer in (repairs.due, repairs.calm):
                if timer is not None:
                    timer.cancel()


def content_of(status: Json) -> bytes:
    """A status without its transition times, encoded to be compared with another status."""
    conditions = [{**condition, "lastTransitionTime": None} for condition in status.get("conditions") or ()]
    return _encode({**status, "conditions": conditions})


def _sentence(target: WriteTarget, manager: str) -> str:
    """Sentence about a disputed object. It has no counts, because each new count would cause a write of the status."""
    client = f"field manager {manager}"
    if manager == MANAGER:
        client = f"another operator of Fairlead (field manager {MANAGER})"
    elif not manager:
        client = "a client that its managedFields do not name, because it only deletes or removes fields"
    limit = f"Fairlead repairs it at most every {LONGEST_PAUSE_S:g} s"
    return f"{target} is changed or deleted again and again by {client}, and {limit}"
