"""Results in a file: restarts, time to live, a full disk, a damaged file, and gateways that share it."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from fairlead_api.bad_setting import BadSetting
from fairlead_gateway.result_stores.disk import NAME, DiskStore
from fairlead_gateway.result_stores.store import Bounds, ContextUnavailable
from gatewayworld import Clock, ask, calling, catalog, running
from routercalls import KIB, blob, context_of, execute
from toolservers import modern_server, tool
from waiting import eventually

BOUNDS = Bounds(60, 4 * KIB, 8 * KIB)


def files(folder: Path) -> bytes:
    """Content of all files in the folder."""
    return b"".join(path.read_bytes() for path in folder.iterdir())


async def test_results_outlive_their_gateway_and_end_with_their_time(tmp_path: Path) -> None:
    clock = Clock()
    folder = tmp_path / "new" / "results"
    first = DiskStore(folder, BOUNDS, clock)
    await first.append("ada", "one", "a0", blob("a0"))
    clock.forward(30)
    await first.append("ada", "two", "b0", blob("b0"))
    await first.aclose()
    second = DiskStore(folder, BOUNDS, clock)
    assert await second.entry("ada", "one", "a0") == blob("a0")
    clock.forward(31)
    assert await second.entries("ada", "one") == []
    assert await second.entries("ada", "two") == [blob("b0")]
    assert await second.delete("ada", "one") == 0
    await second.aclose()
    clock.forward(30)
    await DiskStore(folder, BOUNDS, clock).aclose()
    assert b"b0." not in files(folder), "what ended while no gateway ran is deleted at the start"


async def test_expired_results_leave_the_file_without_a_new_result(tmp_path: Path) -> None:
    results = DiskStore(tmp_path, Bounds(0.05, 4 * KIB, 8 * KIB))
    await results.append("ada", "one", "a0", blob("the key is under the mat"))
    await eventually(lambda: b"under the mat" not in files(tmp_path))
    await results.aclose()


async def test_files_are_their_owners_and_name_nobody(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    results = DiskStore(folder, BOUNDS)
    await results.append("agent ada", "chosen-session", "chosen-session/7", blob("a0"))
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    held = files(folder)
    assert b"a0." in held
    assert b"ada" not in held
    assert b"chosen" not in held
    await results.aclose()


async def test_the_file_is_bounded_and_shrinks_with_what_it_holds(tmp_path: Path) -> None:
    results = DiskStore(tmp_path, Bounds(60, 1 << 20, 4 << 20))
    path = tmp_path / NAME
    for number in range(12):
        await results.append(f"account {number}", "one", "a0", blob("a0", 1 << 20))
        assert path.stat().st_size < 5 << 20
    assert [len(await results.entries(f"account {number}", "one")) for number in range(12)] == [0] * 8 + [1] * 4
    for number in range(8, 12):
        assert await results.delete(f"account {number}", "one") == 1
    assert path.stat().st_size < 64 * KIB
    await results.aclose()


async def test_many_sessions_of_one_account_leave_nothing_behind(tmp_path: Path) -> None:
    results = DiskStore(tmp_path, BOUNDS)
    for number in range(20):
        await results.append("ada", f"session {number}", "a0", blob("a0"))
    await results.aclose()
    with sqlite3.connect(tmp_path / NAME) as database:
        assert database.execute("SELECT count(*) FROM sessions").fetchone() == (4,)
        assert database.execute("SELECT size FROM total").fetchone() == (4 * KIB,)
    database.close()


FULL = """
import asyncio, resource, sys
from pathlib import Path
from fairlead_gateway.result_stores.disk import DiskStore
from fairlead_gateway.result_stores.store import Bounds, ContextUnavailable

async def fill():
    kept = DiskStore(Path(sys.argv[1]), Bounds(60, 4 << 20, 4 << 20))
    await kept.append("ada", "one", "a0", b"first")
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 18, resource.RLIM_INFINITY))
    try:
        await kept.append("ada", "one", "a1", b"." * (1 << 20))
    except ContextUnavailable as error:
        print(error)
    print(await kept.entries("ada", "one") == [b"first"])
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    await kept.append("ada", "one", "a1", b"." * (1 << 20))
    print(len(await kept.entries("ada", "one")))
    await kept.aclose()

asyncio.run(fill())
"""


async def test_a_full_disk_keeps_no_more_says_so_and_takes_results_again_when_there_is_room(tmp_path: Path) -> None:
    """Runs in a process of its own with a limit on the size of files."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", FULL, str(tmp_path), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await child.communicate()
    first_line, *rest = out.decode().splitlines()
    assert first_line.startswith("the store of results cannot be used: ")
    assert rest == ["True", "2"]
    assert err.decode().count("Results cannot be stored") == 1


