"""Failure of a command: one sentence on standard error, and an exit code. No traceback.

Raised by the commands, printed by `__main__`.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from fairlead_api.extras import install_command

FAILED: Final = 1
USED_WRONGLY: Final = 2
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141
"""Exit codes of a process that SIGINT, or SIGPIPE, ended, as shells show them."""
_ERRNO: Final = re.compile(r"\[Errno -?\d+\] ")
"""Number of an OSError, which says nothing to people beside its words."""


class Failure(Exception):
    """Expected trouble; the message says what is wrong and what to do about it."""

    def __init__(self, message: str, *, code: int = FAILED, problem: str = "") -> None:
        super().__init__(_ERRNO.sub("", message))
        self.code = code
        self.problem = problem
        """Code of the gateway's problem document (RFC 9457), where it refused with one."""


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Around the imports of a command that needs more than the base install: a missing one names the extra to add."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("fairlead"):
            raise
        raise missing(error, extra) from error


def missing(error: ModuleNotFoundError, extra: str) -> Failure:
    """The failure of a command that needs a package of an extra."""
    package = error.name or str(error).split()[-1]
    return Failure(f"this command needs the Python package {package}, which is missing: {install_command(extra)}")


def readable_in_part() -> None:
    """Have `| head` end the process as it ends others: for help, which rich prints, with an exit code of its own."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
