"""Connection pools of one server: one that spreads over its pods, and one for each pod that holds a session or a state.

Calls have a pool, as large as there may be calls. Answers to questions, cancellations and streams that stay open have a
control pool, for they would wait behind the calls that wait for them.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

from fairlead_gateway.upstream import affinity
from fairlead_mcp.asyncio_tasks import TaskSet
from fairlead_mcp.http.dial import Address, Resolve
from fairlead_mcp.http.pool import Pool

MAX_PINNED: Final = 64
"""Pods that have pools of their own."""
MAX_CONTROL: Final = 512
RETIRE_SECONDS: Final = 10.0


class Pools(NamedTuple):
    """Connections for calls, and for the messages that calls wait for."""

    calls: Pool
    control: Pool


class PodPools:
    """Pools over all pods, and pinned to one. `pool` makes a pool of so many connections to the addresses that it is
    given; `resolve` gives those of the server, one per pod. With `balanced` each connection goes to another of them;
    otherwise all go to the first that answers, for a legacy session lives in one pod.
    """

    def __init__(
        self, pool: Callable[[Resolve, int], Pool], resolve: Resolve, host: str, port: int, *,
        limit: int, balanced: bool,
    ) -> None:  # fmt: skip
        self._pool = pool
        self._resolve = resolve
        self.host, self._port = host, port
        self._limit = limit
        self._balanced = balanced
        self._home: Address | None = None
        self._dials = itertools.count().__next__
        self._pinned: OrderedDict[Address, Pools] = OrderedDict()
        self._retiring = TaskSet()
        self.any = self._make(self._in_order)

    def settle(self, home: Address | None) -> None:
        """Send what `any` carries to the pod that holds the shared session, as long as it answers."""
        self._home = home
        if home is not None:
            self.any.calls.keep_only(home)

    def pod(self, peer: Address | None) -> Address | None:
        """`peer`, where the server may have others: it is reached by a name."""
        return None if peer is None or peer[0] == self.host else peer

    def at(self, address: Address | None) -> Pools:
        """Pools of one pod and no other; `any` for None."""
        if address is None:
            return self.any
        found = self._pinned.get(address)
        if found is not None:
            self._pinned.move_to_end(address)
            return found

        async def only(host: str, port: int) -> list[Address]:
            return [address]

        pools = self._pinned[address] = self._make(only)
        if len(self._pinned) > MAX_PINNED:
            _, oldest = self._pinned.popitem(last=False)
            self._retiring.start(_close(oldest, RETIRE_SECONDS), "close pinned")
        return pools

    async def to(self, tag: bytes) -> Pools:
        """Pools of the pod that a tag means (`upstream.affinity`); `any` where it is gone."""
        try:
            address = affinity.address_of(tag, await self._resolve(self.host, self._port))
        except OSError:
            address = None
        return self.at(address)

    async def aclose(self) -> None:
        """Close all connections but those for calls of `any`, which its owner lets end."""
        await self._retiring.cancel()
        await asyncio.gather(self.any.control.aclose(), *(_close(pools, 0.0) for pools in self._pinned.values()))

    def _make(self, resolve: Resolve) -> Pools:
        return Pools(self._pool(resolve, self._limit), self._pool(resolve, MAX_CONTROL))

    async def _in_order(self, host: str, port: int) -> list[Address]:
        addresses = sorted(await self._resolve(host, port))
        if self._balanced:
            first = self._dials() % len(addresses) if addresses else 0
        else:
            first = addresses.index(self._home) if self._home in addresses else 0
        return addresses[first:] + addresses[:first]


async def _close(pools: Pools, grace: float) -> None:
    await asyncio.gather(pools.calls.aclose(grace), pools.control.aclose(grace))
