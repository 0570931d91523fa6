"""Reads and writes files below one folder. No path, symbolic link or race leads out of the folder.

Each part of a path is opened relative to the descriptor of its parent folder, with O_NOFOLLOW. So if another process
replaces a folder by a link while the path is opened, the path is refused. A file is written under a temporary name and
renamed: readers see the whole old or the whole new text, and if the disk is full, the old text stays.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MAX_DEPTH: Final = 16
"""Maximum number of folders in a path."""
LONGEST_NAME: Final = 200
"""Maximum number of bytes of one part of a path."""
_TEMPORARY_PREFIX: Final = ".fairlead-"
"""Prefix of the names of temporary files, which no path may use."""
_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class FileRefused(Exception):
    """A path or a text that cannot be read or written; the message is a sentence without its full stop."""


class FileMissing(FileRefused):
    """A path of a file that does not exist."""


@dataclass(frozen=True)
class FolderQuota:
    """Limits on the folder's content."""

    file_bytes: int
    total_bytes: int
    files: int


class Jail:
    """The files below `root`. It may be used from several threads; writes are serialized."""

    def __init__(self, root: Path, quota: FolderQuota) -> None:
        """Raises OSError if the folder cannot be created or opened."""
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._root = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._quota = quota
        self._write_lock = threading.Lock()
        _sweep(self._root, 0)

    def close(self) -> None:
        """Close the descriptor of the folder."""
        os.close(self._root)

    def read(self, path: str) -> bytes:
        """Read a file. Raises Refused."""
        *folders, name = parts(path)
        with self._open(folders, path, create=False) as folder:
            try:
                # O_NONBLOCK: a FIFO would keep the thread until another process writes to it
                handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
            except OSError as error:
                raise _refusal(path, error) from error
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
                os.close(handle)
                raise FileRefused(f"{path} is {_kind(status)}")
            with os.fdopen(handle, "rb") as file:
                text = file.read(self._quota.file_bytes + 1)
        if len(text) > self._quota.file_bytes:
            raise FileRefused(f"{path} has more bytes than this server allows for a file ({self._quota.file_bytes:,})")
        return text

    def write(self, path: str, content: bytes) -> bool:
        """Write a file and create the folders of its path. Returns whether the file is new. Raises Refused."""
        *folders, name = parts(path)
        if len(content) > self._quota.file_bytes:
            raise FileRefused(
                f"content has {len(content):,} bytes; this server allows {self._quota.file_bytes:,} bytes for a file"
            )
        with self._write_lock:
            old_size = self._existing_size(folders, name, path)
            self._check_quota(len(content) - (old_size or 0), is_new=old_size is None)
            # folders are created last, so that refused writes leave no folders
            with self._open(folders, path, create=True) as folder:
                temporary = f"{_TEMPORARY_PREFIX}{secrets.token_hex(8)}"
                try:
                    _write(folder, temporary, content)
                    os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
                    os.fsync(folder)
                except OSError as error:
                    _remove(folder, temporary)
                    raise _refusal(path, error, writing=True) from error
        return old_size is None

    @contextmanager
    def _open(self, folders: list[str], path: str, *, create: bool) -> Iterator[int]:
        """Open the folder of a path part by part, as a descriptor. Raises Refused."""
        folder = os.dup(self._root)
        try:
            for name in folders:
                try:
                    if create:
                        _make_folder(folder, name)
                    subfolder = os.open(name, _FOLDER_FLAGS, dir_fd=folder)
                except OSError as error:
                    raise _refusal(path, error, writing=create) from error
                os.close(folder)
                folder = subfolder
            yield folder
        finally:
            os.close(folder)

    def _existing_size(self, folders: list[str], name: str, path: str) -> int | None:
        """Size of the existing file in bytes; None if the file does not exist. Raises Refused if the path is not a
        regular file.
        """
        try:
            with self._open(folders, path, create=False) as folder:
                try:
                    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                except OSError as error:
                    raise _refusal(path, error) from error
        except FileMissing:
            return None
        if stat.S_ISLNK(status.st_mode):
            raise FileRefused(f"{path} leads through a symbolic link, which this server does not follow")
        if not stat.S_ISREG(status.st_mode):
            raise FileRefused(f"{path} is {_kind(status)}")
        return status.st_size

    def _check_quota(self, growth: int, *, is_new: bool) -> None:
        files, total = _usage(self._root, 0)
        if is_new and files >= self._quota.files:
            raise FileRefused(f"the limit of {files:,} files is reached; overwrite an existing file instead")
        if growth > 0 and total + growth > self._quota.total_bytes:
            raise FileRefused(
                f"the folder holds {total:,} of {self._quota.total_bytes:,} bytes, and this file adds {growth:,}; "
                "shorten other files first"
            )


