"""Grants in a folder of one machine, which several processes may share."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from fairlead_gateway.grants.folder_store import SUFFIX, FolderGrantStore
from fairlead_gateway.grants.machine_keys import KEY_FILE, MachineKeys
from fairlead_gateway.grants.private_files import TEMPORARY
from fairlead_gateway.grants.sealed_grant import SealedGrant, record_name
from fairlead_mcp.oauth.stored_grant import GrantKey, GrantStoreError, StoredGrant, UnreadableGrant

KEY = GrantKey(b"local", "default/linear")
OTHER = GrantKey(b"local", "default/sentry")
SOMEBODY = GrantKey(b"jwt:https://idp#ada", "default/linear")
GRANT = StoredGrant(issuer="https://as", client_id="c", refresh_token="r1-secret", holder="local")
RACER = """
import asyncio, sys
from pathlib import Path
import msgspec
from fairlead_gateway.grants.folder_store import FolderGrantStore
from fairlead_gateway.grants.machine_keys import MachineKeys
from fairlead_mcp.oauth.stored_grant import GrantKey

async def race(folder, times):
    store, key = FolderGrantStore(folder, MachineKeys(folder, lambda: None)), GrantKey(b"local", "default/linear")
    await asyncio.to_thread(sys.stdin.readline)
    for _ in range(times):
        while True:
            read = await store.read(key)
            grant = msgspec.structs.replace(read.grant, renewed_at=read.grant.renewed_at + 1)
            if await store.write(key, grant, replaces=read.version) is not None:
                break

asyncio.run(race(Path(sys.argv[1]), int(sys.argv[2])))
"""
INTERRUPTED = """
import asyncio, os, signal, sys
from pathlib import Path
from fairlead_gateway.grants.folder_store import FolderGrantStore
from fairlead_gateway.grants.machine_keys import MachineKeys
from fairlead_mcp.oauth.stored_grant import GrantKey, StoredGrant

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

folder = Path(sys.argv[1])
store = FolderGrantStore(folder, MachineKeys(folder, lambda: None))
Path.replace = die
asyncio.run(store.write(GrantKey(b"local", "default/linear"), StoredGrant(issuer="new", client_id="c")))
"""


def new_store(folder: Path) -> FolderGrantStore:
    return FolderGrantStore(folder, MachineKeys(folder, lambda: None))


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[FolderGrantStore]:
    store = new_store(folder)
    try:
        yield store
    finally:
        await store.aclose()


def record_file(folder: Path, key: GrantKey = KEY) -> Path:
    return folder / f"{record_name(key)}{SUFFIX}"


def temporary_files(folder: Path) -> list[Path]:
    return list(folder.glob(f"*{TEMPORARY}"))


async def test_a_stored_grant_is_read_after_a_restart(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "grants"
    async with opened(folder) as store:
        assert await store.read(KEY) is None
        assert not folder.exists()
        version = await store.write(KEY, GRANT)
    async with opened(folder) as store:
        read = await store.read(KEY)
        assert read is not None
        assert read == (GRANT, version)


async def test_files_of_grants_are_their_owners_alone_and_show_no_secret(tmp_path: Path) -> None:
    async with opened(tmp_path / "grants") as store:
        await store.write(KEY, GRANT)
    files = [path for path in (tmp_path / "grants").iterdir() if path.is_file()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert stat.S_IMODE((tmp_path / "grants").stat().st_mode) == 0o700
    assert not any(GRANT.refresh_token in path.read_text() for path in files if path.name != KEY_FILE)


async def test_a_grant_replaces_only_the_version_that_the_writer_has_read(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        first = await store.write(KEY, GRANT, replaces="")
        assert first
        assert await store.write(KEY, GRANT, replaces="") is None
        second = await store.write(KEY, msgspec.structs.replace(GRANT, refresh_token="r2"), replaces=first)
        assert second
        assert await store.write(KEY, GRANT, replaces=first) is None
        read = await store.read(KEY)
        assert read is not None
        assert read.grant.refresh_token == "r2"


async def test_a_grant_that_was_deleted_and_made_again_has_another_version(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        first = await store.write(KEY, GRANT)
        assert await store.delete(KEY)
        assert not await store.delete(KEY)
        assert await store.write(KEY, GRANT, replaces=first) is None
        assert await store.write(KEY, GRANT) != first


async def test_a_grant_is_deleted_only_in_the_version_that_the_caller_has_read(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        first = await store.write(KEY, GRANT)
        second = await store.write(KEY, GRANT)
        assert not await store.delete(KEY, first)
        assert await store.delete(KEY, second)
        assert not await store.delete(KEY, "")


async def test_grants_are_listed_for_their_person_and_for_administrators(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        for key in (KEY, OTHER, SOMEBODY):
            await store.write(key, GRANT)
        assert {key for key, _ in await store.of_person(b"local")} == {KEY, OTHER}
        assert {key for key, _ in await store.all_grants()} == {KEY, OTHER, SOMEBODY}
        assert {key for key, _ in await store.all_grants({OTHER.server})} == {OTHER}


class _CountingStore(FolderGrantStore):
    """Counts the records that it reads from files."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, MachineKeys(folder, lambda: None))
        self.records_read = 0

    def _record(self, path: Path) -> SealedGrant | None:
        self.records_read += 1
        return super()._record(path)


