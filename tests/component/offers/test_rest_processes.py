"""Heavy REST work in processes: which work runs there, that its results are equal, and that no process is left
behind."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest

from fairlead_api.documents.catalog import Catalog
from fairlead_offers.conversion import jobs
from fairlead_offers.job import ConvertedBody
from fairlead_offers.workers.pool import ProcessPool
from fairlead_offers.workers.process import NotDone, Overloaded
from gatewayworld import ask, calling, catalog, running, scrape, wait_for_requests
from rawserver import RawServer, Reply, Request, raw_server
from restworld import get, post, problem
from toolservers import answer_modern, tool
from waiting import eventually

pytestmark = pytest.mark.timeout(240)
AMPLE: Final = 200.0
"""Time limit in seconds for starting interpreters, which may take most of a minute on a busy machine."""


def tools(count: int) -> list[dict[str, Any]]:
    schema = {"type": "object", "properties": {"a": {"type": "string", "const": "x"}, "b": {"type": "integer"}}}
    return [{"name": f"t{i}", "description": f"Tool {i}. " * 20, "inputSchema": schema} for i in range(count)]


MANY = catalog("demo", "http://127.0.0.1:9/mcp", tools(300))
PLAN: dict[str, Any] = {
    "models": ["claude-sonnet-5"],
    "messages": [{"role": "user", "content": "How much?"}],
    "system": "Be brief.",
    "task": {},
}


def alive(pid: int) -> bool:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    return False


async def wait_for_end(pids: list[int]) -> None:
    """Wait until the processes have ended. They are not children of this process, so their end is not reported."""
    await eventually(lambda: not any(alive(pid) for pid in pids))


@pytest.mark.parametrize("target", ["/v1/tools?format=gemini&geminiField=parameters&model=gemini-3", "/v1/plan"])
async def test_lists_and_plans_in_processes_come_to_what_the_gateway_itself_makes(
    tmp_path: Path, target: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def answers(gateway: Any) -> Any:
        answer = await (post(gateway, target, PLAN) if target.endswith("plan") else get(gateway, target))
        assert answer.status == 200
        return answer.message

    async with running(tmp_path, MANY) as gateway:
        apart = await answers(gateway)
        assert not [record for record in caplog.records if "process" in record.message]
        pools = (gateway.rest.services.work.conversion_pool, gateway.rest.services.work.counting_pool)
        assert [pool and len(pool.pids) for pool in pools] == [1, 1]
        assert await answers(gateway) == apart
    async with running(tmp_path, MANY, rest_processes=0) as gateway:
        assert await answers(gateway) == apart


async def test_a_large_body_is_converted_in_a_process_and_a_small_one_here(tmp_path: Path) -> None:
    async with running(tmp_path, MANY) as gateway:
        pool = gateway.rest.services.work.conversion_pool
        assert pool is not None
        small = await post(gateway, "/v1/convert", {"from": "mcp", "to": "claude", "tools": tools(3)})
        assert (small.status, pool.pids) == (200, [])
        large = await post(gateway, "/v1/convert", {"from": "mcp", "to": "claude", "tools": tools(300)})
        unknown = await post(gateway, "/v1/convert", {"from": "mcp", "to": "smoke", "tools": tools(300)})
        broken = await post(gateway, "/v1/convert", json.dumps(tools(300)).encode()[:-1])
        pids = pool.pids
    assert large.message["tools"][:3] == small.message["tools"]
    assert len(large.message["tools"]) == 300
    assert problem(unknown) == (400, "UNKNOWN_FORMAT")
    assert problem(broken) == (400, "INVALID_ARGUMENTS")
    assert len(pids) == 1
    assert not alive(pids[0])


@pytest.mark.parametrize("count", [3, 300])
async def test_while_a_tool_is_called_a_second_conversion_waits_for_its_turn(tmp_path: Path, count: int) -> None:
    body = {"from": "mcp", "to": "claude", "tools": tools(count)}
    async with (
        blocking_server() as (server, ended),
        running(tmp_path, demo_catalog(server), rest_share=0.0001) as gateway,
    ):
        call = asyncio.create_task(ask(gateway, calling("demo__t0", {})))
        await wait_for_requests(server, 1)
        first = await post(gateway, "/v1/convert", body)
        second = asyncio.create_task(post(gateway, "/v1/convert", body))
        await eventually(lambda: gateway.rest.services.work.throttle.waiting == 1)
        assert "fairlead_conversions_waiting 1.0" in await scrape(gateway)
        ended.set()
        assert "isError" not in (await call).message["result"]
        assert (await second).message == first.message
        assert gateway.rest.services.work.throttle.waiting == 0


async def test_while_a_tool_is_called_conversions_that_would_wait_too_long_are_refused(tmp_path: Path) -> None:
    body = {"from": "mcp", "to": "claude", "tools": tools(3)}
    async with (
        blocking_server() as (server, ended),
        running(tmp_path, demo_catalog(server), rest_share=0.0001) as gateway,
    ):
        call = asyncio.create_task(ask(gateway, calling("demo__t0", {})))
        await wait_for_requests(server, 1)
        conversions = [asyncio.create_task(post(gateway, "/v1/convert", body)) for _ in range(20)]
        await eventually(lambda: [task for task in conversions if task.done() and task.result().status == 429])
        ended.set()
        answers = await asyncio.gather(call, *conversions)
    assert {answer.status for answer in answers} == {200, 429}
    refused = next(answer for answer in answers if answer.status == 429)
    assert problem(refused) == (429, "RATE_LIMITED")
    assert "tool calls first" in refused.message["detail"]


@contextlib.asynccontextmanager
async def blocking_server() -> AsyncIterator[tuple[RawServer, asyncio.Event]]:
    """A server whose calls end when the event is set."""
    ended = asyncio.Event()

    async def handle(request: Request, reply: Reply) -> None:
        await ended.wait()
        answer_modern(request, reply, call=lambda _: {"content": []})

    async with raw_server(handle) as server:
        yield server, ended


def demo_catalog(server: RawServer) -> Catalog:
    return catalog("demo", server.url, [tool("t0")])


async def test_a_process_that_was_killed_is_replaced_and_costs_no_request(tmp_path: Path) -> None:
    body = {"from": "mcp", "to": "claude", "tools": tools(300)}
    async with running(tmp_path, MANY) as gateway:
        assert (await post(gateway, "/v1/convert", body)).status == 200
        pool = gateway.rest.services.work.conversion_pool
        assert pool is not None
        os.kill(pool.pids[0], signal.SIGKILL)
        await wait_for_end(pool.pids)
        again = await post(gateway, "/v1/convert", body)
    assert again.status == 200


async def test_processes_are_at_most_so_many_and_end_when_they_idle() -> None:
    pool = ProcessPool(2, seconds=AMPLE, idle=0.3)
    try:
        work = json.dumps(tools(200)).encode()
        counted = await asyncio.gather(*(pool.do(jobs.COUNT, work) for _ in range(6)))
        pids = pool.pids
        assert 1 <= len(pids) <= 2
        assert all(sizes == counted[0] for sizes in counted)
        assert len(counted[0]) == 200
        await wait_for_end(pids)
        assert pool.pids == []
        assert await pool.do(jobs.COUNT, work) == counted[0]
    finally:
        await pool.aclose()
    with pytest.raises(Overloaded):
        await pool.do(jobs.COUNT, b"[]")


async def test_a_process_of_short_work_serves_thousands_of_pieces() -> None:
    pool = ProcessPool(1, seconds=AMPLE)
    try:
        assert await pool.do(jobs.COUNT, b"[]") == []
        pids = pool.pids
        for _ in range(2_000):
            await pool.do(jobs.REPEATS, b"{}")
        assert pool.pids == pids
    finally:
        await pool.aclose()


async def test_conversions_in_a_process_come_back_as_those_in_the_gateway() -> None:
    request = {"from": "mcp", "to": "openai", "tools": tools(3)}
    bodies = [json.dumps({**request, **more}).encode() for more in ({}, {"to": "nobody's"}, {"to": 1})]
    pool = ProcessPool(1, seconds=AMPLE)
    try:
        made = [await pool.do(jobs.CONVERT, body) for body in bodies]
    finally:
        await pool.aclose()
    assert [_plain(each) for each in made] == [_plain(jobs.convert(body)) for body in bodies]
    assert [isinstance(each, jobs.ConversionFailure) for each in made] == [False, True, True]


def _plain(made: ConvertedBody | jobs.ConversionFailure) -> Any:
    return b"".join(made.parts) if isinstance(made, ConvertedBody) else made


@pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="this system has no idle priority")
async def test_bulk_work_gives_way_to_processes_of_other_sessions_too() -> None:
    for bulk in (True, False):
        pool = ProcessPool(1, bulk=bulk, seconds=AMPLE)
        await pool.do(jobs.COUNT, b"[]")
        (pid,) = pool.pids
        idle = os.sched_getscheduler(pid) == os.SCHED_IDLE
        apart = os.getsid(pid) == pid
        assert (idle, apart) == (bulk, bulk)
        assert not bulk or group_of(pid).endswith("nice 10")
        await pool.aclose()


def group_of(pid: int) -> str:
    """A process's autogroup with its niceness, if the kernel has autogroups."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/autogroup").read_text().rstrip()
    return "no groups, nice 10"


