"""Connection pools of one server: a single pool while one pod is known, then one per pod.

Each pod has two pools. The pool for calls is as large as the limit on concurrent calls. The control pool is for
responses to the server's requests, cancellations, long-lived streams and pings, so that these do not queue behind
calls, which may be waiting for them.

A call goes to the pod with the fewest calls in flight; ties are broken by round-robin. A slow or silent pod thus gets
few calls even before it is ejected (`upstream.pod_health`).
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import OrderedDict
from collections.abc import Callable, Collection
from typing import Final, NamedTuple, Protocol

from fairlead_gateway.upstream import affinity
from fairlead_gateway.upstream.pod_health import PING_SECONDS, PodHealth, PodHealthTable
from fairlead_mcp.addresses import is_address, service_namespace
from fairlead_mcp.asyncio_tasks import TaskSet
from fairlead_mcp.errors import ConnectFailed, ConnectionLost, McpError, Timeout
from fairlead_mcp.http.dial import Address, Resolve
from fairlead_mcp.http.exchange import Call
from fairlead_mcp.http.pool import NEVER, Pool
from fairlead_mcp.http.target import Target

log = logging.getLogger(__name__)

MAX_SPREAD: Final = 64
"""Limit on the pods that get new calls."""
MAX_PINNED: Final = 2 * MAX_SPREAD
"""Limit on the pods with their own pools, including terminating pods that still hold a session or state."""
MAX_CONTROL: Final = 512
"""Limit on the connections of a control pool."""
RETIRE_SECONDS: Final = 10.0
"""Time for calls in progress to complete when the pools of the least recently used pod are closed."""
CHECK_SECONDS: Final = 0.25
"""Interval of checks for calls that wait for a silent pod."""
REFRESH_SECONDS: Final = 10.0
"""Interval of DNS look-ups of the server's addresses, while the server gets calls."""
POD_REFRESH_SECONDS: Final = 5.0
"""Interval of DNS look-ups of a Service's pods. A pod that is about to end has to be noticed while it still serves: its
address is in DNS for up to 5 s more.
"""
STALLED_SECONDS: Final = 0.5
"""If a timer fires later than this, the event loop was blocked, and a pod that seemed silent may have answered."""
MAX_PING_BYTES: Final = 1 << 20


class Pools(NamedTuple):
    """Connection pools for calls, and for control messages."""

    calls: Pool
    control: Pool


class ServerPod:
    """One pod that gets new calls."""

    __slots__ = ("address", "dialing_since", "health", "pools")

    def __init__(self, address: Address, pools: Pools, health: PodHealth) -> None:
        self.address = address
        self.pools = pools
        self.health = health
        self.dialing_since = 0.0
        """When a check first saw calls wait for a connection to the pod; 0 while none waits."""


class PodListener(Protocol):
    """Callbacks of `PodPools` to the upstream."""

    def ping_data(self, pod: ServerPod) -> bytes:
        """A complete HTTP request that a live server answers at once."""
        ...

    def on_pods_known(self) -> None:
        """The server has several pods; from now on calls are spread over them."""
        ...

    def on_pod_ejected(self, pod: ServerPod, calls: list[Call]) -> None:
        """The pod gets no new calls. `calls` wait for its answer, or for a connection to it."""
        ...

    def on_pod_removed(self, address: Address) -> None:
        """DNS no longer lists the pod."""
        ...


