"""The operator as `fairlead operator` runs it, with a record of how long its loop stops.

Started by `stops` with `FAIRLEAD_*` in the environment and a file as its argument. Each SIGUSR1 begins a new record,
and SIGTERM ends the operator and writes the last record to the file as JSON: milliseconds of the loop's thread, of the
clock and of the whole process between two turns of a timer, each at most.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from pathlib import Path

from fairlead_api.logs import set_up
from fairlead_kube.connection import load_configuration
from fairlead_operator.app import build
from fairlead_operator.interpreter import keep_loop_responsive
from fairlead_operator.probes import serve
from fairlead_operator.settings import Settings

TURN_SECONDS = 0.002


class LoopStops:
    """Longest times between two turns of a timer on the running loop."""

    def __init__(self) -> None:
        self._clocks = {"thread": time.thread_time_ns, "wall": time.monotonic_ns, "process": time.process_time_ns}
        self.begin()
        self._turn()

    def begin(self) -> None:
        """Begin a new record."""
        self.longest_ns = dict.fromkeys(self._clocks, 0)
        self._before = {name: clock() for name, clock in self._clocks.items()}

    def _turn(self) -> None:
        now = {name: clock() for name, clock in self._clocks.items()}
        for name, value in now.items():
            self.longest_ns[name] = max(self.longest_ns[name], value - self._before[name])
        self._before = now
        asyncio.get_running_loop().call_later(TURN_SECONDS, self._turn)


async def main() -> LoopStops:
    """Run until SIGTERM."""
    settings = Settings.from_env()
    set_up(settings.log.format, settings.log.level)
    operator = build(settings, await load_configuration(settings.release.kubeconfig))
    async with serve(operator, "127.0.0.1", settings.metrics.port):
        keep_loop_responsive()
        stops = LoopStops()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, stops.begin)
        task = asyncio.create_task(operator.run(), name="operator")
        loop.add_signal_handler(signal.SIGTERM, task.cancel)
        await asyncio.wait([task])
    return stops


if __name__ == "__main__":
    longest = asyncio.run(main()).longest_ns
    Path(sys.argv[1]).write_text(json.dumps({name: ns / 1e6 for name, ns in longest.items()}))