async def test_work_that_takes_too_long_is_ended_with_its_process() -> None:
    pool = ProcessPool(1, seconds=3)
    try:
        with pytest.raises(Overloaded, match="longer than 3 s"):
            await pool.do(jobs.COUNT, json.dumps(tools(200_000)).encode())
        assert pool.pids == []
    finally:
        await pool.aclose()


async def test_a_job_that_raises_is_told_and_the_process_goes_on() -> None:
    pool = ProcessPool(1, seconds=AMPLE)
    try:
        with pytest.raises(NotDone, match="DecodeError"):
            await pool.do(jobs.COUNT, b"[")
        assert await pool.do(jobs.COUNT, b"[]") == []
    finally:
        await pool.aclose()


async def test_processes_die_with_a_gateway_that_is_killed(tmp_path: Path) -> None:
    """This includes processes that are working."""
    program = (
        "import asyncio, json\n"
        "from fairlead_offers.conversion.jobs import COUNT\n"
        "from fairlead_offers.workers.pool import ProcessPool\n"
        "async def main():\n"
        "    pool = ProcessPool(2, seconds=600)\n"
        "    await asyncio.gather(pool.do(COUNT, b'[]'), pool.do(COUNT, b'[]'))\n"
        "    print(json.dumps(pool.pids), flush=True)\n"
        "    await pool.do(COUNT, b'[' + b','.join([b'{\"name\": \"%s\"}' % (b'x ' * 5000)] * 20000) + b']')\n"
        "asyncio.run(main())\n"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(AMPLE):
            pids = json.loads(await process.stdout.readline())
            assert len(pids) == 2
            assert all(alive(pid) for pid in pids)
            process.kill()
            await process.wait()
            await wait_for_end(pids)
    finally:
        if process.returncode is None:  # after a failed test, the process would disturb other tests
            process.kill()
            await process.wait()