class PodPools:
    """Connection pools of all pods of one server.

    `pool` creates a pool from a resolver and a number of connections. `resolve` returns the server's addresses, one per
    pod. `health` is shared by all upstreams of the server.
    """

    def __init__(
        self,
        pool: Callable[[Resolve, int], Pool],
        resolve: Resolve,
        target: Target,
        *,
        limit: int,
        listener: PodListener,
        health: PodHealthTable,
    ) -> None:
        self._pool = pool
        self._resolve = resolve
        self.host = target.host
        self._port = target.port
        self._has_host_name = not is_address(target.host)
        self._is_service = bool(service_namespace(target.host.lower()))
        self._refresh_seconds = POD_REFRESH_SECONDS if self._is_service else REFRESH_SECONDS
        self._only_pod: Address | None = None
        """Address of the only pod that was known at the last look-up."""
        self._limit = limit
        self._listener = listener
        self.health = health
        # random, so that gateways and sessions do not all start with the same pod
        self._next_turn = random.randrange(1 << 16)
        self._pinned_pools: OrderedDict[Address, Pools] = OrderedDict()
        self._work = TaskSet()
        self._timer: asyncio.TimerHandle | None = None
        self._check_due_at = 0.0
        self._refresh_at = 0.0
        self._refreshing = False
        self._exchanges = 0
        self._closed = False
        self.spreads_calls = False
        """Whether `pick` may be called: several pods are or were known, at once or one after the other."""
        self._pods: list[ServerPod] = []
        self._receiving_pods: list[ServerPod] = []
        """Pods that get new calls; never empty once `spreads_calls` is true."""
        self.pools_of_any_pod = self._make(self._resolve_in_turn)
        self._clock = self.pools_of_any_pod.calls.clock

    def pick(self) -> ServerPod:
        """The pod for a new call: the next in turn among those with the fewest calls in flight."""
        pods = self._receiving_pods
        count = len(pods)
        turn = self._next_turn
        best_index, min_load = turn % count, 1 << 30
        for step in range(count):
            index = (turn + step) % count
            load = pods[index].pools.calls.load
            if load < min_load:
                best_index, min_load = index, load
                if not load:
                    break
        self._next_turn = best_index + 1
        if self._timer is None:
            self._schedule_check(CHECK_SECONDS)
        return pods[best_index]

    def pod_address(self, peer: Address | None) -> Address | None:
        """Address of the pod to which a session belongs; None if the server's URL has an IP address, as it has no other
        pods then.
        """
        return None if peer is None or peer[0] == self.host else peer

    def pools_at(self, address: Address | None) -> Pools:
        """Pools of the pod at `address`; for None, the pools for a new call."""
        if address is None:
            return self.pick().pools if self.spreads_calls else self.pools_of_any_pod
        pools = self._pinned_pools.get(address)
        if pools is not None:
            self._pinned_pools.move_to_end(address)
            return pools

        async def resolve_to_pod(host: str, port: int) -> list[Address]:
            return [address]

        pools = self._pinned_pools[address] = self._make(resolve_to_pod)
        if len(self._pinned_pools) > MAX_PINNED:
            _, oldest = self._pinned_pools.popitem(last=False)
            self._work.start(_close(oldest, RETIRE_SECONDS), "close pinned")
        return pools

    async def pools_for_tag(self, tag: bytes) -> Pools:
        """Pools of the pod that an affinity tag names (`upstream.affinity`), or those for a new call if the pod is
        gone.
        """
        try:
            address = affinity.address_of(tag, await self._resolve(self.host, self._port))
        except OSError:
            address = None
        return self.pools_at(address)

    def eject(self, pod: ServerPod, since: float = NEVER) -> bool:
        """Stop giving the pod new calls; False, without effect, if no other pod can take them.

        `since` is when the pod fell silent; NEVER if it refuses connections.
        """
        now = self._clock()
        other_pods = [other for other in self._receiving_pods if other is not pod and not other.health.ejected]
        if not other_pods:
            return False
        self._receiving_pods = other_pods
        if pod.health.ejected:  # another upstream of the server ejected it first
            return True
        pod.health.has_answered = pod.health.has_answered or pod.pools.calls.activity().answered_at > 0
        pod.health.eject(now, since, self.health.random())
        if self._timer is None:
            self._schedule_check(CHECK_SECONDS)
        log.warning("Pod %s of %s does not answer: new calls go to other pods until it does", pod.address[0], self.host)
        self._listener.on_pod_ejected(pod, pod.pools.calls.outstanding_exchanges())
        return True

    async def aclose(self) -> None:
        """Close all connections, except the call pool of `pools_of_any_pod`, which the owner closes."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        await self._work.cancel()
        await asyncio.gather(
            self.pools_of_any_pod.control.aclose(), *(_close(pools, 0.0) for pools in self._pinned_pools.values())
        )

    def all_calls(self) -> list[Pool]:
        """The call pools of all pods."""
        return [self.pools_of_any_pod.calls, *(pools.calls for pools in list(self._pinned_pools.values()))]

    # Internals

    def _make(self, resolve: Resolve) -> Pools:
        return Pools(self._pool(resolve, self._limit), self._pool(resolve, MAX_CONTROL))

    async def _resolve_in_turn(self, host: str, port: int) -> list[Address]:
        """Addresses of all pods, in the order in which to try them."""
        addresses = sorted(await self._resolve(host, port))
        self._update_pods(addresses)
        start = self._next_turn % len(addresses) if addresses else 0
        self._next_turn += 1
        return addresses[start:] + addresses[:start]

    def _update_pods(self, addresses: list[Address]) -> None:
        """Take the current addresses of the pods. Calls are spread once there is more than one."""
        if not self._has_host_name or self._closed:
            return
        now = self._clock()
        self._refresh_at = now + self._refresh_seconds * (1.0 - self.health.random() / 5)
        if self._timer is None:
            self._schedule_check(CHECK_SECONDS if self.spreads_calls else self._refresh_seconds)
        current_addresses = dict.fromkeys(addresses)
        replaced_address = self._find_replaced(current_addresses)
        if not current_addresses or not (self.spreads_calls or len(current_addresses) > 1 or replaced_address):
            return
        pods = [pod for pod in self._pods if pod.address in current_addresses]
        pod_addresses = {pod.address for pod in pods}
        added_addresses = [address for address in current_addresses if address not in pod_addresses]
        removed_pods = [pod for pod in self._pods if pod.address not in current_addresses]
        if added_addresses or removed_pods:
            self.health.retain(current_addresses)
            random.shuffle(added_addresses)  # so that gateways use different pods if there are more than MAX_SPREAD
            for address in added_addresses[: MAX_SPREAD - len(pods)]:
                pods.append(ServerPod(address, self.pools_at(address), self.health.of(address)))
            self._pods = pods
        self._update_receiving_pods()
        if not self.spreads_calls:
            self.spreads_calls = True
            self._schedule_check(CHECK_SECONDS)
            self._listener.on_pods_known()
        for address in [*(pod.address for pod in removed_pods), *([replaced_address] if replaced_address else [])]:
            self._listener.on_pod_removed(address)

    def _find_replaced(self, current_addresses: Collection[Address]) -> Address | None:
        """Address of the only pod at the last look-up, if another pod has replaced it; else None. Calls would otherwise
        stay on the connections to the old pod until it ends. Only for Services: other hosts may have another address at
        each look-up.
        """
        if self.spreads_calls or not self._is_service or len(current_addresses) != 1:
            return None
        previous_address, self._only_pod = self._only_pod, next(iter(current_addresses))
        return None if previous_address == self._only_pod else previous_address

    def _update_receiving_pods(self) -> None:
        """Recompute the pods that get calls, because other upstreams of the server change `PodHealth` too."""
        self._receiving_pods = [pod for pod in self._pods if not pod.health.ejected] or self._pods

    def _schedule_check(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self._closed:
            self._check_due_at = self._clock() + seconds
            self._timer = asyncio.get_running_loop().call_later(seconds, self._check_pods)

    def _check_pods(self) -> None:
        """Ping pods that calls wait for and ejected pods, and refresh the list of pods."""
        self._timer = None
        now = self._clock()
        loop_stalled = now - self._check_due_at > STALLED_SECONDS
        exchanges = sum(pool.statistics().exchanges for pool in self.all_calls())
        had_calls, self._exchanges = exchanges != self._exchanges, exchanges
        busy = False
        if self.spreads_calls:
            self._update_receiving_pods()
            for pod in self._pods:
                busy |= pod.health.ejected or pod.pools.calls.load > 0
                if not loop_stalled:
                    self._check_pod(pod, now)
        if now >= self._refresh_at and (had_calls or busy) and not self._refreshing:
            self._refreshing = True
            self._work.start(self._refresh(), f"resolve {self.host}")
        if busy:
            self._schedule_check(CHECK_SECONDS)
        elif had_calls:
            self._schedule_check(CHECK_SECONDS if self.spreads_calls else self._refresh_seconds)

    def _check_pod(self, pod: ServerPod, now: float) -> None:
        pool, health = pod.pools.calls, pod.health
        activity = pool.activity()
        health.has_answered = health.has_answered or activity.answered_at > 0
        if activity.overtaken:
            self.health.concurrent = True
        if not activity.dialing:
            pod.dialing_since = 0.0
        elif not pod.dialing_since:
            pod.dialing_since = now
        if health.ejected and activity.answered_at > health.silent_since:
            self._readmit(pod, now)
            return
        oldest = min(activity.oldest, pod.dialing_since or activity.oldest)
        if (health.ejected or oldest <= now) and health.ping_due(now, oldest, activity.answered_at):
            health.pinging = True
            self._work.start(
                self._ping(pod, max(oldest, activity.answered_at, health.ping_answered_at)), f"ping {self.host}"
            )

    async def _ping(self, pod: ServerPod, since: float) -> None:
        """Ping a pod that was silent since `since`, and eject it if it does not answer."""
        health, pinged_at = pod.health, self._clock()
        try:
            data = self._listener.ping_data(pod)
            await pod.pools.control.exchange(data, deadline=pinged_at + PING_SECONDS, max_bytes=MAX_PING_BYTES)
        except McpError as error:  # other errors come from an answer, or from the gateway
            alive = not isinstance(error, Timeout | ConnectionLost | ConnectFailed)
        else:
            alive = True
        finally:
            health.pinging = False
        now = self._clock()
        if alive:
            if pod.pools.calls.activity().oldest <= pinged_at:
                self.health.concurrent = True
            health.record_answer(now)
            if health.ejected:
                self._readmit(pod, now)
        elif now - pinged_at > PING_SECONDS + STALLED_SECONDS:
            pass  # the event loop stalled, so the answer may be in a buffer
        elif health.ejected:
            health.eject(now, since, self.health.random())
        elif now - since >= self.health.patience and pod.pools.calls.activity().answered_at <= since:
            self.eject(pod, since)

    def _readmit(self, pod: ServerPod, now: float) -> None:
        log.info("Pod %s of %s answers again and gets calls", pod.address[0], self.host)
        self.health.learn_patience(now - pod.health.silent_since)
        pod.health.readmit(now)
        self._update_receiving_pods()

    async def _refresh(self) -> None:
        try:
            self._update_pods(sorted(await self._resolve(self.host, self._port)))
        except (OSError, UnicodeError, ConnectFailed):  # ConnectFailed: none of the addresses is allowed
            self._refresh_at = self._clock() + self._refresh_seconds  # until then, the list of pods stays the same
        finally:
            self._refreshing = False


async def _close(pools: Pools, grace: float) -> None:
    await asyncio.gather(pools.calls.aclose(grace), pools.control.aclose(grace))
