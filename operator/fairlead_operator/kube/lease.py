"""Leader election by a Lease of our own: its holder runs the leader's tasks, and nobody else writes.

The rules that make two leaders impossible, whatever the clocks say:

- Whether someone else's lease has run out is judged by how long it stood unchanged on *our* monotonic clock, never by
  the times written in it.
- A leader counts from the moment *before* it sent its last good renewal, and stops writing (`leading()` is False) after
  `deadline` seconds; others wait `duration` seconds. A write ends before they have passed (`allowance()`), and one that
  has not left by the deadline never does: see `fence`.
- When `deadline` passes, the leader's tasks are cancelled and it contends again. If they do not end, because something
  blocks the event loop or swallows the cancellation, a watchdog thread ends the process.
- A lease that yields to another one (`superior`) looks for it before each renewal, and once more after it was taken: of
  two that are taken at the same time the one that yields sees the other.
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from fairlead_kube.client import Json, Kube
from fairlead_kube.errors import ApiError, Conflict, NotFound
from fairlead_kube.fence import boottime
from fairlead_kube.resources import LEASES

logger = logging.getLogger(__name__)

IDENTITY_LIMIT: Final = 600
"""Characters of an identity that are shown: others may write leases too."""


@dataclass(frozen=True)
class Timings:
    """Seconds. The difference of `deadline` and `duration` is what a write that left at the last moment may take."""

    duration: float = 15.0
    renew: float = 2.0
    deadline: float = 10.0
    grace: float = 3.0
    """How long cancelled tasks may take to end before the process is ended instead."""


class Expiry:
    """Judges whether the holders of leases have stopped renewing, by our own monotonic clock."""

    def __init__(self, duration: float) -> None:
        self._duration = duration
        self._seen: dict[tuple[str, str], tuple[tuple[object, ...], float]] = {}
        """Holder and renewal of each lease as last seen, and when they changed; by namespace and name."""

    def has_expired(self, lease: Json, now: float) -> bool:
        """Whether nobody holds the lease, or it stood unchanged for as long as it says that it lasts."""
        metadata, spec = lease["metadata"], lease.get("spec") or {}
        key = (metadata["namespace"], metadata["name"])
        if not spec.get("holderIdentity"):
            self._seen.pop(key, None)
            return True
        record = (spec["holderIdentity"], spec.get("renewTime"), spec.get("leaseTransitions"))
        seen, since = self._seen.get(key, ((), now))
        if seen != record:
            self._seen[key] = record, now
            return False
        return now - since >= float(spec.get("leaseDurationSeconds") or self._duration)


Superior = Callable[[float], Awaitable[str]]
"""Gives the identity of the holder of a lease that ours yields to, empty where nobody holds one, at a time of the
monotonic clock. Raises ApiError."""


async def no_superior(now: float) -> str:
    """Default of `superior`: the lease yields to no other."""
    return ""


@dataclass(frozen=True, kw_only=True)
class LeaseOptions:
    """Timings of a lease, and those that it yields to."""

    timings: Timings = field(default_factory=Timings)
    monotonic: Callable[[], float] = boottime
    rng: random.Random = field(default_factory=random.Random)
    end_process: Callable[[], None] | None = None
    owners: Sequence[Json] = ()
    """Owner references of the Lease object."""
    family: str = ""
    """Holders whose identity begins with it are kept apart by another lease, which this process holds: it takes theirs
    over at once.
    """
    superior: Superior = no_superior
    explain: Callable[[str], str] = "the lease is held by {}".format
    """Sentence that says for which holder this process waits."""


class Lease:
    """Contends for one Lease object and runs `lead` while it is held."""

    def __init__(
        self,
        kube: Kube,
        namespace: str,
        name: str,
        identity: str,
        options: LeaseOptions | None = None,
    ) -> None:
        options = options or LeaseOptions()
        timings = options.timings
        self._kube = kube
        self._family = options.family
        self._superior = options.superior
        self._explain = options.explain
        self._owners = list(options.owners)
        self._namespace = namespace
        self._name = name
        self.identity = identity
        self._timings = timings
        self._monotonic = options.monotonic
        self._rng = options.rng
        self._until = 0.0
        self._held: Json | None = None
        self._expiry = Expiry(timings.duration)
        self._watchdog = Watchdog(timings.grace, options.end_process)
        self._trouble = ""
        self.holder = ""
        """Identity of the other one that this process waits for; empty while it holds the lease, or does not know."""

    def __repr__(self) -> str:
        return f"<Lease {self._namespace}/{self._name} identity={self.identity} leading={self.leading()}>"

    @property
    def waiting(self) -> bool:
        """The API server answered, and somebody else holds the lease, or one that it yields to."""
        return bool(self.holder)

    @property
    def explanation(self) -> str:
        """Sentence that says for whom this process waits; empty where it does not."""
        return self._explain(self.holder) if self.holder else ""

    def leading(self) -> bool:
        """Whether this process may write at this moment."""
        return self._monotonic() < self._until

    def allowance(self) -> float:
        """Seconds until others may lead, with a tenth of the gap to spare; 0 when this process may not write."""
        now, timings = self._monotonic(), self._timings
        return 0.0 if now >= self._until else self._until - now + (timings.duration - timings.deadline) * 0.9

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Contend until cancelled; each time the lease is held, run `lead`, and cancel it when the lease is lost.

        Cancelled while leading, it ends `lead` first and then releases the lease. An exception out of `lead` is raised,
        after a release: the process is of no use then.
        """
        while True:
            try:
                await self._acquire()
            finally:
                self.holder = ""
            logger.info("holding the lease %s as %s", self._name, self.identity)
            task = asyncio.ensure_future(lead())
            try:
                await self._keep(task)
            finally:
                await self._stop(task)
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error
            logger.warning("leadership lost; contending again")

    async def _acquire(self) -> None:
        while not (await self._try() and await self._first()):  # noqa: ASYNC110 - the event is in another process
            await asyncio.sleep(self._period() / 2)  # looking costs little, and a lease that is given up waits for it

    async def _first(self) -> bool:
        """Whether the lease that was just taken yields to no other; else, or where that is not known, give it up."""
        try:
            if not (other := await self._superior(self._monotonic())):
                return True
            self._wait_for(other)
        except ApiError as error:
            self._complain(error)
        await self._release()
        self._held = None
        return False

    async def _keep(self, task: asyncio.Future[None]) -> None:
        """Renew until the lease is lost or `task` ends."""
        while not task.done():
            await asyncio.wait([task], timeout=self._period())
            if task.done():
                return
            try:
                left = max(0.0, self._until - self._monotonic())
                async with asyncio.timeout(left):
                    if not await self._try():
                        if self._held is None or self.waiting:
                            return
                        continue
            except TimeoutError:
                return
            if not self.leading():
                return

    async def _stop(self, task: asyncio.Future[None]) -> None:
        """End the leader's tasks within the grace, then give the lease up if it is still ours."""
        task.cancel()
        self._watchdog.arm()
        try:
            await asyncio.wait([task])
        finally:
            self._watchdog.disarm()
        if not task.cancelled():
            task.exception()  # retrieved, for callers that look at it later
        if self.leading() or self.waiting:  # the second: it yields, and the holder that it yields to waits for that
            await self._release()
        self._until = 0.0
        self._held = None

    def _period(self) -> float:
        return self._timings.renew * (0.9 + 0.2 * self._rng.random())

    async def _try(self) -> bool:
        """One attempt to take or renew. False: not now; `_held` is None when it is certain that another holds it."""
        before = self._monotonic()
        try:
            lease = self._held or await self._read()
            if other := self._other_holder(lease, before):
                self._held = None
            else:
                other = await self._superior(before)
            if other:
                self._until = 0.0
                self._wait_for(other)
                return False
            self._held = await self._write(lease)
        except Conflict:
            self._held = None
            return await self._after_conflict()
        except ApiError as error:
            self._complain(error)
            self.holder = ""
            return False
        self._trouble = ""
        self.holder = ""
        self._until = before + self._timings.deadline
        return True

    async def _after_conflict(self) -> bool:
        """Somebody wrote since we read. If it was not to take the lease from us, the next try renews."""
        try:
            lease = await self._read()
        except ApiError as error:
            self._complain(error)
            return False
        self._held = lease if self._ours(lease) and self.leading() else None
        if self._held is None:
            self._until = 0.0  # whatever time was left: somebody else may be writing already
        return False

    async def _read(self) -> Json:
        try:
            return await self._kube.get(LEASES, self._namespace, self._name)
        except NotFound:
            metadata: Json = {"name": self._name, "namespace": self._namespace}
            if self._owners:
                metadata["ownerReferences"] = self._owners
            return {"metadata": metadata, "spec": {}}

    def _other_holder(self, lease: Json, now: float) -> str:
        """Identity of somebody else who holds the lease; empty where it can be taken."""
        if self._ours(lease):
            return ""
        holder = str(lease["spec"].get("holderIdentity") or "")
        if self._family and holder.startswith(self._family):
            return ""
        return "" if self._expiry.has_expired(lease, now) else holder

    def _ours(self, lease: Json) -> bool:
        return bool(lease["spec"].get("holderIdentity") == self.identity)

    async def _write(self, lease: Json) -> Json:
        now = datetime.now(UTC).isoformat(timespec="microseconds")
        spec = dict(lease["spec"])
        if not self._ours(lease):
            spec["acquireTime"] = now
            spec["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + 1
        spec.update(holderIdentity=self.identity, renewTime=now)
        spec["leaseDurationSeconds"] = max(1, round(self._timings.duration))
        body = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": lease["metadata"], "spec": spec}
        if "resourceVersion" not in lease["metadata"]:
            return await self._kube.create(LEASES, self._namespace, body)
        return await self._kube.replace(LEASES, self._namespace, self._name, body)

    async def _release(self) -> None:
        """Let the next one take over at once. What goes wrong costs the others the lease's duration, no more."""
        self._until = 0.0
        lease = self._held
        if lease is None:
            return
        lease = {**lease, "spec": {**lease["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}}
        try:
            async with asyncio.timeout(self._timings.grace / 2):  # an outer lease's watchdog may be counting
                await self._kube.replace(LEASES, self._namespace, self._name, lease)
        except (ApiError, TimeoutError) as error:
            logger.warning("the lease %s was not released: %s", self._name, str(error) or "no answer in time")

    def _wait_for(self, holder: str) -> None:
        holder = holder[:IDENTITY_LIMIT]
        if holder != self.holder:
            self.holder = holder
            logger.warning("waiting: %s", self.explanation)

    def _complain(self, error: ApiError) -> None:
        if str(error) != self._trouble:
            self._trouble = str(error)
            logger.warning("cannot renew or take the lease: %s", error)


class Watchdog:
    """Ends the process when cancelled tasks do not end in time. A thread, because the event loop may be what hangs."""

    def __init__(self, grace: float, end_process: Callable[[], None] | None) -> None:
        self._grace = grace
        self._end_process = end_process
        self._timer: threading.Timer | None = None

    def arm(self) -> None:
        """Start counting; nothing happens where there is nothing to call."""
        if self._end_process is not None:
            self._timer = threading.Timer(self._grace, self._end_process)
            self._timer.daemon = True
            self._timer.start()

    def disarm(self) -> None:
        """The tasks have ended."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
