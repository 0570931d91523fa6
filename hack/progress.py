"""Runs a command that takes a while, with what it does and how long it has taken; its output is shown where it fails.

    python hack/progress.py TEXT COMMAND…

In a terminal: one line with a spinner, the time and the command's last line. Elsewhere, such as in CI, plain lines:
TEXT at the beginning, the command's own output, and the time it took. All on standard error. The exit code is the
command's.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

KEPT: Final = 200
"""Lines of output that are shown where the command fails."""
WIDEST: Final = 60
"""Characters of the last line."""


def run(text: str, command: Sequence[str], console: Console) -> int:
    """Exit code of the command."""
    if not console.is_terminal:
        console.print(f"{text} …", markup=False, highlight=False)
        began = time.monotonic()
        code = subprocess.run(command, stdout=sys.stderr, check=False).returncode
        console.print(f"{text}: {time.monotonic() - began:.0f} s", markup=False, highlight=False)
        return code
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn(), _LAST_LINE)
    lines: deque[str] = deque(maxlen=KEPT)
    with (
        Progress(*columns, console=console, transient=True) as progress,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        ) as process,
    ):
        task = progress.add_task(text, total=None, line="")
        for line in process.stdout or ():
            lines.append(line.rstrip("\n"))
            progress.update(task, line=lines[-1][:WIDEST])
        code = process.wait()
    if code:
        console.print(f"{text} failed:", *lines, sep="\n", markup=False, highlight=False)
    return code


_LAST_LINE: Final = TextColumn("{task.fields[line]}", style="dim", markup=False)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], sys.argv[2:], Console(stderr=True)))
