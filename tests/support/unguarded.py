"""Runs a test without one guard.

As a plugin of pytest (`-p unguarded`), this module removes the guard that FAIRLEAD_UNGUARDED names from its module. As
a program (`python -m unguarded`, run by `hack/attacks`), it runs the tests of all guards, each without its guard.
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from changed_modules import Change, ChangedModuleFinder
from guards import GUARDS
from product_guard import Guard

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT: Final = Path(__file__).resolve().parents[2]
CHART: Final = "charts/fairlead"
VARIABLE: Final = "FAIRLEAD_UNGUARDED"
FAILED: Final = 1
"""Exit code of pytest if tests failed and nothing else went wrong."""
SECONDS: Final = 300


def _without(guard: Guard) -> Change:
    def change(text: str) -> str:
        for there, instead in guard.swaps:
            if text.count(there) != 1:
                raise ImportError(f"{guard.module} has {there!r} {text.count(there)} times")
            text = text.replace(there, instead)
        return text

    return change


def _chart_without(guard: Guard) -> Path:
    """A copy of the chart in which one file lacks its guard. The copy is deleted when the process ends."""
    folder = Path(tempfile.mkdtemp(prefix="chart-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    shutil.copytree(ROOT / CHART, folder / "fairlead")
    file = folder / "fairlead" / Path(guard.module).relative_to(CHART)
    file.write_text(_without(guard)(file.read_text("utf-8")), "utf-8")
    return folder / "fairlead"


def succeeds(guard: Guard) -> str:
    """Run the test of a guard without the guard. Returns an empty text if the attack succeeds, else what happened."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "unguarded", "-p", "no:cacheprovider", guard.test]
    done = subprocess.run(
        command,
        env={**os.environ, VARIABLE: guard.attack},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if done.returncode != FAILED:
        return f"pytest ended with {done.returncode}\n{(done.stdout + done.stderr)[-1500:]}"
    if guard.shows not in done.stdout:
        return f"the test failed without a word of {guard.shows!r}\n{done.stdout[-3000:]}"
    return ""


def main(names: Sequence[str]) -> int:
    """Test the guards whose attack contains one of the `names`, or all guards. Returns 0 if every attack succeeds."""
    stopped = 0
    for guard in GUARDS:
        if names and not any(name in guard.attack for name in names):
            continue
        otherwise = succeeds(guard)
        stopped += bool(otherwise)
        sentence = f"STOPPED  {guard.attack}\n{otherwise}\n" if otherwise else f"succeeds {guard.attack}\n"
        sys.stdout.write(sentence)
        sys.stdout.flush()
    return min(stopped, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
elif wanted := os.environ.get(VARIABLE):
    removed = next(guard for guard in GUARDS if guard.attack == wanted)
    if removed.module.startswith(f"{CHART}/"):
        os.environ["FAIRLEAD_TEST_CHART"] = str(_chart_without(removed))
    sys.meta_path.insert(0, ChangedModuleFinder(removed.module, _without(removed)))
