"""Pace at which objects are put back that others change: at once after an edit, ever more seldom after the same again.

Another controller, a GitOps tool that heals itself, `kubectl` in a loop, or an older Fairlead beside this one undoes
every repair as soon as it is made. Without a pace the two send as many writes as the API server takes.
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

AT_ONCE: Final = 3
"""Repairs of one object that are made at once."""
FIRST_PAUSE_S: Final = 2.0
"""Pause before the next one; each is twice the one before."""
LONGEST_PAUSE_S: Final = 60.0
CALM_S: Final = 600.0
"""Seconds after its last repair when an object counts as left alone again."""
MANAGER_LIMIT: Final = 128


class WriteTarget(NamedTuple):
    """Object that is written, or a subresource of it."""

    kind: Kind
    namespace: str
    name: str
    subresource: str = ""

    def __str__(self) -> str:
        status = f"{self.subresource} of " if self.subresource else ""
        return f"{status}{self.kind.kind} {self.namespace}/{self.name}" if self.namespace else f"{status}{self.name}"


class Writers(NamedTuple):
    """Field managers that changed an object last, as `metadata.managedFields` has them; times in RFC 3339, UTC."""

    own_at: str = ""
    """When our own name did."""
    other: str = ""
    other_at: str = ""

    @classmethod
    def of(cls, item: Json, subresource: str = "") -> Writers:
        """Read an API object."""
        own_at = other = other_at = ""
        for entry in item["metadata"].get("managedFields") or ():
            if (entry.get("subresource") or "") != subresource:
                continue
            manager, time = str(entry.get("manager") or ""), str(entry.get("time") or "")
            if manager == MANAGER:
                own_at = max(own_at, time)
            elif time >= other_at:
                other, other_at = manager[:MANAGER_LIMIT], time
        return cls(own_at, other, other_at)

    def since(self, own_at: str) -> str:
        """Manager that changed it after our write of `own_at`; empty where that cannot be told: of a deletion, and of
        fields that were only removed.

        Our own name stands for another operator of Fairlead.
        """
        if self.other and self.other_at >= own_at:
            return self.other
        return MANAGER if self.own_at > own_at else ""


@dataclass
class _Repairs:
    """Repairs of one object."""

    owner: ServerKey | None
    by: str
    count: int = 0
    next_at: float = 0.0
    """Earliest moment of the next one, by the clock of the loop."""
    due: asyncio.TimerHandle | None = None
    calm: asyncio.TimerHandle | None = None

    @property
    def disputed(self) -> bool:
        return self.count > AT_ONCE


class DriftRepairs:
    """Repairs of the objects of one operator. `undone(kind)` is called for each of them."""

    def __init__(self, undone: Callable[[Kind], None] = lambda kind: None) -> None:
        self._undone = undone
        self._repairs: dict[WriteTarget, _Repairs] = {}
        """Repairs of the last `CALM_S` seconds."""
        self._written: dict[WriteTarget, tuple[int, str]] = {}
        """Hash of what was written last, and when the API server says that was."""

    def __repr__(self) -> str:
        return f"<DriftRepairs of {len(self._repairs)} objects>"

    async def write(
        self,
        target: WriteTarget,
        content: bytes,
        before: Writers | None,
        wake: Callable[[], None],
        send: Callable[[], Awaitable[Json]],
        owner: ServerKey | None = None,
    ) -> Json | None:
        """Send a write, unless it repeats the last one too early: then None, and `wake` is called when it is time.

        `before` is who wrote the object that is replaced, `content` what decides whether two writes are the same.
        Raises what `send` does.
        """
        last, own_at = self._written.get(target, (None, ""))
        repeats = last == hash(content)
        if repeats and self.held_back(target, wake):
            return None
        answer = await send()
        if repeats:
            self.count_repair(target, before.since(own_at) if before is not None else "", wake, owner)
        self._written[target] = hash(content), Writers.of(answer, target.subresource).own_at
        return answer

    def pause(self, target: WriteTarget) -> float:
        """Seconds until the object may be put back again."""
        repairs = self._repairs.get(target)
        return max(0.0, repairs.next_at - asyncio.get_running_loop().time()) if repairs is not None else 0.0

    def held_back(self, target: WriteTarget, wake: Callable[[], None]) -> bool:
        """Whether it is too early to put the object back; `wake` is then called once it is not."""
        pause, repairs = self.pause(target), self._repairs.get(target)
        if not pause or repairs is None:
            return False
        if repairs.due is None:

            def due() -> None:
                repairs.due = None
                wake()

            repairs.due = asyncio.get_running_loop().call_later(pause, due)
        return True

    def count_repair(
        self, target: WriteTarget, by: str, wake: Callable[[], None], owner: ServerKey | None = None
    ) -> None:
        """The object was put back, after `by` had changed it (empty: nobody knows who). `wake` is called when it was
        disputed and is left alone again.
        """
        self._undone(target.kind)
        loop = asyncio.get_running_loop()
        repairs = self._repairs.setdefault(target, _Repairs(owner, by))
        repairs.count += 1
        repairs.by = by or repairs.by
        if repairs.count >= AT_ONCE:
            pause = FIRST_PAUSE_S * 2.0 ** min(repairs.count - AT_ONCE, 16)
            repairs.next_at = loop.time() + min(LONGEST_PAUSE_S, pause)
        if repairs.count == AT_ONCE + 1:
            logger.warning("%s", _sentence(target, repairs.by))

        def calm() -> None:
            del self._repairs[target]
            if repairs.disputed:
                logger.info("%s is left alone again", target)
                wake()

        if repairs.calm is not None:
            repairs.calm.cancel()
        repairs.calm = loop.call_later(CALM_S, calm)

    def verdict(self, owner: ServerKey) -> ConditionVerdict | None:
        """Who undoes what is written for a server; None while nobody does."""
        disputes = [(t, r) for t, r in self._repairs.items() if r.owner == owner and r.disputed]
        if not disputes:
            return None
        message = ". ".join(sorted(_sentence(target, repairs.by) for target, repairs in disputes))
        return ConditionVerdict(True, Cause.WRITES_UNDONE, message)

    def forget(self, targets: Collection[WriteTarget]) -> None:
        """Drop what is remembered of objects that are no longer wanted."""
        for target in targets:
            self._written.pop(target, None)
            self._drop(target)

    def close(self) -> None:
        """Call nobody any more."""
        for target in list(self._repairs):
            self._drop(target)

    def _drop(self, target: WriteTarget) -> None:
        repairs = self._repairs.pop(target, None)
        if repairs is not None:
            for timer in (repairs.due, repairs.calm):
                if timer is not None:
                    timer.cancel()


def content_of(status: Json) -> bytes:
    """Status without its times of transition: equal for two that say the same."""
    conditions = [{**each, "lastTransitionTime": None} for each in status.get("conditions") or ()]
    return _encode({**status, "conditions": conditions})


def _sentence(target: WriteTarget, by: str) -> str:
    """Who undoes what; without numbers, which would make each status another one."""
    who = f"field manager {by}"
    if by == MANAGER:
        who = f"another operator of Fairlead (field manager {MANAGER})"
    elif not by:
        who = "somebody whom its managedFields do not name, as they name nobody who only removes"
    pace = f"put back once in {LONGEST_PAUSE_S:g} s at most"
    return f"{target} is changed or deleted again and again by {who}, and {pace}"
