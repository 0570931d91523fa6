"""Child process of `limited_process`: limits itself, does one piece of work from standard input, writes the answer.

Its arguments are a module with `work(bytes) -> bytes`, bytes of memory and seconds. Nothing but this is imported before
the limits hold.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import resource
import signal
import sys
from typing import Final

OUT_OF_MEMORY: Final = 12
"""Exit code where the memory is not enough (ENOMEM)."""
_NICENESS: Final = 10
"""The server answers other calls meanwhile, on the same processors."""


def limit(memory: int, seconds: int) -> None:
    """Limit this process to bytes of address space, and to seconds of processor time and of the clock (POSIX).

    The clock is for a process whose server was killed, and can no longer end it.
    """
    os.nice(_NICENESS)
    signal.alarm(seconds)
    # SIGXCPU writes a core file, which would hold what the page held
    for name, most in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_CPU, seconds), (resource.RLIMIT_AS, memory)):
        with contextlib.suppress(ValueError, OSError):  # macOS refuses RLIMIT_AS, or takes it and does nothing
            resource.setrlimit(name, (most, most))


def main() -> None:
    """Do the work that the arguments name. Exits with `OUT_OF_MEMORY` where it needs more than it may have."""
    module, memory, seconds = sys.argv[1:]
    limit(int(memory), int(seconds))
    try:
        answer = importlib.import_module(module).work(sys.stdin.buffer.read())
        sys.stdout.buffer.write(answer)
        sys.stdout.flush()
    except MemoryError:
        os._exit(OUT_OF_MEMORY)  # whatever runs at an ordinary end may need memory, too


if __name__ == "__main__":
    main()
