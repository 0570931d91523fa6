"""Leader election by a Lease object: only its holder runs the leader's tasks and writes.

The rules that make two leaders impossible, whatever the wall clocks of the machines show:

- Another holder's lease has expired when it stayed unchanged for its duration by *this process's* monotonic clock. The
  times written in the lease are never compared.
- `deadline` and `duration` count from the moment *before* the last successful renewal was sent. The leader stops
  writing (`leading()` is False) after `deadline` seconds; other replicas wait `duration` seconds. Each write ends
  before another replica may lead (`allowance()`), and a write that was not sent by the deadline is never sent: see
  `fence`.
- When `deadline` passes, the leader's tasks are cancelled and the replica contends again. If the tasks do not end,
  because something blocks the event loop or suppresses the cancellation, a watchdog thread ends the process.
- A lease may be subordinate to a superior lease (`superior_holder`): it must not be held while another process holds
  the superior lease. The holder of the subordinate lease therefore reads the superior lease before each renewal, and
  once more after the acquisition, and releases its own lease if the superior lease has a holder. This holds even if
  both leases are acquired at the same time.
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
from fairlead_operator.kube.owners import add_owners, not_adopted

logger = logging.getLogger(__name__)

IDENTITY_LIMIT: Final = 600
"""Maximum characters of a holder's identity in messages: other clients may write leases of any length."""


@dataclass(frozen=True)
class Timings:
    """Timings in seconds. A write that is sent just before `deadline` may take `duration` minus `deadline`."""

    duration: float = 15.0
    """Time without a renewal after which other replicas may take the lease."""
    renew: float = 2.0
    """Interval of renewals."""
    deadline: float = 10.0
    """Time without a renewal after which the leader stops."""
    grace: float = 3.0
    """Seconds that cancelled tasks may take to end before the watchdog ends the process."""


class Expiry:
    """Detects expired leases by this process's monotonic clock."""

    def __init__(self, duration: float) -> None:
        self._duration = duration
        self._observations: dict[tuple[str, str], tuple[tuple[object, ...], float]] = {}
        """Last seen holder and renewal of each lease, and when they changed; the key is namespace and name."""

    def has_expired(self, lease: Json, now: float) -> bool:
        """Whether the lease has no holder, or stayed unchanged for its `leaseDurationSeconds`."""
        metadata, spec = lease["metadata"], lease.get("spec") or {}
        key = (metadata["namespace"], metadata["name"])
        if not spec.get("holderIdentity"):
            self._observations.pop(key, None)
            return True
        current_renewal = (spec["holderIdentity"], spec.get("renewTime"), spec.get("leaseTransitions"))
        previous_renewal, unchanged_since = self._observations.get(key, ((), now))
        if previous_renewal != current_renewal:
            self._observations[key] = current_renewal, now
            return False
        return now - unchanged_since >= float(spec.get("leaseDurationSeconds") or self._duration)


SuperiorHolder = Callable[[float], Awaitable[str]]
"""Returns the holder of the superior lease; empty without a holder. The argument is the monotonic time. Raises
ApiError.
"""


async def no_superior_holder(now: float) -> str:
    """Default of `superior_holder`: there is no superior lease."""
    return ""


@dataclass(frozen=True, kw_only=True)
class LeaseOptions:
    """Timings of a lease, its owners, and its relation to other leases."""

    timings: Timings = field(default_factory=Timings)
    monotonic: Callable[[], float] = boottime
    rng: random.Random = field(default_factory=random.Random)
    end_process: Callable[[], None] | None = None
    """Ends the process when the leader's tasks do not end in time; None: the process is not ended."""
    owners: Sequence[Json] = ()
    """Owner references of the Lease object."""
    release_prefix: str = ""
    """Prefix of the identities of this release's replicas. They compete for another lease, which this process holds
    already; therefore it takes over a lease from a holder with this prefix at once. Empty: no such prefix.
    """
    superior_holder: SuperiorHolder = no_superior_holder
    explain: Callable[[str], str] = "the lease is held by {}".format
    """Formats a sentence about the holder that this process waits for."""


