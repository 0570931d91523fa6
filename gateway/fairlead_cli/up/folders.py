"""Folders of a `fairlead up`: documents, credentials and installed packages.

Without `--state-dir`, documents and credentials are in a temporary folder that is deleted when the command ends; if it
was killed, the next start deletes the folder. Installed packages stay in the user's cache, if that is writable, and
grants of users in the user's state folder.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

from fairlead_cli.failure import Failure
from fairlead_operator.local.documents import private_directory
from fairlead_operator.local.localoperator import Folders

logger = logging.getLogger(__name__)

_PREFIX: Final = "fairlead-up-"
_LOCK: Final = ".lock"
_GRANTS: Final = "grants"
_URL: Final = "url"
_MAX_URL_BYTES: Final = 1024


def package_cache(environ: Mapping[str, str]) -> Path:
    """The folder of installed packages, according to the XDG base directory specification."""
    base = environ.get("XDG_CACHE_HOME") or ""
    root = Path(base) if base.startswith("/") else Path.home() / ".cache"
    return root / "fairlead" / "packages"


def grants_folder(state_dir: Path | None, environ: Mapping[str, str]) -> Path:
    """The folder of grants, which outlive a run also without `--state-dir`: then in the user's state folder, according
    to the XDG base directory specification. It is created with the first grant.
    """
    if state_dir is not None:
        return state_dir.expanduser().absolute() / _GRANTS
    base = environ.get("XDG_STATE_HOME") or ""
    root = Path(base) if base.startswith("/") else Path.home() / ".local" / "state"
    return root / "fairlead" / _GRANTS


def _packages(root: Path, environ: Mapping[str, str]) -> Path:
    """The folder of installed packages; a folder of this run if the user's cache is not writable."""
    cache = package_cache(environ)
    try:
        private_directory(cache)
        with tempfile.TemporaryFile(dir=cache):
            return cache
    except OSError as error:
        logger.warning("packages are installed for this run only: %s cannot be written (%s)", cache, error.strerror)
        return root / "packages"


@contextmanager
def folders(state_dir: Path | None, environ: Mapping[str, str]) -> Iterator[Folders]:
    """The folders of one run. Raises Failure if they cannot be created, or if another run uses them."""
    try:
        if state_dir is None:
            parent = _runtime_directory(environ)
            _delete_abandoned_folders(parent)
            root = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        else:
            root = private_directory(state_dir.expanduser().absolute())
    except OSError as error:
        raise Failure(
            f"{error.filename} cannot be used: {error.strerror}; choose another folder with --state-dir"
        ) from error
    with (root / _LOCK).open("w") as lock:
        if not _try_lock(lock):
            raise Failure(f"another `fairlead up` uses {root}; give each run its own --state-dir")
        try:
            credentials = private_directory(root / "credentials")
            yield Folders(root / "documents", credentials, _packages(root, environ), root / "approvals")
        finally:
            if state_dir is None:
                shutil.rmtree(root, ignore_errors=True)


def running_folders(environ: Mapping[str, str]) -> list[Path]:
    """The folders of this user's current runs without `--state-dir`."""
    folders = []
    for root in sorted(_runtime_directory(environ).glob(f"{_PREFIX}*")):
        try:
            if root.stat().st_uid != os.getuid():
                continue
            with (root / _LOCK).open("r+") as lock:
                if not _try_lock(lock):
                    folders.append(root)
        except OSError:
            continue
    return folders


def store_url(root: Path, url: str) -> None:
    """Store the MCP URL of a run in its folder, so that other commands can name the run. If the disk is full, they
    cannot name it.
    """
    with suppress(OSError):
        (root / _URL).write_text(url)


def running_urls(roots: Iterable[Path]) -> list[str]:
    """The MCP URLs of the runs with these folders; a run that is still starting has none."""
    urls = []
    for root in roots:
        with suppress(OSError, UnicodeDecodeError), (root / _URL).open() as file:
            urls.append(file.read(_MAX_URL_BYTES))
    return [url for url in urls if url]


def _runtime_directory(environ: Mapping[str, str]) -> Path:
    setting = environ.get("XDG_RUNTIME_DIR") or ""
    directory = Path(setting)
    is_usable = setting.startswith("/") and directory.is_dir() and os.access(directory, os.W_OK)
    return directory if is_usable else Path(tempfile.gettempdir())


def _delete_abandoned_folders(parent: Path) -> None:
    """Delete folders of runs that ended without deleting them."""
    for folder in parent.glob(f"{_PREFIX}*"):
        try:
            if folder.stat().st_uid != os.getuid():
                continue
            with (folder / _LOCK).open("r+") as lock:
                if _try_lock(lock):
                    shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue


def _try_lock(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
