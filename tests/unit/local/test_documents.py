"""Documents and credentials in directories."""

from __future__ import annotations

import stat
from pathlib import Path

import msgspec
import pytest
from msgspec import Raw

from fairlead_api.documents.catalog import CATALOG, Catalog, ChildEndpoint, Credential, ToolEntry
from fairlead_api.documents.codec import SERVERS_NAME, catalog_name, encode
from fairlead_api.documents.servers import SERVERS, Servers
from fairlead_api.documents.store import pack
from fairlead_api.meta import ServerKey
from fairlead_operator.local.documents import (
    RESERVE,
    DirectoryCredentialStore,
    DirectoryDocuments,
    DirectoryTrouble,
    UnwrittenFiles,
)
from fairlead_operator.publish.catalogs import labels_for

KEY = ServerKey("default", "demo")


def catalog(description: str = "") -> Catalog:
    definition = Raw(msgspec.json.encode({"name": "add", "description": description}))
    tool = ToolEntry(name="add", definition=definition, hash="h", search_hash="s")
    return Catalog(
        namespace="default",
        name="demo",
        uid="u1",
        generation=1,
        endpoint=ChildEndpoint(command="x"),
        protocol_version="2026-07-28",
        tools=(tool,),
    )


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_a_document_is_published_read_and_withdrawn(tmp_path: Path) -> None:
    written: list[None] = []
    documents = DirectoryDocuments(tmp_path / "d", lambda: written.append(None))
    name = catalog_name(KEY)
    data = encode(catalog())
    await documents.publish(pack(name, CATALOG, data, labels_for(KEY, "u1")))
    assert await documents.read(name) == data
    assert documents.catalog(KEY) == catalog()
    assert sorted(file.name for file in (tmp_path / "d").iterdir()) == [RESERVE, f"{name}.json"]
    await documents.withdraw(name)
    await documents.withdraw(name)
    assert await documents.read(name) is None
    assert documents.catalog(KEY) is None
    assert await documents.heads() == {}
    assert len(written) == 3


async def test_a_document_of_many_parts_is_one_file(tmp_path: Path) -> None:
    documents = DirectoryDocuments(tmp_path)
    noise = "".join(chr(33 + (i * i * 7919) % 90) for i in range(3_000_000))
    data = encode(catalog(noise))
    blobs = pack("big", CATALOG, data)
    assert len(blobs) > 1 or blobs[0].binary
    await documents.publish(blobs)
    assert await documents.read("big") == data


async def test_a_directory_of_an_earlier_run_is_known_with_its_labels(tmp_path: Path) -> None:
    name = catalog_name(KEY)
    blobs = pack(name, CATALOG, encode(catalog()), labels_for(KEY, "u1"))
    await DirectoryDocuments(tmp_path).publish(blobs)
    (tmp_path / "notes.json").write_text("{}")
    assert await DirectoryDocuments(tmp_path).heads() == {name: blobs[-1].labels}


async def test_a_directory_that_cannot_be_written_is_trouble_and_no_crash(tmp_path: Path) -> None:
    documents = DirectoryDocuments(tmp_path / "d")
    (tmp_path / "d").rmdir()
    with pytest.raises(DirectoryTrouble, match="No such file"):
        await documents.publish(pack("x", CATALOG, encode(catalog())))


async def test_failed_writes_are_reported_until_every_file_is_written(tmp_path: Path) -> None:
    reports: list[tuple[Path, str] | None] = []
    documents = DirectoryDocuments(tmp_path / "d", unwritten_files=UnwrittenFiles(reports.append))
    in_the_way = [tmp_path / "d" / f"{name}.json" for name in ("x", "y")]
    for folder in in_the_way:
        folder.mkdir()
        with pytest.raises(DirectoryTrouble):
            await documents.publish(pack(folder.stem, CATALOG, encode(catalog())))
    assert reports == [(in_the_way[0], "Is a directory")], "one problem at a time, which stays until it is solved"
    assert sorted((tmp_path / "d").iterdir()) == in_the_way, "a part of a file takes up the last space"
    for folder in in_the_way:
        assert reports[-1] == (folder, "Is a directory")
        folder.rmdir()
        await documents.publish(pack(folder.stem, CATALOG, encode(catalog())))
    assert reports[2:] == [None]


async def test_the_servers_document_has_space_on_a_full_disk_and_other_documents_have_not(tmp_path: Path) -> None:
    """Writing `/dev/full` fails as on a full disk."""
    documents = DirectoryDocuments(tmp_path)
    documents.reserve_space()
    reserved = (tmp_path / RESERVE).stat()
    assert reserved.st_blocks * 512 >= reserved.st_size > 0
    for name in (SERVERS_NAME, catalog_name(KEY)):
        (tmp_path / f".{name}.json.tmp").symlink_to("/dev/full")
    data = encode(Servers())
    await documents.publish(pack(SERVERS_NAME, SERVERS, data))
    assert await documents.read(SERVERS_NAME) == data
    assert (tmp_path / RESERVE).stat().st_size == reserved.st_size, "there is space for the next one"
    with pytest.raises(DirectoryTrouble, match="No space left"):
        await documents.publish(pack(catalog_name(KEY), CATALOG, encode(catalog())))
    (tmp_path / RESERVE).unlink()
    (tmp_path / RESERVE).symlink_to("/dev/full")
    with pytest.raises(DirectoryTrouble, match="No space left"):
        documents.reserve_space()


def test_a_file_that_is_not_written_again_counts_as_unwanted(tmp_path: Path) -> None:
    reports: list[tuple[Path, str] | None] = []
    now = [0.0]
    unwritten = UnwrittenFiles(reports.append, lambda: now[0])
    with pytest.raises(DirectoryTrouble), unwritten.record_failure(tmp_path / "x"):
        raise OSError(28, "No space left on device")
    now[0] = 15.0
    unwritten.forget_older(15.0)
    assert reports == [(tmp_path / "x", "No space left on device")]
    now[0] = 15.1
    unwritten.forget_older(15.0)
    unwritten.forget_older(15.0)
    assert reports[1:] == [None]


def test_credentials_can_be_read_by_their_owner_alone(tmp_path: Path) -> None:
    store = DirectoryCredentialStore(tmp_path / "credentials")
    ref = store.store(KEY, Credential(headers={"A": "b"}, env={"T": "s3cret"}))
    file = tmp_path / "credentials" / f"{ref.secret}.json"
    assert mode(tmp_path / "credentials") == 0o700
    assert mode(file) == 0o600
    assert msgspec.json.decode(file.read_bytes(), type=Credential) == Credential(
        headers={"A": "b"}, env={"T": "s3cret"}
    )
    assert "s3cret" not in str(ref)
    store.drop(KEY)
    store.drop(KEY)
    assert not file.exists()


def test_the_reference_changes_with_the_value_and_only_then(tmp_path: Path) -> None:
    store = DirectoryCredentialStore(tmp_path)
    first = store.store(KEY, Credential(env={"A": "1", "B": "2"}))
    same = store.store(KEY, Credential(env={"B": "2", "A": "1"}))
    other = store.store(KEY, Credential(env={"A": "1", "B": "3"}))
    assert first == same
    assert first.secret == other.secret
    assert first.hash != other.hash
