"""Files of one owner in a folder that several processes change. They are replaced as a whole, durably, under a lock."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

MAX_FILE_BYTES: Final = 16_384
LOCK_SECONDS: Final = 5.0
"""Time limit for locking a folder. Other processes hold the lock for milliseconds, unless they are suspended."""
TEMPORARY: Final = ".new"
_LOCK: Final = ".lock"
_LOCK_PAUSE: Final = 0.005
_FLAGS: Final = os.O_CLOEXEC | os.O_NOFOLLOW


def make_private(folder: Path) -> None:
    """Create a folder with access for its owner only, or restrict an existing one. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.chmod(0o700)


def read_private(path: Path, max_bytes: int) -> bytes:
    """The first `max_bytes` + 1 bytes of a file. Raises OSError, also for a symbolic link."""
    with os.fdopen(os.open(path, os.O_RDONLY | _FLAGS), "rb") as file:
        return file.read(max_bytes + 1)


def replace_private(path: Path, data: bytes) -> None:
    """Replace a file, readable only by its owner. After a crash, the file has either its old or its new content. The
    folder has to be locked. Raises OSError; the old content then stays.
    """
    temporary = path.with_name(path.name + TEMPORARY)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _FLAGS
        with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    _sync(path.parent)


def replace_whole(path: Path, data: bytes) -> None:
    """Replace a file, readable only by its owner, in a folder that need not be locked: each writer prepares a file of
    its own, and the last writer wins. Raises OSError; the old content then stays.
    """
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:  # its mode is 0600
        temporary = Path(file.name)
        try:
            file.write(data)
            file.flush()
            temporary.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise


def delete_private(path: Path) -> bool:
    """Delete a file; False if there is none. Its folder has to be locked. Raises OSError."""
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    _sync(path.parent)
    return True


@contextlib.contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Exclude other threads and processes that lock the folder. Raises OSError; TimeoutError after LOCK_SECONDS."""
    with os.fdopen(os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | _FLAGS, 0o600), "rb") as file:
        end = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the kernel releases it when the process ends
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise TimeoutError(None, "another process keeps it locked", str(folder)) from None
                time.sleep(_LOCK_PAUSE)
        yield


def _sync(folder: Path) -> None:
    """Make a rename or deletion durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
