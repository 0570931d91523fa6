"""Program of the child processes that `limited_process` starts: limits its own resources, processes standard input, and
writes the result to standard output.

Its arguments are a module with `work(bytes) -> bytes`, a memory limit in bytes and a time limit in seconds. The module
is imported after the limits are set, so that the limits also apply to the import.
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
"""Exit code after the memory limit was exceeded (ENOMEM)."""
_NICENESS: Final = 10
"""Low priority, because the server handles other calls on the same processors."""


def limit(memory: int, seconds: int) -> None:
    """Limit this process's address space in bytes, and its processor time and wall-clock time in seconds (POSIX).

    The wall-clock limit ends a process whose server was killed.
    """
    os.nice(_NICENESS)
    signal.alarm(seconds)
    # SIGXCPU would write a core file with the data of the input
    for name, value in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_CPU, seconds), (resource.RLIMIT_AS, memory)):
        with contextlib.suppress(ValueError, OSError):  # macOS rejects or ignores RLIMIT_AS
            resource.setrlimit(name, (value, value))


def main() -> None:
    """Run the work that the arguments name. Exits with `OUT_OF_MEMORY` if the memory limit is exceeded."""
    module, memory, seconds = sys.argv[1:]
    limit(int(memory), int(seconds))
    try:
        answer = importlib.import_module(module).work(sys.stdin.buffer.read())
        sys.stdout.buffer.write(answer)
        sys.stdout.flush()
    except MemoryError:
        os._exit(OUT_OF_MEMORY)  # an ordinary exit may need memory, too


if __name__ == "__main__":
    main()
