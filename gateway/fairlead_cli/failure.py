"""Failure of a command: one sentence on standard error and an exit code, without a traceback.

Commands raise `Failure`, and `__main__` prints the sentence and exits with the code.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from fairlead_api.extras import install_command

FAILED: Final = 1
USAGE_ERROR: Final = 2
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141
"""Exit code of a process that SIGPIPE ended, as shells report it; INTERRUPTED is the code for SIGINT."""
_ERRNO: Final = re.compile(r"\[Errno -?\d+\] ")
"""Error number in an OSError's text, which people do not need."""


class Failure(Exception):
    """Expected error; the message says what is wrong and what to do about it."""

    def __init__(self, message: str, *, code: int = FAILED, problem: str = "") -> None:
        super().__init__(_ERRNO.sub("", message))
        self.code = code
        self.problem = problem
        """Code of the gateway's problem document (RFC 9457), if the gateway sent one."""


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Context for imports that need more than the base install. Raises Failure with the extra to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("fairlead"):
            raise
        raise missing_package(error, extra) from error


def missing_package(error: ModuleNotFoundError, extra: str) -> Failure:
    """The failure of a command that needs a package of an extra."""
    package = error.name or str(error).split()[-1]
    return Failure(f"this command needs the Python package {package}, which is missing: {install_command(extra)}")


def die_on_broken_pipe() -> None:
    """Restore SIGPIPE, so that `| head` ends the process. Help needs it, because rich prints with its own exit code."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