async def test_files_of_other_persons_are_not_read_for_the_grants_of_one(tmp_path: Path) -> None:
    others = [GrantKey(b"jwt:https://idp#%d" % number, "default/linear") for number in range(20)]
    another_process = new_store(tmp_path)
    for key in others[:10]:
        await another_process.write(key, GRANT)
    async with aclosing(_CountingStore(tmp_path)) as store:
        store.changes()  # lists all files
        for key in [*others[10:], KEY]:
            await store.write(key, GRANT)
        await another_process.write(OTHER, GRANT)  # a grant of the same user, which the reader has not seen yet
        store.records_read = 0
        assert [key for key, _ in sorted(await store.of_person(b"local"))] == [KEY, OTHER]
        assert store.records_read == 2


async def test_two_processes_lose_no_change_of_a_grant(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await store.write(KEY, GRANT)
        racers = [
            await asyncio.create_subprocess_exec(sys.executable, "-c", RACER, str(tmp_path), "20", stdin=PIPE)
            for _ in range(2)
        ]
        await asyncio.gather(*(racer.communicate(b"\n") for racer in racers))
        assert [racer.returncode for racer in racers] == [0, 0]
        read = await store.read(KEY)
        assert read is not None
        assert read.grant.renewed_at == 40


async def test_a_writer_that_is_killed_before_the_rename_leaves_the_old_grant(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        version = await store.write(KEY, GRANT)
        writer = await asyncio.create_subprocess_exec(sys.executable, "-c", INTERRUPTED, str(tmp_path))
        assert await writer.wait() == -signal.SIGKILL
        left = record_file(tmp_path).with_name(record_file(tmp_path).name + TEMPORARY)
        assert left.exists()
        read = await store.read(KEY)
        assert read is not None
        assert read == (GRANT, version)
        assert [key for key, _ in await store.all_grants()] == [KEY]
        assert await store.write(KEY, GRANT, replaces=version)
        assert not left.exists()


async def test_changes_of_another_process_are_noticed(tmp_path: Path) -> None:
    async with opened(tmp_path) as store, opened(tmp_path) as other:
        await store.write(KEY, GRANT)
        changes = store.changes()
        await other.write(SOMEBODY, GRANT)
        assert await anext(changes) == SOMEBODY
        await other.delete(KEY)
        assert await anext(changes) == KEY


async def test_a_grant_that_came_and_went_between_two_looks_is_noticed_where_it_was_used(tmp_path: Path) -> None:
    async with opened(tmp_path) as store, opened(tmp_path) as other:
        changes = store.changes()
        await other.write(KEY, GRANT)
        assert await store.read(KEY) is not None
        await other.delete(KEY)
        assert await anext(changes) == KEY


async def test_deletions_are_told_without_writes(tmp_path: Path) -> None:
    async with opened(tmp_path) as store, opened(tmp_path) as other:
        await store.write(OTHER, GRANT)
        deletions = store.changes(deletions=True)
        await store.write(KEY, GRANT)
        await other.write(SOMEBODY, GRANT)
        await other.delete(OTHER)
        assert await anext(deletions) == OTHER
        await store.delete(KEY)
        assert await anext(deletions) == KEY


async def test_a_record_that_another_process_deletes_and_writes_again_is_found_for_its_person(tmp_path: Path) -> None:
    async with opened(tmp_path) as store, opened(tmp_path) as other:
        deletions = store.changes(deletions=True)
        await store.write(KEY, GRANT)
        await other.delete(KEY)
        assert await anext(deletions) == KEY
        await other.write(KEY, GRANT)
        assert [key for key, _ in await store.of_person(KEY.person)] == [KEY]


async def test_own_changes_are_noticed_at_once_until_the_store_is_closed(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    changes, later = store.changes(), store.changes()
    await store.write(KEY, GRANT)
    await store.write(KEY, GRANT)
    assert await anext(changes) == KEY
    await store.aclose()
    assert [key async for key in later] == [KEY]


async def test_a_grant_whose_key_is_lost_can_be_replaced_by_a_new_one(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await store.write(KEY, GRANT)
    (tmp_path / KEY_FILE).unlink()
    async with opened(tmp_path) as store:
        for _ in range(2):
            with pytest.raises(UnreadableGrant, match="sign in again"):
                await store.read(KEY)
        assert await store.all_grants() == []
        await store.write(KEY, GRANT)
        assert (await store.read(KEY)) is not None


async def test_a_key_that_another_process_made_is_loaded(tmp_path: Path) -> None:
    async with opened(tmp_path) as store, opened(tmp_path) as other:
        await store.write(KEY, GRANT)
        (tmp_path / KEY_FILE).unlink()
        await other.write(KEY, GRANT)
        assert await store.read(KEY) is not None


async def test_a_record_in_the_place_of_another_one_is_refused_and_not_listed(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await store.write(KEY, GRANT)
        record_file(tmp_path).rename(record_file(tmp_path, SOMEBODY))
        with pytest.raises(UnreadableGrant, match="somebody else"):
            await store.read(SOMEBODY)
        assert await store.all_grants() == []


async def test_an_odd_file_costs_only_itself(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await store.write(KEY, GRANT)
        (tmp_path / f"odd{SUFFIX}").write_bytes(b"{")
        (tmp_path / f"link{SUFFIX}").symlink_to("/etc/passwd")
        (tmp_path / f"folder{SUFFIX}").mkdir()
        assert [key for key, _ in await store.all_grants()] == [KEY]
        record_file(tmp_path).write_bytes(b"{")
        assert await store.read(KEY) is None
        assert await store.write(KEY, GRANT, replaces="")


async def test_a_folder_that_cannot_be_used_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    async with opened(tmp_path / "file" / "grants") as store:
        with pytest.raises(GrantStoreError, match=r"Not a directory: .*FAIRLEAD_GRANTS_DIRECTORY"):
            await store.write(KEY, GRANT)


async def test_a_full_disk_keeps_the_old_grant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(tmp_path) as store:
        await store.write(KEY, GRANT)

        def full(handle: int) -> None:
            raise OSError(28, os.strerror(28))

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(GrantStoreError, match=r"No space left .*free some space; the stored grants are kept"):
                await store.write(KEY, msgspec.structs.replace(GRANT, refresh_token="r2"))
        read = await store.read(KEY)
        assert read is not None
        assert read.grant == GRANT
        assert not temporary_files(tmp_path)
