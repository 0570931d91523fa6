"""The folder of file-io: paths that leave it, limits, and files that survive failures."""

from __future__ import annotations

import errno
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from fairlead_servers.file_io.jail import FileRefused, FolderQuota, Jail

LARGE = FolderQuota(file_bytes=1000, total_bytes=10_000, files=100)


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def refusal_of(jail: Jail, path: str, content: bytes | None = None) -> str:
    with pytest.raises(FileRefused) as caught:
        jail.read(path) if content is None else jail.write(path, content)
    return str(caught.value)


def test_a_file_is_written_with_its_folders_replaced_and_read(tmp_path: Path) -> None:
    jail = Jail(tmp_path / "files", LARGE)
    assert jail.write("a/b/c.txt", b"one")
    assert not jail.write("a//b/./c.txt", b"two")
    assert jail.read("a/b/c.txt") == b"two"
    assert names(tmp_path / "files" / "a" / "b") == ["c.txt"]


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "../x",
        "a/../../x",
        "..",
        ".",
        "/",
        "a\0b",
        "a\\..\\b",
        "x" * 201,
        "/".join("abcdefghijklmnopqr"),
        "a\nb",
        ".fairlead-0",
        "\u202ea",
    ],
)
def test_a_path_that_leaves_the_folder_or_hides_something_is_refused(path: str, tmp_path: Path) -> None:
    jail = Jail(tmp_path / "files", LARGE)
    refusal_of(jail, path)
    refusal_of(jail, path, b"x")
    assert names(tmp_path) == ["files"]


def test_links_are_followed_nowhere_on_a_path(tmp_path: Path) -> None:
    jail = Jail(tmp_path / "files", LARGE)
    root = tmp_path / "files"
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (root / "folder").symlink_to(outside)
    (root / "file").symlink_to(outside / "secret")
    (root / "new").symlink_to(outside / "new")
    for path in ("folder/secret", "file", "new"):
        assert "link" in refusal_of(jail, path)
        assert "link" in refusal_of(jail, path, b"x")
    assert (outside / "secret").read_text() == "secret"
    assert names(outside) == ["secret"]


def test_a_file_with_a_second_name_elsewhere_is_not_read_and_a_write_leaves_the_other_alone(tmp_path: Path) -> None:
    jail = Jail(tmp_path / "files", LARGE)
    outside = tmp_path / "secret"
    outside.write_text("secret")
    os.link(outside, tmp_path / "files" / "linked")
    assert refusal_of(jail, "linked") == "linked is a hard link"
    assert not jail.write("linked", b"new")
    assert (jail.read("linked"), outside.read_text()) == (b"new", "secret")


def test_refused_writes_leave_no_folders(tmp_path: Path) -> None:
    jail = Jail(tmp_path / "files", FolderQuota(file_bytes=10, total_bytes=15, files=2))
    jail.write("one", b"x" * 10)
    assert "15 bytes" in refusal_of(jail, "a/b/large", b"x" * 10)
    jail.write("two", b"x")
    assert "the limit of 2 files" in refusal_of(jail, "c/d/third", b"")
    assert names(tmp_path / "files") == ["one", "two"]


def test_a_server_whose_folder_was_removed_says_so(tmp_path: Path) -> None:
    jail = Jail(tmp_path / "files", LARGE)
    (tmp_path / "files").rmdir()
    for path in ("one", "a/two"):
        assert "restart the server" in refusal_of(jail, path, b"x")
        assert refusal_of(jail, path) == f"the file {path} does not exist"


def test_a_folder_that_becomes_a_link_while_it_is_written_to_leads_nowhere_else(tmp_path: Path) -> None:
    quota = FolderQuota(file_bytes=1000, total_bytes=10_000, files=1000)
    jail = Jail(tmp_path / "files", quota)
    root = tmp_path / "files"
    outside = tmp_path / "outside"
    outside.mkdir()
    done = threading.Event()

    def swap() -> None:
        turn = 0
        while not done.is_set():
            turn += 1
            with suppress(FileNotFoundError):
                (root / "d").rename(root / f"kept{turn}")
            with suppress(FileExistsError):
                (root / "d").symlink_to(outside)
                (root / "d").unlink()

    swapping = threading.Thread(target=swap)
    swapping.start()
    written = 0
    try:
        for _ in range(300):
            try:
                jail.write("d/x", b"x")
                written += 1
            except FileRefused:
                continue
    finally:
        done.set()
        swapping.join()
    assert names(outside) == []
    assert written


def test_paths_that_are_not_files_are_neither_read_nor_replaced(tmp_path: Path) -> None:
    jail = Jail(tmp_path / "files", LARGE)
    (tmp_path / "files" / "folder").mkdir()
    os.mkfifo(tmp_path / "files" / "pipe")
    assert "is a folder" in refusal_of(jail, "folder")
    assert "is a folder" in refusal_of(jail, "folder", b"x")
    assert "not a regular file" in refusal_of(jail, "pipe")
    assert "not a regular file" in refusal_of(jail, "pipe", b"x")
    assert refusal_of(jail, "gone") == "the file gone does not exist"


def test_quotas_bound_a_file_all_files_and_their_number(tmp_path: Path) -> None:
    jail = Jail(tmp_path / "files", FolderQuota(file_bytes=10, total_bytes=25, files=3))
    assert "allows 10 bytes" in refusal_of(jail, "a", b"x" * 11)
    for name in "ab":
        jail.write(name, b"x" * 10)
    assert "this file adds 10" in refusal_of(jail, "c", b"x" * 10)
    jail.write("b", b"x")
    jail.write("c", b"x" * 10)
    assert "the limit of 3 files" in refusal_of(jail, "d", b"")
    (tmp_path / "files" / "a").write_bytes(b"x" * 100)
    assert "has more bytes than this server allows for a file (10)" in refusal_of(jail, "a")


def test_a_full_disk_leaves_the_old_text_and_nothing_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jail = Jail(tmp_path / "files", LARGE)
    jail.write("a", b"old")
    real = os.fsync

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert refusal_of(jail, "a", b"new") == "a was not written: the disk is full"
    monkeypatch.setattr(os, "fsync", real)
    assert jail.read("a") == b"old"
    assert names(tmp_path / "files") == ["a"]


def test_unfinished_files_of_a_killed_process_are_removed_at_the_next_start(tmp_path: Path) -> None:
    root = tmp_path / "files"
    Jail(root, LARGE).write("a/b", b"x")
    (root / "a" / ".fairlead-0123").write_bytes(b"half")
    Jail(root, LARGE)
    assert names(root / "a") == ["b"]


def test_readers_see_the_whole_old_or_the_whole_new_text(tmp_path: Path) -> None:
    jail = Jail(tmp_path / "files", LARGE)
    texts = (b"a" * 900, b"b" * 300)
    jail.write("x", texts[0])
    seen: set[Any] = set()
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            seen.add(jail.read("x"))

    looking = threading.Thread(target=look)
    looking.start()
    for turn in range(100):
        jail.write("x", texts[turn % 2])
    done.set()
    looking.join()
    assert seen <= set(texts)
