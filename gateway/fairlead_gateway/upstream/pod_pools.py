"""Connection pools of one server: one for each of its pods, and one over all while only one pod is known.

Calls have a pool, as large as there may be calls. Answers to questions, cancellations and streams that stay open have a
control pool, for they would wait behind the calls that wait for them; pings have it too, so that no call is in their
way.

A call goes to the pod with the fewest calls in flight, those with equally few by turns: equal pods get equal shares,
and a pod that answers late, or not at all, gets few calls even before it is left (`upstream.pod_health`).
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import random
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from fairlead_gateway.upstream import affinity
from fairlead_gateway.upstream.pod_health import PING_SECONDS, PodHealth, PodHealthTable
from fairlead_mcp.asyncio_tasks import TaskSet
from fairlead_mcp.errors import ConnectFailed, ConnectionLost, McpError, Timeout
from fairlead_mcp.http.dial import Address, Resolve
from fairlead_mcp.http.exchange import Call
from fairlead_mcp.http.pool import NEVER, Pool
from fairlead_mcp.http.target import Target

log = logging.getLogger(__name__)

MAX_SPREAD: Final = 64
"""Pods that calls are spread over."""
MAX_PINNED: Final = 2 * MAX_SPREAD
"""Pods that have pools of their own, those that hold a session or a state and are going away among them."""
MAX_CONTROL: Final = 512
RETIRE_SECONDS: Final = 10.0
LOOK_SECONDS: Final = 0.25
"""Between looks at the calls that wait for pods."""
REFRESH_SECONDS: Final = 10.0
"""Between look-ups of the pods of a server that is called."""
STALLED_SECONDS: Final = 0.5
"""Lateness of a timer from which on this process, and no pod, is what was slow."""
MAX_PING_BYTES: Final = 1 << 20


class Pools(NamedTuple):
    """Connections for calls, and for the messages that calls wait for."""

    calls: Pool
    control: Pool


class ServerPod:
    """One pod that calls are spread over."""

    __slots__ = ("address", "dialing_since", "health", "pools")

    def __init__(self, address: Address, pools: Pools, health: PodHealth) -> None:
        self.address = address
        self.pools = pools
        self.health = health
        self.dialing_since = 0.0
        """When calls were first seen to wait for a connection to it; 0 while none does."""


class PodListener(Protocol):
    """Upstream of the pods, as they notify it."""

    def ping_data(self, pod: ServerPod) -> bytes:
        """A whole HTTP request that any live server answers soon."""
        ...

    def pods_known(self) -> None:
        """The server has several pods: from now on calls are spread over them."""
        ...

    def pod_left(self, pod: ServerPod, calls: list[Call]) -> None:
        """It gets no new calls. `calls` wait for it, or for a connection to it."""
        ...

    def pod_gone(self, address: Address) -> None:
        """The server has this pod no more."""
        ...


class PodPools:
    """Pools over all pods, and of each. `pool` makes a pool of so many connections to the addresses that it is given;
    `resolve` gives those of the server, one per pod; `health` is shared by all upstreams of the server.
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
        self._named = not _is_address(target.host)
        self._limit = limit
        self._listener = listener
        self.health = health
        self._turn = random.randrange(1 << 16)  # so that neither gateways nor sessions begin with one and the same pod
        self._pinned: OrderedDict[Address, Pools] = OrderedDict()
        self._work = TaskSet()
        self._timer: asyncio.TimerHandle | None = None
        self._look_at = 0.0
        self._refresh_at = 0.0
        self._refreshing = False
        self._exchanges = 0
        self._closed = False
        self.spread = False
        """Whether `pick` may be called: several pods are known, or were."""
        self._pods: list[ServerPod] = []
        self._in: list[ServerPod] = []
        """Those that get calls: never empty once calls are spread."""
        self.any = self._make(self._resolved)
        self._clock = self.any.calls.clock

    def pick(self) -> ServerPod:
        """The pod for a new call: of those with the fewest calls in flight the next in turn."""
        pods = self._in
        count = len(pods)
        turn = self._turn
        best, least = turn % count, 1 << 30
        for step in range(count):
            index = (turn + step) % count
            load = pods[index].pools.calls.load
            if load < least:
                best, least = index, load
                if not load:
                    break
        self._turn = best + 1
        if self._timer is None:
            self._watch(LOOK_SECONDS)
        return pods[best]

    def pod(self, peer: Address | None) -> Address | None:
        """`peer`, where the server may have others: it is reached by a name."""
        return None if peer is None or peer[0] == self.host else peer

    def at(self, address: Address | None) -> Pools:
        """Pools of one pod and no other; for None those that a new call would take."""
        if address is None:
            return self.pick().pools if self.spread else self.any
        pools = self._pinned.get(address)
        if pools is not None:
            self._pinned.move_to_end(address)
            return pools

        async def only(host: str, port: int) -> list[Address]:
            return [address]

        pools = self._pinned[address] = self._make(only)
        if len(self._pinned) > MAX_PINNED:
            _, oldest = self._pinned.popitem(last=False)
            self._work.start(_close(oldest, RETIRE_SECONDS), "close pinned")
        return pools

    async def to(self, tag: bytes) -> Pools:
        """Pools of the pod that a tag means (`upstream.affinity`); those of a new call where it is gone."""
        try:
            address = affinity.address_of(tag, await self._resolve(self.host, self._port))
        except OSError:
            address = None
        return self.at(address)

    def leave(self, pod: ServerPod, since: float = NEVER) -> bool:
        """Give it no new calls; False where no other pod gets any. `since`: when it fell silent; NEVER where it
        refuses connections.
        """
        now = self._clock()
        others = [other for other in self._in if other is not pod and not other.health.left]
        if not others:
            return False
        self._in = others
        if pod.health.left:  # another upstream of the server saw it first
            return True
        pod.health.seen = pod.health.seen or pod.pools.calls.activity().answered_at > 0
        pod.health.leave(now, since, self.health.random())
        if self._timer is None:
            self._watch(LOOK_SECONDS)
        log.warning("the pod %s of %s does not answer and gets no calls for now", pod.address[0], self.host)
        self._listener.pod_left(pod, pod.pools.calls.outstanding())
        return True

    async def aclose(self) -> None:
        """Close all connections but those for calls of `any`, which its owner lets end."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        await self._work.cancel()
        await asyncio.gather(self.any.control.aclose(), *(_close(pools, 0.0) for pools in self._pinned.values()))

    def all_calls(self) -> list[Pool]:
        """Pools of calls, of all pods."""
        return [self.any.calls, *(pools.calls for pools in list(self._pinned.values()))]

    # Inside

    def _make(self, resolve: Resolve) -> Pools:
        return Pools(self._pool(resolve, self._limit), self._pool(resolve, MAX_CONTROL))

    async def _resolved(self, host: str, port: int) -> list[Address]:
        """Addresses to try in order, for a connection to any pod."""
        addresses = sorted(await self._resolve(host, port))
        self._learn(addresses)
        first = self._turn % len(addresses) if addresses else 0
        self._turn += 1
        return addresses[first:] + addresses[:first]

    def _learn(self, addresses: list[Address]) -> None:
        """Spread over these pods from now on; while there was never more than one, nothing is spread."""
        if not self._named or self._closed:
            return
        now = self._clock()
        self._refresh_at = now + REFRESH_SECONDS * (1.0 - self.health.random() / 5)
        if self._timer is None:
            self._watch(LOOK_SECONDS if self.spread else REFRESH_SECONDS)
        current = dict.fromkeys(addresses)
        if not current or not (self.spread or len(current) > 1):
            return
        pods = [pod for pod in self._pods if pod.address in current]
        pod_addresses = {pod.address for pod in pods}
        fresh = [address for address in current if address not in pod_addresses]
        gone = [pod for pod in self._pods if pod.address not in current]
        if fresh or gone:
            self.health.keep(current)
            random.shuffle(fresh)  # where there are too many, each gateway takes others
            for address in fresh[: MAX_SPREAD - len(pods)]:
                pods.append(ServerPod(address, self.at(address), self.health.of(address)))
            self._pods = pods
        self._sort()
        if not self.spread:
            self.spread = True
            self._watch(LOOK_SECONDS)
            self._listener.pods_known()
        for pod in gone:
            self._listener.pod_gone(pod.address)

    def _sort(self) -> None:
        """Take in what other upstreams of the server saw, too."""
        self._in = [pod for pod in self._pods if not pod.health.left] or self._pods

    def _watch(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self._closed:
            self._look_at = self._clock() + seconds
            self._timer = asyncio.get_running_loop().call_later(seconds, self._look)

    def _look(self) -> None:
        """Ping pods that calls wait for, and those that were left, and look up which there are."""
        self._timer = None
        now = self._clock()
        stalled = now - self._look_at > STALLED_SECONDS
        exchanges = sum(pool.statistics().exchanges for pool in self.all_calls())
        used, self._exchanges = exchanges != self._exchanges, exchanges
        working = False
        if self.spread:
            self._sort()
            for pod in self._pods:
                working |= pod.health.left or pod.pools.calls.load > 0
                if not stalled:
                    self._look_at_pod(pod, now)
        if now >= self._refresh_at and (used or working) and not self._refreshing:
            self._refreshing = True
            self._work.start(self._refresh(), f"resolve {self.host}")
        if working:
            self._watch(LOOK_SECONDS)
        elif used:
            self._watch(LOOK_SECONDS if self.spread else REFRESH_SECONDS)

    def _look_at_pod(self, pod: ServerPod, now: float) -> None:
        pool, health = pod.pools.calls, pod.health
        activity = pool.activity()
        health.seen = health.seen or activity.answered_at > 0
        if activity.overtaken:
            self.health.concurrent = True
        if not activity.dialing:
            pod.dialing_since = 0.0
        elif not pod.dialing_since:
            pod.dialing_since = now
        if health.left and activity.answered_at > health.silent_since:
            self._return(pod, now)
            return
        oldest = min(activity.oldest, pod.dialing_since or activity.oldest)
        if (health.left or oldest <= now) and health.ping_due(now, oldest, activity.answered_at):
            health.pinging = True
            self._work.start(self._ping(pod, max(oldest, activity.answered_at, health.heard_at)), f"ping {self.host}")

    async def _ping(self, pod: ServerPod, since: float) -> None:
        """Ping a pod that gave no sign of life since `since`."""
        health, asked_at = pod.health, self._clock()
        try:
            data = self._listener.ping_data(pod)
            await pod.pools.control.exchange(data, deadline=asked_at + PING_SECONDS, max_bytes=MAX_PING_BYTES)
        except McpError as error:  # any other was caused by an answer, or on this side
            alive = not isinstance(error, Timeout | ConnectionLost | ConnectFailed)
        else:
            alive = True
        finally:
            health.pinging = False
        now = self._clock()
        if alive:
            if pod.pools.calls.activity().oldest <= asked_at:
                self.health.concurrent = True
            health.record_answer(now)
            if health.left:
                self._return(pod, now)
        elif now - asked_at > PING_SECONDS + STALLED_SECONDS:
            pass  # this process was held up: the answer may lie in a buffer
        elif health.left:
            health.leave(now, since, self.health.random())
        elif now - since >= self.health.patience and pod.pools.calls.activity().answered_at <= since:
            self.leave(pod, since)

    def _return(self, pod: ServerPod, now: float) -> None:
        log.info("the pod %s of %s answers again", pod.address[0], self.host)
        self.health.learn_patience(now - pod.health.silent_since)
        pod.health.take_back(now)
        self._sort()

    async def _refresh(self) -> None:
        try:
            self._learn(sorted(await self._resolve(self.host, self._port)))
        except OSError:
            self._refresh_at = self._clock() + REFRESH_SECONDS  # those that are known stay
        finally:
            self._refreshing = False


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


async def _close(pools: Pools, grace: float) -> None:
    await asyncio.gather(pools.calls.aclose(grace), pools.control.aclose(grace))
