"""Calls through a `ToolRegistry`, from so many threads: a program that speaks as mcpload does.

    python registry_calls.py '{"url": "http://127.0.0.1:8080/mcp", "tool": "tools__echo", "threads": 64, "seconds": 2.5,
                               "warmup": 0.7}'

Without a `url` the tool is a function of this program. Prints START when the warm-up is over, then a JSON object; times
in microseconds. Every outcome is checked: its text is the argument, with the number of the call in it.
"""

from __future__ import annotations

import itertools
import json
import sys
import threading
import time
from typing import Any, Final

from doors.figures import figures
from fairlead_client import Server, ToolRegistry, tool

TEXT: Final = "a" * 20


@tool
def echo(text: str) -> str:
    """Echo the text back."""
    return text


class Calls:
    """Calls of all threads, and their times in microseconds."""

    def __init__(self, registry: ToolRegistry, tool_name: str) -> None:
        self._registry = registry
        self._tool = tool_name
        self._numbers = itertools.count(1)
        self.over = threading.Event()
        self.times: list[float] = []
        self.wrong = ""

    def run(self) -> None:
        """One call after the other, until all are over."""
        while not self.over.is_set():
            text = f"{next(self._numbers):08}{TEXT}"
            began = time.perf_counter()
            outcome = self._registry.execute(self._tool, {"text": text})
            self.times.append((time.perf_counter() - began) * 1e6)
            if not outcome.ok or text not in outcome.text:
                self.wrong = self.wrong or repr(outcome)[:600]
                return


def main(parameters: dict[str, Any]) -> None:
    """Print the figures of the calls between START and the end."""
    url = parameters["url"]
    servers = [Server(name="tools", url=url, prefix="")] if url else []
    with ToolRegistry(servers, [] if url else [echo]) as registry:
        calls = Calls(registry, parameters["tool"])
        threads = [threading.Thread(target=calls.run) for _ in range(parameters["threads"])]
        for thread in threads:
            thread.start()
        time.sleep(parameters["warmup"])
        before, began = len(calls.times), time.perf_counter()
        print("START", flush=True)
        time.sleep(parameters["seconds"])
        times, seconds = calls.times[before:], time.perf_counter() - began

        print(json.dumps(figures(times, seconds, calls.wrong)), flush=True)
        calls.over.set()
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
