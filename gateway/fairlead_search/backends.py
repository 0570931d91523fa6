"""Selects where vectors of tools are stored: in the configured folder, or in memory while the folder cannot be used."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from fairlead_search.index_interfaces import BackendFault, MemoryBackend, SearchBackend

RETRY_SECONDS: Final = 300.0
"""Seconds after which an unusable folder is tried again."""

log = logging.getLogger(__name__)


class Backends:
    """Holder of the backend in use: the object that stores vectors and creates indices."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.current: SearchBackend = MemoryBackend()
        self.fault = ""
        """Why the requested folder is not in use; empty if it is in use."""
        self._folder = ""
        self._clock = clock
        self._failed_at = float("-inf")

    def choose(self, folder: str) -> bool:
        """Use the backend of a folder. Memory is used if `folder` is empty or cannot be opened. Returns whether the
        backend was replaced.
        """
        is_waiting = bool(self.fault) and self._clock() - self._failed_at < RETRY_SECONDS
        if folder == self._folder and (not self.fault or is_waiting):
            return False
        is_retry = folder == self._folder
        self._folder = folder
        try:
            backend = _open(folder, is_retry=is_retry)
        except BackendFault as error:
            self._on_failure(error)
            if is_retry:
                return False
            backend = MemoryBackend()
        else:
            self.fault = ""
        self.current.close()
        self.current = backend
        return True

    def fail(self, error: BackendFault) -> None:
        """Replace a failed backend by a backend in memory."""
        self._on_failure(error)
        self.current.close()
        self.current = MemoryBackend()

    def _on_failure(self, error: BackendFault) -> None:
        self._failed_at = self._clock()
        self.fault = f"vectors of tools are stored in memory only: {error}"
        log.error("%s; the folder is tried again in %.0f s", self.fault, RETRY_SECONDS)


def _open(folder: str, *, is_retry: bool) -> SearchBackend:
    """Open the backend of a folder, or a backend in memory if `folder` is empty. `is_retry`: do not wait for the lock
    of another process. Raises BackendFault.
    """
    if not folder:
        return MemoryBackend()
    try:
        from fairlead_search.lance_index import LanceBackend
        from fairlead_search.lance_vectors import LOCK_SECONDS
    except ImportError as error:
        raise BackendFault(f"the extra `lancedb` cannot be loaded: {error}") from error
    return LanceBackend(folder, 0.0 if is_retry else LOCK_SECONDS)
