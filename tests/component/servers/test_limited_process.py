"""Child processes for untrusted data: their number, their limits, and their end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from fairlead_mcp.limited_process import WorkFailed
from fairlead_servers.limited_process import MAX_ANSWER, MAX_MEMORY, MAX_WAITING, ProcessSlots, SlotsTaken
from waiting import eventually

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(autouse=True)
def support_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2] / "support"))


async def do_work(
    slots: ProcessSlots, folder: Path, do: str, *, seconds: float = 60, owner: str | None = None
) -> bytes:
    given = json.dumps({"folder": str(folder), "do": do, "bytes": MAX_ANSWER + 1})
    async with slots.slot(owner) as slot:
        return await slot.run("held_work", [given.encode()], seconds)


def pids(folder: Path) -> list[int]:
    return [int(file.name) for file in folder.iterdir()]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_limited_processes_run_three_at_once_and_a_call_that_waits_too_long_is_told_so(tmp_path: Path) -> None:
    slots = ProcessSlots(wait_s=1)
    calls = [asyncio.create_task(do_work(slots, tmp_path, "hold")) for _ in range(6)]
    await eventually(lambda: sum(call.done() for call in calls) >= 3 or len(pids(tmp_path)) == 6)

    refused = [call for call in calls if call.done()]
    assert len(pids(tmp_path)) <= 3
    assert {str(call.exception()) for call in refused} == {"no process became free within 1 s; try again later"}
    assert {type(call.exception()) for call in refused} == {SlotsTaken}
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)


async def test_a_process_ends_with_the_call_that_is_cancelled_and_its_slot_is_free(tmp_path: Path) -> None:
    slots = ProcessSlots(wait_s=60)
    calls = [asyncio.create_task(do_work(slots, tmp_path, "hold")) for _ in range(3)]
    await eventually(lambda: len(pids(tmp_path)) == 3)
    held = pids(tmp_path)
    assert all(alive(pid) for pid in held)
    waiting = asyncio.create_task(do_work(slots, tmp_path, "tell"))
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)

    assert not any(alive(pid) for pid in held)
    assert await waiting


async def test_an_owner_of_processes_leaves_a_slot_to_others(tmp_path: Path) -> None:
    slots = ProcessSlots(wait_s=5)
    calls = [asyncio.create_task(do_work(slots, tmp_path, "hold", owner="evil.example")) for _ in range(6)]
    await eventually(lambda: len(pids(tmp_path)) >= 2)

    assert await do_work(slots, tmp_path, "tell", owner="web.example")
    assert len(pids(tmp_path)) == 3, "two of the one, and one of the other"
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)


async def test_calls_that_wait_are_bounded(tmp_path: Path) -> None:
    slots = ProcessSlots(wait_s=60)
    calls = [asyncio.create_task(do_work(slots, tmp_path, "hold")) for _ in range(3 + MAX_WAITING)]
    await asyncio.sleep(0)
    try:
        with pytest.raises(SlotsTaken, match="64 other calls are waiting; try again later"):
            await do_work(slots, tmp_path, "tell")
    finally:  # a loop that is closed while asyncio connects a new process's pipes waits for that process forever
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)


async def test_a_process_has_512_mib_and_little_more_processor_time_than_its_deadline(tmp_path: Path) -> None:
    assert MAX_MEMORY == 512 * 2**20
    assert json.loads(await do_work(ProcessSlots(wait_s=60), tmp_path, "tell", seconds=4.5)) == [MAX_MEMORY, 6]


@pytest.mark.parametrize(
    ("do", "why"),
    [
        ("spin", r"takes longer than 0\.5 s"),
        ("fail", "exited with code 1"),
        ("grow", "returns more than 32 MiB"),
    ],
)
async def test_a_limited_process_that_fails_is_told_and_gone(do: str, why: str, tmp_path: Path) -> None:
    folder = tmp_path if do != "fail" else tmp_path / "missing"
    with pytest.raises(WorkFailed, match=why):
        await do_work(ProcessSlots(wait_s=60), folder, do, seconds=0.5 if do == "spin" else 60)
    assert not any(alive(pid) for pid in pids(tmp_path))


async def test_a_process_whose_server_is_gone_ends_by_its_own_clock(tmp_path: Path) -> None:
    words = [sys.executable, "-P", "-m", "fairlead_mcp.limited_work", "held_work", str(MAX_MEMORY), "1"]
    process = await asyncio.create_subprocess_exec(*words, stdin=PIPE)
    await process.communicate(json.dumps({"folder": str(tmp_path), "do": "hold"}).encode())
    assert process.returncode == -signal.SIGALRM


async def test_work_that_needs_more_memory_is_refused_by_the_system(tmp_path: Path) -> None:
    given = json.dumps({"folder": str(tmp_path), "do": "grow", "bytes": 2 * MAX_MEMORY}).encode()
    async with ProcessSlots(wait_s=60).slot() as slot:
        with pytest.raises(WorkFailed, match="needs more than 512 MiB of memory"):
            await slot.run("held_work", [given], 60)
