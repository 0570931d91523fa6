"""How long the process for a request without a session lives at a server with `session: PerClient`, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import pytest
from msgspec import Raw

from fairlead_gateway.core.ports import Pending, Upstream
from fairlead_gateway.core.upstream_request import ResponseSink, UpstreamRequest
from fairlead_gateway.sending import NO_OP_PENDING, result_of
from fairlead_gateway.upstream import affinity
from fairlead_gateway.upstream.capability_gated import GatedUpstream
from fairlead_gateway.upstream.per_client import FINISHED_SECONDS, PerClientUpstream
from fairlead_gateway.upstream.settings import PerClientSettings
from fairlead_mcp import jsonrpc
from fairlead_mcp.errors import McpError, PoolFull, RpcError
from virtualtime import in_virtual_time

IDLE: Final = 60.0


class Process(Upstream):
    """A process with one task, `t`, whose state the test decides."""

    def __init__(self, number: int, ttl_ms: int | None) -> None:
        self.name = b"%012d" % number
        self.task: dict[str, Any] = {"taskId": "t", "status": "working", "ttlMs": ttl_ms}
        self.ended = asyncio.Event()

    @property
    def modern(self) -> bool:
        return True

    def next_id(self) -> bytes:
        return b"1"

    def send(self, request: UpstreamRequest, sink: ResponseSink) -> Pending:
        if request.method == "tasks/cancel":
            sink.take_result(Raw(b'{"resultType":"complete"}'))
        elif request.method == "tasks/get" and self.task["status"] == "lost":
            sink.take_error(RpcError(jsonrpc.INVALID_PARAMS, "no task t"))
        elif request.method == "tasks/get":
            sink.take_result(Raw(jsonrpc.encode({"resultType": "complete", **self.task})))
        elif request.tasks:
            made = Raw(jsonrpc.encode({"resultType": "task", **self.task}))
            sink.take_result(affinity.add_tag(made, self.name, "taskId"))
        elif request.method == "prompts/get":
            questions = Raw(b'{"resultType":"input_required","requestState":"s"}')
            sink.take_result(
                questions if request.affinity_tag else affinity.add_tag(questions, self.name, "requestState")
            )
        else:
            sink.take_result(Raw(b"{}"))
        return NO_OP_PENDING

    async def aclose(self, grace: float, *, replaced: bool = False) -> None:
        self.ended.set()


class Processes:
    """A PerClient server with its processes, and the loop's clock relative to now."""

    def __init__(self, most: int = 4, ttl_ms: int | None = None, *, by_credential: bool = False) -> None:
        self.all: list[Process] = []
        self.lines: list[bytes] = []
        """`Authorization` lines of the processes."""
        self.ttl_ms = ttl_ms
        self.server = PerClientUpstream(
            "demo",
            self._make,
            modern=True,
            settings=PerClientSettings(max_sessions=most, idle=IDLE),
            by_credential=by_credential,
        )
        self._began = asyncio.get_running_loop().time()

    def _make(self, features: bytes, line: bytes) -> Process:
        self.lines.append(line)
        self.all.append(Process(len(self.all), self.ttl_ms))
        return self.all[-1]

    @property
    def open(self) -> int:
        return sum(not process.ended.is_set() for process in self.all)

    async def call(self, method: str = "tools/call", session: bytes | None = None, **more: Any) -> Raw:
        params = jsonrpc.encode({"taskId": "t"})
        request = UpstreamRequest(self.server.next_id(), method, params, 1e9, 1 << 20)
        request.session = session
        for name, value in more.items():
            setattr(request, name, value)
        return await result_of(self.server, request)

    async def task(self) -> Process:
        """Create a task. Returns its process."""
        await self.call(tasks=True)
        return self.all[-1]

    async def about(self, process: Process, method: str = "tasks/get") -> Raw:
        return await self.call(method, affinity_tag=process.name)

    async def lasts(self) -> float:
        """Advance the time until no process is left. Returns the seconds."""
        for process in self.all:
            await process.ended.wait()
        return asyncio.get_running_loop().time() - self._began


async def code_of(asking: Callable[[], Any]) -> int | None:
    """Code of the JSON-RPC error in the answer to a request."""
    try:
        await asking()
    except McpError as error:
        return error.code if isinstance(error, RpcError) else 0
    return None


@in_virtual_time
async def test_a_process_without_a_task_ends_with_its_request() -> None:
    processes = Processes()
    await processes.call()
    await asyncio.sleep(0)
    assert processes.open == 0
    assert processes.server.sessions == 0


@in_virtual_time
async def test_a_process_with_a_task_ends_when_nobody_has_asked_for_a_while() -> None:
    processes = Processes()
    process = await processes.task()
    await asyncio.sleep(IDLE - 1)
    await processes.about(process)
    assert await processes.lasts() == pytest.approx(IDLE * 2 - 1)
    assert await code_of(lambda: processes.about(process)) == jsonrpc.INVALID_PARAMS
    assert len(processes.all) == 1, "none is started to be asked"


@in_virtual_time
async def test_a_process_ends_with_the_ttl_of_its_task_as_the_server_says_it_last() -> None:
    processes = Processes(ttl_ms=5_000)
    process = await processes.task()
    process.task["ttlMs"] = 20_000
    await processes.about(process)
    assert await processes.lasts() == pytest.approx(20)
    assert processes.server.accepts_tasks


@in_virtual_time
async def test_a_process_is_there_for_a_moment_after_the_end_of_its_task_was_told() -> None:
    processes = Processes(ttl_ms=100_000)
    process = await processes.task()
    process.task["status"] = "completed"
    for _ in range(2):
        assert b"completed" in bytes(await processes.about(process))
    assert await processes.lasts() == pytest.approx(FINISHED_SECONDS)


