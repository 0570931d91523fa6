"""Sealing keys of one folder of grants: in the machine's keyring, or in a file that only its owner can read.

The keyring is used if the package `keyring` is installed and a backend of the operating system answers within
KEYRING_SECONDS. If the keyring has a key, this key seals new grants. The key in the file opens grants that were sealed
while the keyring did not answer.
"""

from __future__ import annotations

import importlib.util
import logging
import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol, TypeVar

from fairlead_gateway.grants.private_files import MAX_FILE_BYTES, read_private, replace_private
from fairlead_gateway.grants.sealing_keys import BadSealingKeys, SealingKey, new_sealing_key, read_sealing_keys
from fairlead_mcp.oauth.stored_grant import GrantStoreError

log = logging.getLogger(__name__)

KEYRING_SECONDS: Final = 2.0
"""Time limit of all requests to the keyring. A locked keyring waits for its owner."""
SERVICE: Final = "fairlead grants"
"""Service name in the keyring; the user name is the path of the folder."""
KEY_FILE: Final = "key"
_KEYRING: Final = "keyring"
_FILE: Final = "file"
_SYSTEM_BACKENDS: Final = frozenset({"SecretService", "libsecret", "kwallet", "macOS", "Windows"})
"""Modules of `keyring.backends` that belong to an operating system. Other backends may store plain text, or ask for a
password on the terminal.
"""
Result = TypeVar("Result")


class Keyring(Protocol):
    """Backend of the package `keyring`."""

    def get_password(self, service: str, username: str) -> str | None: ...

    def set_password(self, service: str, username: str, password: str) -> None: ...


def system_keyring() -> Keyring | None:
    """Return the keyring of the operating system; None if `keyring` is not installed or has no such backend."""
    if importlib.util.find_spec("keyring") is None:
        return None
    import keyring  # optional, and its import takes half a second

    configured = keyring.get_keyring()
    for backend in (configured, *getattr(configured, "backends", ())):  # a chaining backend has several
        package, _, module = type(backend).__module__.rpartition(".")
        if package == "keyring.backends" and module in _SYSTEM_BACKENDS:
            return backend  # type: ignore[no-any-return]  # members of a chain are untyped
    return None


class MachineKeys:
    """Keys of the grants in `folder`. `find_keyring` may take long, so it is called in a thread of its own."""

    def __init__(
        self,
        folder: Path,
        find_keyring: Callable[[], Keyring | None] = system_keyring,
        seconds: float = KEYRING_SECONDS,
    ) -> None:
        self._folder = folder
        self._file = folder / KEY_FILE
        self._find_keyring = find_keyring
        self._seconds = seconds

    def load(self) -> tuple[SealingKey, ...]:
        """Return the keys, and create one if there is none. The first key seals new grants. The folder has to be
        locked. Raises OSError, and GrantStoreError if the file is damaged.
        """
        file_keys = self._read_file()
        keyring_key = _call_with_timeout(self._seconds, lambda: self._load_from_keyring(make=not file_keys))
        keyring_keys = () if keyring_key is None else (keyring_key,)
        keys = (*keyring_keys, *file_keys)
        if not keys:
            keys = (new_sealing_key(_FILE),)
            replace_private(self._file, keys[0].text.encode() + b"\n")
            log.info("Grants in %s are sealed with the key file %s: do not share it", self._folder, self._file)
        return keys

    def _read_file(self) -> tuple[SealingKey, ...]:
        try:
            text = read_private(self._file, MAX_FILE_BYTES).decode("ascii", "replace")
        except FileNotFoundError:
            return ()
        try:
            return read_sealing_keys(text)
        except BadSealingKeys as error:
            raise GrantStoreError(
                f"the key file of grants {self._file} is damaged ({error}): restore it from a copy, or delete it and "
                "sign in again at each server"
            ) from error

    def _load_from_keyring(self, *, make: bool) -> SealingKey | None:
        """The key in the keyring; None without a keyring. With `make`, a missing key is created."""
        keyring = self._find_keyring()
        if keyring is None:
            return None
        folder = str(self._folder)
        text = keyring.get_password(SERVICE, folder)
        if text is None and make:
            keyring.set_password(SERVICE, folder, new_sealing_key(_KEYRING).text)
            text = keyring.get_password(SERVICE, folder)  # a keyring that did not store the key must not be used
        return None if text is None else read_sealing_keys(text)[0]


def _call_with_timeout(seconds: float, ask: Callable[[], Result | None]) -> Result | None:
    """Call `ask` in a thread and return its answer; None if it raises or takes longer than `seconds`."""
    answers: queue.SimpleQueue[Result | None] = queue.SimpleQueue()

    def run() -> None:
        try:
            answers.put(ask())
        except Exception as error:  # noqa: BLE001  # backends raise what their libraries do
            log.info("The keyring of this machine is not used: %s", type(error).__name__)
            answers.put(None)

    # a daemon thread, so that the process can end while the keyring waits for its owner
    threading.Thread(target=run, name="keyring", daemon=True).start()
    try:
        return answers.get(timeout=seconds)
    except queue.Empty:
        log.warning("The keyring of this machine did not answer within %g s, and is not used", seconds)
        return None
