"""The console: the effect of three open consoles on calls, and the time to load pages with 1,300 and 10,000 tools.

`--only beside`: calls in consecutive windows, every other one with three open consoles. `--only views`: each page of
the navigation, a server's and a tool's page, requested as by a browser, and painted by Chromium if it is installed.
"""

from __future__ import annotations

import os
from typing import Final

from console.beside import BESIDE_COLUMNS, beside
from console.views import VIEW_COLUMNS, views
from rig.harness import Cell, Report, Settings
from rig.processes import become_realtime

PARTS: Final = ("beside", "views")
SIZES: Final = (1_300, 10_000)
EMPTY: Final[dict[str, Cell]] = dict.fromkeys(("what", "tools", *BESIDE_COLUMNS, *VIEW_COLUMNS))


def run(settings: Settings) -> Report:
    """Measure. Raises Unmeasurable if a process does not start or an answer is wrong."""
    if settings.realtime:
        become_realtime()
    report = Report("console")
    rows: list[dict[str, Cell]] = []
    if settings.wants("beside"):
        rows += beside(settings, report, SIZES[0])
    if settings.wants("views"):
        for tools in SIZES:
            rows += views(settings, report, tools)
    report.rows = [{**EMPTY, **row} for row in rows]
    report.notes.append(f"load average {os.getloadavg()[0]:.1f} at the end")
    return report