async def test_a_smaller_bound_than_before_holds_with_the_next_result(tmp_path: Path) -> None:
    large = DiskStore(tmp_path, Bounds(60, 1 << 20, 8 << 20))
    for number in range(8):
        await large.append(f"account {number}", "one", "a0", blob("a0", 1 << 20))
    await large.aclose()
    small = DiskStore(tmp_path, Bounds(60, 64 * KIB, 64 * KIB))
    await small.append("ada", "one", "a0", blob("a0", 64 * KIB))
    assert (tmp_path / NAME).stat().st_size < 128 * KIB
    assert len(await small.entries("ada", "one")) == 1
    await small.aclose()


async def test_a_file_that_somebody_holds_costs_results_and_no_calls(tmp_path: Path) -> None:
    results = DiskStore(tmp_path, BOUNDS, lock_timeout=0.01)
    holder = sqlite3.connect(tmp_path / NAME, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(ContextUnavailable, match="locked"):
        await results.append("ada", "one", "a0", blob("a0"))
    holder.close()
    await results.append("ada", "one", "a0", blob("a0"))
    assert await results.entries("ada", "one") == [blob("a0")]
    await results.aclose()


@pytest.mark.parametrize("damage", [b"no database at all" * 100, b""])
async def test_a_damaged_file_is_replaced_by_an_empty_one(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / NAME).write_bytes(damage)
    results = DiskStore(tmp_path, BOUNDS)
    await results.append("ada", "one", "a0", blob("a0"))
    assert await results.entries("ada", "one") == [blob("a0")]
    await results.aclose()
    with sqlite3.connect(tmp_path / NAME) as database:
        database.execute("PRAGMA user_version = 7")
    database.close()
    again = DiskStore(tmp_path, BOUNDS)
    assert await again.entries("ada", "one") == [], "a file with tables of another version"
    await again.aclose()


async def test_a_disk_that_hangs_holds_up_no_call_and_no_result(tmp_path: Path) -> None:
    hangs = threading.Event()
    goes_on = threading.Event()

    def clock() -> float:
        if hangs.is_set():
            goes_on.wait()
        return 0.0

    results = DiskStore(tmp_path, BOUNDS, clock, patience=0.05)
    hangs.set()
    with pytest.raises(ContextUnavailable, match="does not respond"):
        await results.append("ada", "one", "a0", blob("a0"))
    await eventually(lambda: results.hangs)
    entry = blob("a1")
    holders = sys.getrefcount(entry)
    with pytest.raises(ContextUnavailable, match="does not respond"):
        await results.append("ada", "one", "a1", entry)
    gc.collect()
    assert sys.getrefcount(entry) == holders, "what is refused meanwhile is held nowhere"
    hangs.clear()
    goes_on.set()
    await eventually(lambda: not results.hangs)
    await results.append("ada", "one", "a4", blob("a4"))
    assert await results.entry("ada", "one", "a4") == blob("a4")
    await results.aclose()


async def test_gateways_of_one_machine_share_a_file_and_its_bounds(tmp_path: Path) -> None:
    first = DiskStore(tmp_path, BOUNDS)
    second = DiskStore(tmp_path, BOUNDS)
    async with asyncio.TaskGroup() as group:
        for number in range(8):
            store = (first, second)[number % 2]
            group.create_task(store.append(f"account {number}", "one", f"a{number}", blob(f"a{number}", 2 * KIB)))
    counts = [len(await store.entries(f"account {number}", "one")) for store in (first, second) for number in range(8)]
    assert counts[:8] == counts[8:]
    assert sum(counts[:8]) == 4
    await first.aclose()
    await second.aclose()


async def test_a_gateway_reads_after_a_restart_what_the_one_before_kept(tmp_path: Path) -> None:
    def call(_: object) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": "the key is under the mat"}]}

    settings: dict[str, Any] = {"context_directory": tmp_path / "results", "session_key": "same"}
    async with modern_server([tool("ask")], call=call) as server:
        house = catalog("house", server.url, [tool("ask")])
        async with running(tmp_path, house, **settings) as gateway:
            session = context_of(await ask(gateway, execute("house__ask")))["sessionId"]
            held = files(tmp_path / "results")
            assert b"under the mat" in held
            assert session.encode() not in held
        async with running(tmp_path, house, **settings) as gateway:
            question = calling("retrieve_context", {"session_id": session, "query": "where is the key"})
            answer = await ask(gateway, question.to("/router/mcp"))
            assert "under the mat" in answer.message["result"]["content"][0]["text"]
            assert context_of(await ask(gateway, execute("house__ask", session_id=session)))["recorded"]


async def test_a_folder_that_cannot_be_used_is_named_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(BadSetting, match=r"FAIRLEAD_CONTEXT_DIRECTORY is .*taken, which cannot be used"):
        async with running(tmp_path, context_directory=tmp_path / "taken"):
            pass