class Lease:
    """Contends for one Lease object; `run` executes a function while the lease is held."""

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
        self._release_prefix = options.release_prefix
        self._superior_holder = options.superior_holder
        self._explain = options.explain
        self._owners = list(options.owners)
        self._namespace = namespace
        self._name = name
        self.identity = identity
        self._timings = timings
        self._monotonic = options.monotonic
        self._rng = options.rng
        self._leading_until = 0.0
        """Monotonic time until which this process may write."""
        self._lease: Json | None = None
        """The Lease object as this process last read or wrote it; None if another process may hold it."""
        self._expiry = Expiry(timings.duration)
        self._watchdog = Watchdog(timings.grace, options.end_process)
        self._last_error = ""
        self.holder = ""
        """Identity of the holder that this process waits for; empty while this process holds the lease, or the holder
        is unknown.
        """

    def __repr__(self) -> str:
        return f"<Lease {self._namespace}/{self._name} identity={self.identity} leading={self.leading()}>"

    @property
    def waiting(self) -> bool:
        """Whether another process is known to hold this lease or the superior lease."""
        return bool(self.holder)

    @property
    def explanation(self) -> str:
        """Sentence about the holder that this process waits for; empty if it does not wait."""
        return self._explain(self.holder) if self.holder else ""

    def leading(self) -> bool:
        """Whether this process may write now."""
        return self._monotonic() < self._leading_until

    def allowance(self) -> float:
        """Seconds that a write may take if it begins now; 0 when this process may not write.

        Such a write ends before another replica may lead, with a margin of a tenth of `duration` minus `deadline`.
        """
        now, timings = self._monotonic(), self._timings
        if now >= self._leading_until:
            return 0.0
        return self._leading_until - now + (timings.duration - timings.deadline) * 0.9

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Contend until cancelled; run `lead` each time the lease is acquired, and cancel it when the lease is lost.

        When this method is cancelled, `lead` ends first and then the lease is released. An exception of `lead` is
        raised after the release, to end the process.
        """
        while True:
            try:
                await self._acquire()
            finally:
                self.holder = ""
            logger.info("holding the lease %s as %s", self._name, self.identity)
            await self._adopt()
            task = asyncio.ensure_future(lead())
            try:
                await self._renew_until_lost(task)
            finally:
                await self._stop(task)
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error
            logger.warning("the lease %s was lost; contending again", self._name)

    async def _acquire(self) -> None:
        """Wait until the lease is acquired."""
        # polls, because a release happens in another process, which cannot set an event here
        while not (await self._acquire_or_renew() and await self._confirm()):  # noqa: ASYNC110
            await asyncio.sleep(self._period() / 2)  # a read is cheap, and a released lease is then acquired sooner

    async def _adopt(self) -> None:
        """Add the owners that the Lease object of an earlier release lacks. After a failure, the next renewal reads the
        object again.
        """
        lease = self._lease
        references = [] if lease is None else add_owners(lease["metadata"], self._owners)
        if lease is None or not references:
            return
        try:
            async with asyncio.timeout(self._timings.renew):
                body = {**lease, "metadata": {**lease["metadata"], "ownerReferences": references}}
                self._lease = await self._kube.replace(LEASES, self._namespace, self._name, body)
        except (Conflict, TimeoutError):
            return
        except ApiError as error:
            logger.warning(not_adopted(error))

    async def _confirm(self) -> bool:
        """Whether the lease that was just acquired may be kept. Releases it if the superior lease has a holder, or
        cannot be read.
        """
        try:
            if not (holder := await self._superior_holder(self._monotonic())):
                return True
            self._set_holder(holder)
        except ApiError as error:
            self._log_error(error)
        await self._release()
        self._lease = None
        return False

    async def _renew_until_lost(self, task: asyncio.Future[None]) -> None:
        """Renew until the lease is lost or `task` ends."""
        while not task.done():
            await asyncio.wait([task], timeout=self._period())
            if task.done():
                return
            try:
                remaining = max(0.0, self._leading_until - self._monotonic())
                async with asyncio.timeout(remaining):
                    if not await self._acquire_or_renew():
                        if self._lease is None or self.waiting:
                            return
                        continue
            except TimeoutError:
                return
            if not self.leading():
                return

    async def _stop(self, task: asyncio.Future[None]) -> None:
        """Cancel the leader's tasks, wait for their end, and release the lease if it is still held."""
        task.cancel()
        self._watchdog.arm()
        try:
            await asyncio.wait([task])
        finally:
            self._watchdog.disarm()
        if not task.cancelled():
            task.exception()  # marks it as retrieved; `run` raises it
        if self.leading() or self.waiting:  # waiting: the holder of the superior lease waits for this release
            await self._release()
        self._leading_until = 0.0
        self._lease = None

    def _period(self) -> float:
        return self._timings.renew * (0.9 + 0.2 * self._rng.random())

    async def _acquire_or_renew(self) -> bool:
        """Try once to acquire or renew; False on failure. If another process holds the lease, `_lease` becomes None."""
        sent_at = self._monotonic()
        try:
            lease = self._lease or await self._read()
            if holder := self._other_holder(lease, sent_at):
                self._lease = None
            else:
                holder = await self._superior_holder(sent_at)
            if holder:
                self._leading_until = 0.0
                self._set_holder(holder)
                return False
            self._lease = await self._write(lease)
        except Conflict:
            self._lease = None
            return await self._handle_conflict()
        except ApiError as error:
            self._log_error(error)
            self.holder = ""
            return False
        self._last_error = ""
        self.holder = ""
        self._leading_until = sent_at + self._timings.deadline
        return True

    async def _handle_conflict(self) -> bool:
        """Read the lease again after another client wrote it. If that client did not take the lease, the next attempt
        renews it.
        """
        try:
            lease = await self._read()
        except ApiError as error:
            self._log_error(error)
            return False
        self._lease = lease if self._is_ours(lease) and self.leading() else None
        if self._lease is None:
            self._leading_until = 0.0  # at once, before the deadline: another leader may be writing already
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
        """Identity of another process that holds the lease; empty if the lease can be acquired."""
        if self._is_ours(lease):
            return ""
        holder = str(lease["spec"].get("holderIdentity") or "")
        if self._release_prefix and holder.startswith(self._release_prefix):
            return ""
        return "" if self._expiry.has_expired(lease, now) else holder

    def _is_ours(self, lease: Json) -> bool:
        return bool(lease["spec"].get("holderIdentity") == self.identity)

    async def _write(self, lease: Json) -> Json:
        now = datetime.now(UTC).isoformat(timespec="microseconds")
        spec = dict(lease["spec"])
        if not self._is_ours(lease):
            spec["acquireTime"] = now
            spec["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + 1
        spec.update(holderIdentity=self.identity, renewTime=now)
        spec["leaseDurationSeconds"] = max(1, round(self._timings.duration))
        body = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": lease["metadata"], "spec": spec}
        if "resourceVersion" not in lease["metadata"]:
            return await self._kube.create(LEASES, self._namespace, body)
        return await self._kube.replace(LEASES, self._namespace, self._name, body)

    async def _release(self) -> None:
        """Release the lease, so that another replica can take over at once. If the release fails, other replicas wait
        until the lease expires.
        """
        self._leading_until = 0.0
        lease = self._lease
        if lease is None:
            return
        lease = {**lease, "spec": {**lease["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}}
        try:
            # half of `grace`: the task may also hold another lease, whose watchdog ends the process after `grace`
            async with asyncio.timeout(self._timings.grace / 2):
                await self._kube.replace(LEASES, self._namespace, self._name, lease)
        except (ApiError, TimeoutError) as error:
            logger.warning(
                "the lease %s could not be released, so the next leader waits until it expires: %s",
                self._name,
                str(error) or "the API server did not answer in time",
            )

    def _set_holder(self, holder: str) -> None:
        """Set the holder that this process waits for, and log a new holder."""
        holder = holder[:IDENTITY_LIMIT]
        if holder != self.holder:
            self.holder = holder
            logger.warning("this replica does not lead: %s", self.explanation)

    def _log_error(self, error: ApiError) -> None:
        if str(error) != self._last_error:
            self._last_error = str(error)
            logger.warning("the lease %s cannot be acquired or renewed: %s", self._name, error)


class Watchdog:
    """Ends the process when cancelled tasks do not end in time. Runs in a thread, because the event loop may hang."""

    def __init__(self, grace: float, end_process: Callable[[], None] | None) -> None:
        self._grace = grace
        self._end_process = end_process
        self._timer: threading.Timer | None = None

    def arm(self) -> None:
        """Start the timer; no-op without `end_process`."""
        if self._end_process is not None:
            self._timer = threading.Timer(self._grace, self._end_process)
            self._timer.daemon = True
            self._timer.start()

    def disarm(self) -> None:
        """Stop the timer, because the tasks have ended."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