def parts(path: str) -> list[str]:
    """Parts of a relative path. Raises Refused if the path leaves the folder or contains characters or names that are
    not allowed.
    """
    if "\0" in path or path.startswith("/") or "\\" in path:
        raise FileRefused(f"{path[:100]!r} is not a relative path such as notes/today.md")
    names = [part for part in path.split("/") if part not in ("", ".")]
    if not names:
        raise FileRefused(f"{path[:100]!r} is not the path of a file; give a path such as notes/today.md")
    if ".." in names:
        raise FileRefused(f"{path[:100]!r} leaves the folder: .. is not allowed")
    if len(names) > MAX_DEPTH:
        raise FileRefused(f"the path leads through more than {MAX_DEPTH} folders")
    for part in names:
        if len(part.encode(errors="surrogateescape")) > LONGEST_NAME:
            raise FileRefused(f"a name in the path has more than {LONGEST_NAME} bytes")
        if not part.isprintable():
            raise FileRefused(f"{part[:100]!r} holds characters that cannot be shown")
        if part.startswith(_TEMPORARY_PREFIX):
            raise FileRefused(f"names that begin with {_TEMPORARY_PREFIX} are reserved for temporary files")
    return names


def _kind(status: os.stat_result) -> str:
    """Kind of something that is not a plain file, for `PATH is …`."""
    if stat.S_ISDIR(status.st_mode):
        return "a folder"
    return "a hard link" if stat.S_ISREG(status.st_mode) else "not a regular file"


def _make_folder(folder: int, name: str) -> None:
    try:
        os.mkdir(name, 0o700, dir_fd=folder)
    except FileExistsError:
        return


def _write(folder: int, name: str, content: bytes) -> None:
    handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(handle)


def _remove(folder: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return


def _walk(folder: int, depth: int) -> Iterator[tuple[int, os.DirEntry[str]]]:
    """Files below a folder, each with the descriptor of its own folder; links are not followed."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                yield folder, entry
            elif entry.is_dir(follow_symlinks=False) and depth < MAX_DEPTH:
                try:
                    subfolder = os.open(entry.name, _FOLDER_FLAGS, dir_fd=folder)
                except OSError:  # replaced since it was listed
                    continue
                try:
                    yield from _walk(subfolder, depth + 1)
                finally:
                    os.close(subfolder)


def _usage(folder: int, depth: int) -> tuple[int, int]:
    """Number of files and their bytes."""
    files = total = 0
    for _, entry in _walk(folder, depth):
        with suppress(FileNotFoundError):  # removed since it was listed
            total += entry.stat(follow_symlinks=False).st_size
            files += 1
    return files, total


def _sweep(folder: int, depth: int) -> None:
    """Remove temporary files that a killed process left."""
    for parent, entry in _walk(folder, depth):
        if entry.name.startswith(_TEMPORARY_PREFIX):
            _remove(parent, entry.name)


def _refusal(path: str, error: OSError, *, writing: bool = False) -> FileRefused:
    match error.errno:
        case errno.ENOENT if writing:
            return FileRefused(
                f"{path} was not written, because its folder was removed at the same time. Write it again. If the "
                "whole folder of this server was removed, restart the server"
            )
        case errno.ENOENT:
            return FileMissing(f"the file {path} does not exist")
        case errno.ELOOP:
            return FileRefused(f"{path} leads through a symbolic link, which this server does not follow")
        case errno.ENOTDIR:
            return FileRefused(f"a part of the path {path} is a file or a link where a folder is needed")
        case errno.ENOSPC | errno.EDQUOT:
            return FileRefused(f"{path} was not written: the disk is full")
        case _:
            return FileRefused(f"{path} cannot be used: {os.strerror(error.errno or 0)}")
