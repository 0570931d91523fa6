"""Commands that take a while, in a terminal and elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[3] / "hack" / "progress.py"
WORKS = [sys.executable, "-c", "print('a line')"]
FAILS = [sys.executable, "-c", "import sys; print('why'); sys.exit(3)"]


def test_elsewhere_there_are_plain_lines_and_nothing_on_standard_output() -> None:
    done = subprocess.run([sys.executable, SCRIPT, "compiling x", *WORKS], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    assert done.stderr == "compiling x …\na line\ncompiling x: 0 s\n"


def in_terminal(*command: str) -> tuple[int, str]:
    """Exit code, and all that the terminal got."""
    controller, inside = os.openpty()
    with subprocess.Popen([sys.executable, SCRIPT, "compiling x", *command], stderr=inside) as process:
        os.close(inside)
        shown = b""
        try:
            while part := os.read(controller, 65536):
                shown += part
        except OSError:  # its end
            os.close(controller)
    return process.returncode, shown.decode()


def test_a_terminal_shows_what_is_done_and_what_failed_said() -> None:
    code, shown = in_terminal(*WORKS)
    assert code == 0
    assert "compiling x" in shown
    assert "0:00:0" in shown
    code, shown = in_terminal(*FAILS)
    assert code == 3
    assert shown.rstrip().endswith("compiling x failed:\r\nwhy")