@in_virtual_time
async def test_a_process_whose_task_was_cancelled_or_lost_ends_soon() -> None:
    for status, method in (("working", "tasks/cancel"), ("lost", "tasks/get")):
        processes = Processes()
        process = await processes.task()
        process.task["status"] = status
        await code_of(lambda: processes.about(process, method))  # noqa: B023 - it is awaited here
        assert await processes.lasts() == pytest.approx(FINISHED_SECONDS)


@in_virtual_time
async def test_a_process_that_asked_by_its_result_waits_for_the_answer() -> None:
    processes = Processes()
    await processes.call("prompts/get")
    await asyncio.sleep(IDLE - 1)
    assert processes.open == 1
    await processes.call(affinity_tag=processes.all[0].name)
    assert len(processes.all) == 1
    assert await processes.lasts() == pytest.approx(IDLE - 1 + FINISHED_SECONDS)


@in_virtual_time
async def test_open_tasks_take_half_of_the_processes_and_are_ended_for_nobody() -> None:
    processes = Processes(most=4)
    tasks = [await processes.task() for _ in range(2)]
    room = [processes.server.accepts_tasks]
    for session in (b"one", b"two", b"three"):  # the third process takes the slot of the first
        await processes.call(session=session)
    await processes.call()
    assert [process.ended.is_set() for process in tasks] == [False, False]
    await processes.about(tasks[0], "tasks/cancel")
    room.append(processes.server.accepts_tasks)
    assert room == [False, True]
    gauges = processes.server.gauges()
    assert (gauges.busy, gauges.busy + gauges.idle) == (1, processes.server.sessions)


@in_virtual_time
async def test_processes_with_tasks_count_where_there_is_room_for_so_many() -> None:
    processes = Processes(most=1)
    await processes.task()
    with pytest.raises(PoolFull):
        await processes.call()


@in_virtual_time
async def test_a_task_of_a_process_that_is_closed_with_its_server_is_unknown() -> None:
    processes = Processes()
    process = await processes.task()
    await processes.server.aclose(0)
    assert processes.open == 0
    assert await code_of(lambda: processes.about(process)) == jsonrpc.INVALID_PARAMS


@in_virtual_time
async def test_a_session_with_a_subscription_lasts_until_that_ends() -> None:
    """The session receives updates, but no requests."""
    processes = Processes()
    for method, lasts in (("resources/subscribe", True), ("resources/unsubscribe", False)):
        await processes.call(method, session=b"one")
        await asyncio.sleep(2 * IDLE)
        assert (processes.open == 1) is lasts


ALICE: dict[str, Any] = {"person": b"alice", "authorization": b"KEY: a\r\n"}
BOB: dict[str, Any] = {"person": b"bob", "authorization": b"KEY: b\r\n"}


@in_virtual_time
async def test_no_request_reaches_a_process_of_another_person() -> None:
    processes = Processes(by_credential=True)
    await processes.call(session=b"s", **ALICE)
    await processes.call(session=b"s", **ALICE)
    assert processes.lines == [ALICE["authorization"]]
    await processes.call(session=b"s", **BOB)
    assert processes.lines == [ALICE["authorization"], BOB["authorization"]]
    await processes.call(tasks=True, **ALICE)
    process = processes.all[-1]
    assert (
        await code_of(lambda: processes.call("tasks/get", affinity_tag=process.name, **BOB)) == jsonrpc.INVALID_PARAMS
    )
    assert await code_of(lambda: processes.call("tasks/get", affinity_tag=process.name, **ALICE)) is None


@in_virtual_time
async def test_the_processes_of_a_person_end_with_the_persons_key() -> None:
    processes = Processes(by_credential=True)
    await processes.call(session=b"a", **ALICE)
    await processes.call(session=b"b", **BOB)
    await processes.call(tasks=True, **ALICE)
    processes.server.end_sessions_of(b"alice")
    await asyncio.sleep(0)
    assert [process.ended.is_set() for process in processes.all] == [True, False, True]
    assert processes.server.sessions == 1
    processes.server.end_sessions_of(b"nobody")
    assert processes.open == 1


@in_virtual_time
async def test_the_processes_of_a_person_end_with_the_key_beside_a_shared_process_too() -> None:
    processes = Processes(by_credential=True)
    gated = GatedUpstream(Process(9, None), processes.server)
    await processes.call(session=b"a", **ALICE)
    assert [gated.has_sessions_of(person) for person in (b"alice", b"bob")] == [True, False]
    gated.end_sessions_of(b"alice")
    await asyncio.sleep(0)
    assert [process.ended.is_set() for process in processes.all] == [True]
    assert not gated.has_sessions_of(b"alice")


@in_virtual_time
async def test_the_sessions_of_clients_count_beside_a_shared_process() -> None:
    processes = Processes()
    gated = GatedUpstream(Process(9, None), processes.server)
    await processes.call(session=b"a")
    assert gated.gauges().idle == 1


@in_virtual_time
async def test_another_key_of_a_person_is_for_another_process() -> None:
    processes = Processes(by_credential=True)
    await processes.call(session=b"a", **ALICE)
    await processes.call(session=b"a", person=b"alice", authorization=b"KEY: new\r\n")
    await asyncio.sleep(0)
    assert processes.lines == [ALICE["authorization"], b"KEY: new\r\n"]
    assert processes.open == 1


@in_virtual_time
async def test_processes_without_keys_do_not_end_with_a_renewed_token() -> None:
    processes = Processes()
    await processes.call(session=b"a", **ALICE)
    await processes.call(session=b"a", person=b"alice", authorization=b"KEY: new\r\n")
    assert processes.lines == [b""]
