"""Installs the packages of servers, once per name and version, and reports the state of each installation.

`require` never waits: each installation runs in a task of its own, and `on_change` is called when its state changes. An
installed version is started without a request to its registry.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import random
import shutil
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from fairlead_mcp import processes
from fairlead_mcp.printed import PrintedLines, printable
from fairlead_operator.local.installers import (
    TITLES,
    InstallFailed,
    Launch,
    PackageVersion,
    Step,
    Tools,
    explain,
    find_launch,
    is_usable,
    plan_steps,
    progress,
)

log = logging.getLogger(__name__)

MAX_CONCURRENT: Final = 2
"""Number of concurrent installations. Installed packages start without waiting for a running installation."""
STEP_SECONDS: Final = 600.0
"""Timeout of one command of an installation."""
NETWORK_FIRST_RETRY: Final = 5.0
"""Seconds until the first retry after a network failure; doubles with each failure."""
NETWORK_MAX_RETRY: Final = 300.0
"""Maximum seconds until a retry after a network failure."""
OTHER_FIRST_RETRY: Final = 60.0
"""Seconds until the first retry after any other failure; doubles with each failure."""
OTHER_MAX_RETRY: Final = 3600.0
"""Maximum seconds until a retry after any other failure: a script of the package may need much CPU each time."""
_MARKER: Final = ".fairlead-installed"
"""Name of the empty file that marks a package's folder as complete."""
_MAX_LINES: Final = 60
"""Number of lines of a step's output that may explain its failure."""


@dataclass(frozen=True)
class Installing:
    """State of a package that is being installed or waits for its installation."""

    progress: str
    """The current step, for the server's condition."""


@dataclass(frozen=True)
class Installed:
    """State of a package that can be started."""

    launch: Launch


@dataclass(frozen=True)
class Failed:
    """State of a package whose last installation failed; it is retried automatically."""

    message: str
    retry_seconds: float
    """Seconds from the failure to the next attempt."""
    network: bool = False
    """Whether the package's registry could not be reached."""


State = Installing | Installed | Failed
RunStep = Callable[[Step, Callable[[str], None]], Awaitable[int]]
"""Runs one step, calls the callback with each line that it prints, and returns its exit code."""


@dataclass
class _PackageState:
    """State of one package, and the task that installs it."""

    state: State
    task: asyncio.Task[None] | None = None
    lines: list[str] = field(default_factory=list)
    """Last lines of the running or failed step."""
    printed: PrintedLines = field(default_factory=lambda: PrintedLines(time.monotonic))
    """Lines of all installers of the package, over all attempts."""


