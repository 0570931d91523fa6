"""Connections to one origin of an HTTP API, and the calls on them.

A request to an API belongs to no session. So any pod can take it, and a request that was not sent yet can be sent to
another pod.
"""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Raw

from fairlead_gateway.core.ports import Gauges
from fairlead_gateway.core.upstream_request import ResponseSink, UpstreamRequest
from fairlead_gateway.limits.fair_rotation import WORKS_FOR
from fairlead_gateway.sending import TaskCall
from fairlead_gateway.upstream.pod_health import PodHealthTable
from fairlead_gateway.upstream.pod_pools import PodPools, ServerPod
from fairlead_mcp.errors import ConnectFailed, HeldUp, McpError, TooLarge
from fairlead_mcp.http.answer import Answer, Carrier
from fairlead_mcp.http.dial import Address, Resolve
from fairlead_mcp.http.exchange import Call
from fairlead_mcp.http.pool import Pool
from fairlead_mcp.http.target import Target
from fairlead_mcp.messages import ResultMembers

PING_METHOD = b"OPTIONS"
"""Method of pings: any answer shows that the API is alive, and the method changes nothing (RFC 9110 section 9.2.1)."""


class ApiResult(NamedTuple):
    """A result that was made from an answer. If it includes its members, it need not be decoded again."""

    raw: Raw
    members: ResultMembers | None


class LargeAnswer(NamedTuple):
    """An answer whose result is made outside of the event loop."""

    size: int
    """Bytes of the body."""
    make: Callable[[], Coroutine[Any, Any, Raw]]
    """Makes the result. Raises McpError."""
    members: ResultMembers


class CompleteAnswer(Carrier):
    """Carrier of an answer that has arrived completely. Pausing and resuming have no effect."""

    peer = None

    def pause_reading(self) -> None:
        """No-op."""

    def resume_reading(self) -> None:
        """No-op."""

    def close(self, error: Exception | None = None) -> None:
        """No-op."""


_COMPLETE: Final = CompleteAnswer()
_PONG: Final = ApiResult(Raw(b"{}"), None)


class ApiCall(Call):
    """One request of an API. `data` is the complete HTTP request. `read` makes the result from the answer, or raises
    McpError.

    After `cancel` the sink receives nothing more.
    """

    __slots__ = (
        "_event_data",
        "_idempotent",
        "_origin",
        "_read",
        "_result_task",
        "_sink",
        "_size",
        "_was_moved",
        "has_ended",
        "pod",
        "pool",
    )

    def __init__(
        self,
        origin: ApiOrigin,
        request: UpstreamRequest,
        sink: ResponseSink,
        data: bytes,
        read: Callable[[Answer], ApiResult | LargeAnswer],
    ) -> None:
        super().__init__(data, request.deadline, request.max_bytes, counter=request.counter)
        self._origin = origin
        self._sink = sink
        self._read = read
        self._idempotent = request.idempotent
        self._size = 0
        """Bytes in `_event_data`."""
        self._event_data: list[bytes] = []
        """Data of the events, if the answer is an event stream."""
        self._was_moved = False
        """Whether the request was sent again to another pod, which is done once."""
        self._result_task: TaskCall | None = None
        """Task that makes the result of a large answer."""
        self.has_ended = False
        """Whether the exchange has ended: by an answer, an error or `cancel`."""
        self.pod: ServerPod | None = None
        self.pool: Pool | None = None
        """Pool that the request was submitted to."""

    @property
    def has_body(self) -> bool:
        return not self.data.startswith(b"HEAD ")

    def take_answer(self, answer: Answer) -> None:
        if self.has_ended:
            return
        if answer.streamed and self._event_data:
            answer = msgspec.structs.replace(answer, body=b"\n\n".join(self._event_data))
        try:
            self._check_size(self._size)
            result = self._read(answer)
            if isinstance(result, ApiResult):
                self._check_size(len(result.raw))
        except McpError as error:
            self._fail(error)
            return
        self.has_ended = True
        if isinstance(result, ApiResult):
            self._sink.take_result(result.raw, result.members)
        else:
            self._sink.answer_arrived()
            self._result_task = TaskCall(self._make(result), self._sink, "make a result", result.members)

    def take_error(self, error: Exception) -> None:
        if isinstance(error, ConnectFailed) and self._origin.send_to_other_pod(self):
            return
        self._fail(error)

    def on_event(self, data: bytes) -> bool:
        """Collect an event of a stream. The result contains all events."""
        self._event_data.append(data)
        self._size += len(data)
        return self._size > self.max_bytes

    def cancel(self) -> None:
        if self._result_task is not None:
            self._result_task.cancel()
        elif not self.has_ended:
            self.has_ended = True
            if self.pool is not None:
                self.pool.cancel(self)

    def withdraw_from_pod(self) -> bool:
        """Cancel the call so that it can be sent to another pod; False if it is over, or was sent and must not be
        repeated.
        """
        pool, was_sent = self.pool, self.connection is not None
        if self.has_ended or pool is None or (was_sent and (self._was_moved or not self._idempotent)):
            return False
        self._was_moved = self._was_moved or was_sent
        pool.cancel(self)
        return True

    async def _make(self, answer: LargeAnswer) -> Raw:
        """Make the result of a large answer, which meanwhile counts towards the memory budget. Raises McpError."""
        WORKS_FOR.set(self._sink.agent)
        arrival = None if self.counter is None else self.counter.arrival(_COMPLETE)
        assert self.pool is not None, "an answer comes from a pool"
        try:
            if arrival is not None:
                arrival.grow(answer.size)
            async with asyncio.timeout(self.deadline - self.pool.clock()):
                result = await answer.make()
        except TimeoutError as error:
            raise HeldUp(
                f"the call's deadline passed while the API's answer of {answer.size:,} bytes was made into a result"
            ) from error
        finally:
            if arrival is not None:
                arrival.close()
        self._check_size(len(result))
        await asyncio.sleep(0)  # both copying and translating the result take milliseconds
        return result

    def _check_size(self, size: int) -> None:
        if size > self.max_bytes:
            raise TooLarge(f"the result exceeds {self.max_bytes} bytes")

    def _fail(self, error: Exception) -> None:
        if not self.has_ended:
            self.has_ended = True
            self._sink.take_error(error)


