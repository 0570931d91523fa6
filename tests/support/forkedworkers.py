"""Workers of xdist as forks of one process that has imported the test modules.

The imports are most of what a worker does before its first test. `fork_workers` starts that process, the template, with
pytest's own arguments: it walks the same files, imports them with rewritten assertions, and forks a worker for each
program that xdist starts in place of an interpreter. A template that fails leaves such a program to be an interpreter,
which imports everything by itself. So does each worker by night and while coverage is measured.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import types
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

if TYPE_CHECKING:
    import pytest

NEVER: Final = ("COVERAGE", "FAIRLEAD_COVERAGE", "FAIRLEAD_TEST_NIGHTLY")
"""Beginnings of the names of variables with which each worker is an interpreter of its own."""
_PDEATHSIG: Final = 1
"""PR_SET_PDEATHSIG of prctl(2)."""


def fork_workers(config: pytest.Config, specs: Iterable[Any]) -> None:
    """Have the workers that execnet's `specs` describe forked. Does nothing on macOS, and for a single worker."""
    workers = [spec for spec in specs if spec.popen and not spec.python]
    if sys.platform != "linux" or len(workers) < 2 or any(name.startswith(NEVER) for name in os.environ):
        return
    folder = tempfile.TemporaryDirectory(prefix="workers-")
    address = str(Path(folder.name, "requests"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as requests:
        requests.bind(address)
        command = [sys.executable, __file__, "template", str(requests.fileno()), *config.invocation_params.args]
        template = subprocess.Popen(
            command,
            cwd=config.invocation_params.dir,
            pass_fds=[requests.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
    for spec in workers:
        spec.python = shlex.join([sys.executable, "-I", "-S", __file__, "worker", address])

    def end() -> None:
        template.terminate()
        template.wait()
        folder.cleanup()

    config.add_cleanup(end)


def template(requests: socket.socket, arguments: list[str]) -> None:
    """Import the test modules that pytest would collect, then fork. Returns in each worker."""
    import pytest

    import forkserver

    ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGTERM)  # of the process that runs the workers

    class Imported(pytest.Module):
        """A test module that is only imported."""

        def collect(self) -> list[pytest.Item | pytest.Collector]:
            try:
                assert self.obj is not None
            except BaseException:
                # A worker reports it, so it has to import the module again rather than take the half of it.
                for name, module in list(sys.modules.items()):
                    if getattr(module, "__file__", None) == str(self.path):
                        del sys.modules[name]
                raise
            return []

    class Importing:
        @pytest.hookimpl(tryfirst=True)
        def pytest_pycollect_makemodule(self, module_path: Path, parent: pytest.Collector) -> pytest.Module:
            return Imported.from_parent(parent, path=module_path)

    files = [argument.partition("::")[0] for argument in arguments]  # there are no tests to choose from
    # Modules that keep `sys.stderr` as they are imported, as MCP's SDK does, may not keep a file of the capture's.
    pytest.main([*files, "-n", "0", "--collect-only", "--capture=no"], plugins=[Importing()])
    gc.collect()
    gc.freeze()
    forkserver.serve(requests)
    requests.detach()  # its number may be that of another file now
    ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL)  # a worker that hangs ends with the template


def be_interpreter() -> NoReturn:
    """Be the interpreter that execnet meant to start, which runs the one line that it is sent."""
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    sys.argv = ["-c"]
    exec(eval(sys.stdin.readline()), main.__dict__)  # noqa: S102, S307  # the line is execnet's
    atexit._run_exitfuncs()
    os._exit(0)  # the end of an interpreter would take thousands of modules and tests apart


def hand_over(address: str, arguments: list[str]) -> int:
    """Hand this process's standard streams to a forked worker and wait for its end. Returns the worker's exit code.
    Without a template, this process becomes the interpreter that execnet meant to start.
    """
    ours, theirs = os.pipe()
    request = json.dumps({"words": [], "cwd": str(Path.cwd()), "env": {**os.environ}}).encode()
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as asking:
        asking.connect(address)
        socket.send_fds(asking, [request], [0, 1, 2, theirs])
    os.close(theirs)
    with os.fdopen(ours, encoding="ascii") as report:
        lines = iter(report.readline, "")
        if next(lines, None) is None:
            os.execv(sys.executable, [sys.executable, *arguments])
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal: the worker ends first
        for stream in (0, 1):
            os.close(stream)  # so that execnet notices when the worker has closed its own
        return int(json.loads(next(lines, '{"code": 1}'))["code"])


def main() -> None:
    role, where, *arguments = sys.argv[1:]
    if role == "worker":
        sys.exit(hand_over(where, arguments))
    template(socket.socket(fileno=int(where)), arguments)
    be_interpreter()


if __name__ == "__main__":
    main()