class PackageStore:
    """Installs packages below one folder. Call `close` in the event loop that used the store."""

    def __init__(
        self,
        root: Path,
        tools: Tools,
        run: RunStep,
        *,
        on_change: Callable[[PackageVersion], None],
        max_concurrent: int = MAX_CONCURRENT,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._root = root
        self._tools = tools
        self._run_step = run
        self._on_change = on_change
        self._slots = asyncio.Semaphore(max_concurrent)
        self._jitter = jitter
        self._entries: dict[PackageVersion, _PackageState] = {}

    def require(self, package: PackageVersion) -> State:
        """State of `package`; the first call starts its installation."""
        entry = self._entries.get(package)
        if entry is None:
            entry = self._entries[package] = _PackageState(Installing("waiting for its turn"))
            try:
                if self._is_installed(package):
                    entry.state = Installed(find_launch(package, self._target(package), self._tools))
                    return entry.state
            except InstallFailed as error:
                entry.state = Failed(str(error), OTHER_FIRST_RETRY)
            loop = asyncio.get_running_loop()
            entry.task = loop.create_task(self._install(package, entry), name=f"install {package}")
        return entry.state

    def printed_lines(self, package: PackageVersion) -> PrintedLines | None:
        """Lines that the installers of `package` printed; None if none ran."""
        entry = self._entries.get(package)
        return entry.printed if entry is not None and entry.printed.run else None

    def retry(self, package: PackageVersion) -> None:
        """Retry a failed installation now, and reset the pauses between its attempts."""
        entry = self._entries.get(package)
        if entry is None or not isinstance(entry.state, Failed):
            return
        if entry.task is not None:
            entry.task.cancel()
        entry.state = Installing("waiting for its turn")
        entry.task = asyncio.get_running_loop().create_task(self._install(package, entry), name=f"install {package}")

    def retain(self, packages: Collection[PackageVersion]) -> None:
        """Forget all packages except these, and cancel their installations."""
        for package in [package for package in self._entries if package not in packages]:
            entry = self._entries.pop(package)
            if entry.task is not None:
                entry.task.cancel()

    async def close(self) -> None:
        """Cancel all installations and wait for their end."""
        tasks = [entry.task for entry in self._entries.values() if entry.task is not None]
        self._entries.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _target(self, package: PackageVersion) -> Path:
        return self._root / package.registry / package.folder

    def _is_installed(self, package: PackageVersion) -> bool:
        target = self._target(package)
        return (target / _MARKER).exists() and is_usable(package, target)

    async def _install(self, package: PackageVersion, entry: _PackageState) -> None:
        failures = 0
        while True:
            try:
                async with self._slots:
                    launch = await self._attempt(package, entry)
            except (InstallFailed, OSError) as error:
                network = isinstance(error, InstallFailed) and error.network
                first_pause = NETWORK_FIRST_RETRY if network else OTHER_FIRST_RETRY
                max_pause = NETWORK_MAX_RETRY if network else OTHER_MAX_RETRY
                pause = min(first_pause * 2 ** min(failures, 16), max_pause) * (0.75 + self._jitter() / 2)
                failures += 1
                self._set_state(package, entry, Failed(str(error), pause, network))
                await asyncio.sleep(pause)
            else:
                self._set_state(package, entry, Installed(launch))
                return

    def _set_state(self, package: PackageVersion, entry: _PackageState, state: State) -> None:
        entry.state = state
        if self._entries.get(package) is entry:
            self._on_change(package)

    async def _attempt(self, package: PackageVersion, entry: _PackageState) -> Launch:
        target = self._target(package)
        title = TITLES[package.registry]
        steps = plan_steps(package, target, self._tools, self._root)
        if not isinstance(entry.state, Failed):
            self._set_state(package, entry, Installing(f"{package} from {title}"))
        target.parent.mkdir(parents=True, exist_ok=True)
        with (target.parent / f"{target.name}.lock").open("w") as lock:
            await _lock(lock)
            if self._is_installed(package):
                return find_launch(package, target, self._tools)
            await asyncio.to_thread(shutil.rmtree, target, ignore_errors=True)
            target.mkdir()
            entry.printed.record_start()
            for step in steps:
                await self._install_step(package, entry, step)
            launch = find_launch(package, target, self._tools)
            (target / _MARKER).touch()
        return launch

    async def _install_step(self, package: PackageVersion, entry: _PackageState, step: Step) -> None:
        entry.lines = []
        line_count = 0

        def on_line(line: str) -> None:
            nonlocal line_count
            entry.lines = [*entry.lines[1 - _MAX_LINES :], line]
            entry.printed.add("stderr", printable(line.encode()))
            message = progress(package.registry, line, line_count)
            line_count += 1
            if message is not None and isinstance(entry.state, Installing):
                self._set_state(package, entry, Installing(f"{package}: {message}"))

        try:
            async with asyncio.timeout(STEP_SECONDS):
                code = await self._run_step(step, on_line)
        except TimeoutError as error:
            raise InstallFailed(f"{package} was not installed within {STEP_SECONDS:.0f} s") from error
        if code != 0:
            entry.printed.add("run", f"{Path(step.argv[0]).name} exited with code {code}")
            log.debug("installing %s failed with %d:\n%s", package, code, "\n".join(entry.lines))
            raise explain(package, entry.lines)


async def _lock(lock: IO[str]) -> None:
    """Wait until no other process installs the same package. Closing the file releases the lock."""
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            await asyncio.sleep(0.2)
        else:
            return


class StepRunner:
    """Runs installers with standard input closed. They end with this process, even if it is killed."""

    def __init__(self) -> None:
        self._guard = processes.GroupGuard()

    async def __call__(self, step: Step, on_line: Callable[[str], None]) -> int:
        """Implements `RunStep`. Cancelling it kills the whole process group of the step."""
        await self._guard.start()
        process = await asyncio.create_subprocess_exec(
            *step.argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=step.environment(os.environ),
            start_new_session=True,
            preexec_fn=processes.make_parent_death_hook(),
        )
        self._guard.add(process.pid)
        try:
            async for line in _output(process):
                on_line(line)
            return await process.wait()
        finally:
            processes.signal_group(process.pid, signal.SIGKILL)
            await process.wait()
            self._guard.discard(process.pid)

    async def aclose(self) -> None:
        """End the guard process that kills orphaned installers."""
        await self._guard.aclose()


async def _output(process: asyncio.subprocess.Process) -> AsyncIterator[str]:
    """Lines of the process's output; a line that exceeds the stream's buffer is dropped."""
    assert process.stdout is not None
    while True:
        try:
            line = await process.stdout.readline()
        except ValueError:
            continue
        if not line:
            return
        yield line.decode(errors="replace").rstrip()
