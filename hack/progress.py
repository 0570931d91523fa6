"""Shows the progress of long work. All output goes to standard error.

    python hack/progress.py TEXT COMMAND…

runs a command, and shows TEXT and the time that it has taken. On a terminal, this is one line with a spinner, the time
and the command's last line; the output is shown only after a failure. Elsewhere, for example in CI, plain lines are
printed: TEXT, then the command's own output, then the time. The exit code is the command's.

`counted` shows a bar for a loop, only on a terminal.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

T = TypeVar("T")

KEPT: Final = 200
"""Maximum number of lines of output that are shown after a failure."""
WIDEST: Final = 60
"""Maximum number of characters of the last line."""


def run(text: str, command: Sequence[str], console: Console) -> int:
    """Run the command and return its exit code."""
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


def counted(text: str, items: Sequence[T], console: Console) -> Iterator[T]:
    """Yield the items with a progress bar, which is drawn between two items: no thread disturbs a measurement. Only on
    a terminal.
    """
    if not console.is_terminal:
        yield from items
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    # output of the loop goes to its usual destination
    with Progress(
        *columns, console=console, transient=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
    ) as progress:
        task = progress.add_task(text, total=len(items))
        progress.refresh()
        for item in items:
            yield item
            progress.advance(task)
            progress.refresh()


_LAST_LINE: Final = TextColumn("{task.fields[line]}", style="dim", markup=False)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], sys.argv[2:], Console(stderr=True)))