class ApiOrigin:
    """Connection pools of one origin. `limit` is the limit on concurrent calls, and on connections to a pod."""

    def __init__(
        self,
        target: Target,
        tls: ssl.SSLContext | None,
        resolve: Resolve,
        *,
        limit: int,
        headers: Mapping[str, str],
    ) -> None:
        self.target = target

        def pool(addresses: Resolve, max_connections: int) -> Pool:
            return Pool(target.host, target.port, ssl=tls, limit=max_connections, resolve=addresses)

        health = PodHealthTable(random.random)
        self._ping_data = target.head(PING_METHOD, headers) + b"Content-Length: 0\r\n\r\n"
        self._pools = PodPools(pool, resolve, target, limit=limit, listener=self, health=health)
        self._pool = self._pools.pools_of_any_pod.calls

    def submit(self, call: ApiCall) -> None:
        """Send a call to the origin, or to one of its pods."""
        call.pool = self._pool
        if self._pools.spreads_calls:
            call.pod = pod = self._pools.pick()
            call.pool = pod.pools.calls
        call.pool.submit(call)

    def ping(self, request: UpstreamRequest, sink: ResponseSink) -> ApiCall:
        """Send a request that any live server answers. The result of any answer is empty."""
        call = ApiCall(self, request, sink, self._ping_data, lambda _: _PONG)
        self.submit(call)
        return call

    def send_to_other_pod(self, call: ApiCall) -> bool:
        """Eject the pod that a call cannot connect to, and send the call to another pod; False if there is none."""
        pod = call.pod
        if pod is None or call.has_ended or not self._pools.eject(pod):
            return False
        self._send_again(call)
        return True

    def gauges(self) -> Gauges:
        statistics = [pool.statistics() for pool in self._pools.all_calls()]
        busy, idle = sum(pool.busy for pool in statistics), sum(pool.idle for pool in statistics)
        serving, ejected = self._pools.health.counts()
        return Gauges(busy, idle, sum(pool.waiting for pool in statistics), serving, ejected)

    async def aclose(self, grace: float) -> None:
        await asyncio.gather(*[pool.aclose(grace) for pool in self._pools.all_calls()])
        await self._pools.aclose()

    # PodListener

    def ping_data(self, pod: ServerPod) -> bytes:
        return self._ping_data

    def on_pods_known(self) -> None:
        # calls that wait for a connection move, each to one pod
        for call in self._pool.outstanding_exchanges():
            if isinstance(call, ApiCall) and call.connection is None and call.withdraw_from_pod():
                self._send_again(call)

    def on_pod_ejected(self, pod: ServerPod, calls: list[Call]) -> None:
        """Send calls that may be repeated to other pods. Other calls keep waiting, because the pod may only be slow."""
        for call in calls:
            if isinstance(call, ApiCall) and call.withdraw_from_pod():
                self._send_again(call)

    def on_pod_removed(self, address: Address) -> None:
        """No-op: no session ties a call to a pod."""

    def _send_again(self, call: ApiCall) -> None:
        call.connection = None
        call.pod = None
        self.submit(call)
