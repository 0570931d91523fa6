"""Progress of long commands, in a terminal and elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HACK = Path(__file__).parents[3] / "hack"
SCRIPT = HACK / "progress.py"
WORKS = [sys.executable, "-c", "print('a line')"]
FAILS = [sys.executable, "-c", "import sys; print('why'); sys.exit(3)"]


def test_progress_off_a_terminal_is_plain_lines_on_standard_error() -> None:
    done = subprocess.run([sys.executable, SCRIPT, "compiling x", *WORKS], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    assert done.stderr == "compiling x …\na line\ncompiling x: 0 s\n"


def test_with_progress_runs_a_function_of_the_shell_and_passes_its_exit_code_on(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / ".venv" / "bin").mkdir(parents=True)
    (root / ".venv" / "bin" / "python").symlink_to(sys.executable)
    (root / "hack").symlink_to(HACK)
    script = f"""
    . {root}/hack/with_progress.sh
    say() {{ echo "$*" >&2; }}
    install() {{ say "from $1"; [ "$1" = here ]; }}
    with_progress "installing" install here || exit 8
    with_progress "installing" install elsewhere || exit 9
    """
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (9, "")
    assert [line for line in done.stderr.splitlines() if line.startswith("from")] == ["from here", "from elsewhere"]


def in_terminal(*words: str) -> tuple[int, str]:
    """Exit code of a Python process in a terminal, and all output that the terminal received."""
    controller, inside = os.openpty()
    with subprocess.Popen([sys.executable, *words], stderr=inside) as process:
        os.close(inside)
        shown = b""
        try:
            while part := os.read(controller, 65536):
                shown += part
        except OSError:  # its end
            os.close(controller)
    return process.returncode, shown.decode()


def test_a_terminal_shows_what_is_done_and_what_failed_said() -> None:
    code, shown = in_terminal(str(SCRIPT), "compiling x", *WORKS)
    assert code == 0
    assert "compiling x" in shown
    assert "0:00:0" in shown
    code, shown = in_terminal(str(SCRIPT), "compiling x", *FAILS)
    assert code == 3
    assert shown.rstrip().endswith("compiling x failed:\r\nwhy")


LOOP = """
import sys
from rich.console import Console
sys.path.insert(0, sys.argv[1])
from progress import counted
found = []
for one in counted("rounds", ["a", "b"], Console(stderr=True)):
    found.append(one)
    print("measured", file=sys.stderr)
assert found == ["a", "b"]
"""


def test_a_loop_has_a_bar_in_a_terminal_and_elsewhere_shows_nothing_of_its_own() -> None:
    code, shown = in_terminal("-c", LOOP, str(HACK))
    assert code == 0
    assert all(part in shown for part in ("rounds", "0/2", "1/2", "2/2"))
    assert shown.count("measured") == 2
    done = subprocess.run([sys.executable, "-c", LOOP, HACK], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "measured\nmeasured\n")


def test_a_loop_that_is_left_early_leaves_the_terminal_as_it_was() -> None:
    code, shown = in_terminal("-c", LOOP.replace("found.append(one)", "sys.exit(3)"), str(HACK))
    assert code == 3
    assert shown.rstrip().endswith("\x1b[2K") or "\x1b[?25h" in shown  # the cursor is shown again


def test_a_verb_may_be_in_another_folder_when_it_shows_progress(tmp_path: Path) -> None:
    script = 'cd "$0/.." && . hack/env.sh && cd "$1" && with_progress "making x" touch made'
    done = subprocess.run(["bash", "-c", script, HACK, tmp_path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "making x …\nmaking x: 0 s\n")
    assert (tmp_path / "made").exists()
