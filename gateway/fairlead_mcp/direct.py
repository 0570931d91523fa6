"""Starts servers that are configured with `npx` or `uvx` without leaving these wrappers running as parents.

A wrapper that only waits for its server took as much memory as the server. At each start the wrapper runs first: it
resolves, fetches and installs the package, chooses the program and sets up the environment. Instead of the program, the
wrapper is made to start a script of Fairlead, which prints the arguments and environment that it got, and ends; then
the wrapper ends too. The program is then started with these arguments and this environment, so that the wrapper's
settings still apply. If the wrapper fails, its own messages are shown. Commands that `fairlead_mcp.wrappers` does not
recognize are started as they are written.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from fairlead_mcp import processes
from fairlead_mcp.errors import ConnectFailed, McpError
from fairlead_mcp.npm_logs import npm_failure, unreached_registry
from fairlead_mcp.package_caches import is_cached
from fairlead_mcp.stdio import FETCHED_BYTES, ChildSpec, Process, ProcessObserver, SubprocessLauncher
from fairlead_mcp.waiting import wait_until_set
from fairlead_mcp.wrappers import SHELL, Start, Wrapper, is_npm, is_uv, script, start, wrapper

logger = logging.getLogger(__name__)

RESOLVE_SECONDS: Final = 120.0
"""Limit for finding the program of a package. The time starts again whenever the wrapper has written `FETCHED_BYTES`
more to files.
"""
FETCH_SECONDS: Final = 1800.0
"""Limit for fetching a package, even if it makes progress."""
FETCHES: Final = max(3, os.cpu_count() or 1)
"""Most packages that are fetched at the same time; more would delay each other."""
ASK_SECONDS: Final = 10.0
"""Limit for running a program to read the first line that it prints, such as its version."""
END_SECONDS: Final = 1.0
"""Grace period of a wrapper after its script has ended, and again after SIGTERM."""


class DirectLauncher:
    """Launches the program behind a wrapper, and other commands with `inner`. `seconds` limits finding the program."""

    def __init__(self, inner: SubprocessLauncher, *, seconds: float = RESOLVE_SECONDS) -> None:
        self._inner = inner
        self._seconds = seconds
        self._genuine: dict[tuple[str, int], bool] = {}
        """Whether a program is npm's `npx`, or uv, by path and modification time."""
        self._scripts_run: bool | None = None
        """Whether scripts in the temporary folder can be executed; None until tried."""
        self._irreplaceable: set[Wrapper] = set()
        """Wrappers that do more than start the program that was found, and so have to keep running."""
        self._fetched_packages: set[tuple[str, str]] = set()
        """Packages whose program was found before, by kind and name."""
        self._locks: defaultdict[tuple[str, str], asyncio.Lock] = defaultdict(asyncio.Lock)
        self._fetches = asyncio.Semaphore(FETCHES)

    async def launch(self, spec: ChildSpec, events: ProcessObserver) -> Process:
        """Implements Launcher. Also raises ConnectFailed (StartTimeout) if the wrapper takes too long."""
        wrapped = wrapper(spec)
        environment = spec.environment(os.environ)
        if wrapped is None or wrapped in self._irreplaceable or not await self._can_replace(wrapped, environment):
            return await self._inner.launch(spec, events)
        start = await self._find_in_turn(wrapped, environment, spec, events)
        if isinstance(start, Start):
            return await self._inner.start(start.argv, start.env, start.cwd, events)
        return start or await self._inner.launch(spec, events)

    async def aclose(self) -> None:
        """Implements Launcher."""
        await self._inner.aclose()

    # Whether a wrapper can be replaced

    async def _can_replace(self, wrapped: Wrapper, environment: Mapping[str, str]) -> bool:
        """Whether the wrapper is the genuine npx or uv, and the script that replaces the program can run here."""
        path = shutil.which(wrapped.command, path=environment.get("PATH"))
        if path is None:
            return False
        key = (path, _modification_time(path))
        if key not in self._genuine:
            genuine = _belongs_to_npm(path) if wrapped.kind == "npx" else await self._is_uv(path, environment)
            if not genuine:
                logger.info(
                    "%s is a wrapper or a changed version of %s: it keeps running as the parent of each server",
                    path,
                    wrapped.kind,
                )
            self._genuine[key] = genuine
        return self._genuine[key] and await self._script_runs(wrapped)

    async def _is_uv(self, path: str, environment: Mapping[str, str]) -> bool:
        return is_uv(await self._first_line((path, "--version"), environment))

    async def _script_runs(self, wrapped: Wrapper) -> bool:
        """Whether scripts run from the temporary folder, which may be mounted noexec; tried once."""
        if self._scripts_run is None:
            with _script(wrapped._replace(kind="uvx"), {}) as (path, mark):
                self._scripts_run = (await self._first_line((path,), {})).startswith(mark)
            if not self._scripts_run:
                logger.info(
                    "programs cannot be executed in %s: npx and uvx stay running as parents of their servers",
                    tempfile.gettempdir(),
                )
        return self._scripts_run

    async def _first_line(self, argv: tuple[str, ...], environment: Mapping[str, str]) -> str:
        """Run a short program and return the first line that it prints; empty if it fails."""
        observer = _WrapperObserver(None, "")
        try:
            await self._run(argv, environment, None, observer, ASK_SECONDS)
        except McpError:
            return ""
        return observer.answer or ""

    # What the wrapper would run

    async def _find_in_turn(
        self, wrapped: Wrapper, environment: Mapping[str, str], spec: ChildSpec, events: ProcessObserver
    ) -> Start | Process | None:
        """Find the program, waiting for other starts where necessary. Returns what to start, the process of a failed
        wrapper, or None to start the wrapper as it is configured.

        Starts of the same package wait for each other, because two runs of npm in one folder of its cache break each
        other. Packages that were started before, or are in the cache of npm or uv, wait for no other package.
        """
        package = (wrapped.kind, wrapped.package)
        if package in self._fetched_packages:
            return await self._find_program(wrapped, environment, spec, events)
        # without a timeout, as each start that holds the lock before has one
        async with self._locks[package]:
            if package in self._fetched_packages:  # by the start that held the lock before
                return await self._find_program(wrapped, environment, spec, events)
            if await asyncio.to_thread(is_cached, wrapped, environment, spec.cwd):
                start = await self._find_program(wrapped, environment, spec, events)
            else:
                start = await self._fetch_first(wrapped, environment, spec, events)
        if isinstance(start, Start):
            self._fetched_packages.add(package)
            self._locks.pop(package, None)
        return start

    async def _fetch_first(
        self, wrapped: Wrapper, environment: Mapping[str, str], spec: ChildSpec, events: ProcessObserver
    ) -> Start | Process | None:
        """Like `_find_program`, but waits until one of `FETCHES` fetches may begin, and reports both as steps."""
        if self._fetches.locked():
            events.on_step(f"waiting to fetch {wrapped.package}: {FETCHES} other packages are fetched first")
        try:
            async with self._fetches:
                step = f"fetching {wrapped.package} with {wrapped.kind}"
                events.on_step(step)
                return await self._find_program(wrapped, environment, spec, events, step)
        finally:
            events.on_step("")

    async def _find_program(
        self,
        wrapped: Wrapper,
        environment: Mapping[str, str],
        spec: ChildSpec,
        events: ProcessObserver,
        step: str = "",
    ) -> Start | Process | None:
        """Run the wrapper with the script in place of the program. `step` is the step that was reported last."""
        with _script(wrapped, environment) as (path, mark):
            observer = _WrapperObserver(events, mark, withhold=wrapped.kind == "uvx")
            npx_environment = {**environment, SHELL: path} if wrapped.kind == "npx" else environment
            began = time.time()
            watch = _RegistryWatch(wrapped, environment, events, step) if wrapped.kind == "npx" else None
            try:
                process = await self._run(
                    wrapped.probe(path), npx_environment, spec.cwd, observer, self._seconds, FETCH_SECONDS, watch
                )
            finally:
                if watch is not None:
                    watch.end()
        if observer.answer is None:
            if wrapped.kind == "uvx" or observer.end == "exited with code 0":
                return None  # the probe differs from the user's command: let the command itself succeed or fail
            if not observer.printed and (words := await asyncio.to_thread(npm_failure, wrapped, environment, began)):
                events.on_stderr(words)
            events.on_exit(observer.end)
            return process
        observer.release()
        direct_start = start(wrapped, observer.answer)
        if direct_start is not None and _is_equivalent(wrapped, direct_start):
            return direct_start
        self._irreplaceable.add(wrapped)
        return None

    async def _run(
        self,
        argv: tuple[str, ...],
        environment: Mapping[str, str],
        cwd: str | None,
        observer: _WrapperObserver,
        seconds: float,
        max_seconds: float = 0.0,
        watch: _RegistryWatch | None = None,
    ) -> Process:
        """Run a program until it has answered or ended, then stop it with its descendants.

        The limit is `seconds`, or `max_seconds` seconds as long as the program keeps writing files. `watch` checks
        meanwhile what the program waits for.
        """
        process = await self._inner.start(argv, environment, cwd, observer)
        clock = asyncio.get_running_loop().time
        began = progressed = clock()
        written = 0
        try:
            while not await wait_until_set(observer.done, min(seconds / 4, _CHECK_SECONDS)):
                if watch is not None:
                    await watch.check()
                now, bytes_ = clock(), process.written_bytes
                if now - began < max_seconds and bytes_ >= written + FETCHED_BYTES:
                    progressed, written = now, bytes_
                if now - progressed >= seconds:
                    words = f"{Path(argv[0]).name} did not find or fetch its program within {now - began:.1f} s"
                    raise ConnectFailed(words, reason="StartTimeout")
        finally:
            if not observer.done.is_set():
                processes.signal_group(process.pid, signal.SIGTERM)
            # shielded, as a cancellation must not leave the process half stopped
            await asyncio.shield(asyncio.ensure_future(process.stop(END_SECONDS)))
        return process


class _RegistryWatch:
    """Reports as a step that an `npx` waits for a registry that it cannot reach, until it has reached it or ended."""

    def __init__(self, wrapped: Wrapper, environment: Mapping[str, str], events: ProcessObserver, step: str) -> None:
        """`step`: the step that is reported otherwise."""
        self._wrapped = wrapped
        self._environment = environment
        self._events = events
        self._step = step
        self._began = time.time()
        self._words = ""

    async def check(self) -> None:
        """Read npm's log."""
        self._show(await asyncio.to_thread(unreached_registry, self._wrapped, self._environment, self._began))

    def end(self) -> None:
        """Report the usual step again."""
        self._show("")

    def _show(self, words: str) -> None:
        if words != self._words:
            self._words = words
            self._events.on_step(words or self._step)


class _WrapperObserver:
    """Observer of a wrapper until its script has run: stores the script's line and passes the log on to `events`.

    With `withhold`, an error's first line and all lines after it are withheld until `release`.
    """

    def __init__(self, events: ProcessObserver | None, mark: str, *, withhold: bool = False) -> None:
        self.answer: str | None = None
        """Line that the script printed, without its mark; None before."""
        self.end = ""
        """How the wrapper ended, such as `exited with code 1`; empty before."""
        self.printed = False
        """Whether standard error had lines other than npm's warnings and notices."""
        self.done = asyncio.Event()
        self._events = events
        self._mark = mark.encode()
        self._withhold = withhold
        self._withheld: list[str] = []

    def on_line(self, line: bytes) -> None:
        if self.answer is None and line.startswith(self._mark):
            self.answer = line[len(self._mark) :].decode("utf-8", "replace")
            self.done.set()
        elif self._events is not None:
            self._events.on_line(line)

    def on_step(self, step: str) -> None:
        """Ignored: a wrapper has no preparation."""

    def on_stderr(self, line: str) -> None:
        self.printed |= not line.startswith(_CHATTER)
        if self._events is None:
            return
        if self._withhold and (self._withheld or line.lstrip().startswith(("error", "×"))):
            self._withheld = [*self._withheld[-_MAX_WITHHELD:], line]
        else:
            self._events.on_stderr(line)

    def on_fault(self, error: McpError) -> None:
        self.on_exit(str(error))

    def on_exit(self, ending: str) -> None:
        self.end = self.end or ending
        self.done.set()

    def release(self) -> None:
        """Pass on the lines that were withheld."""
        withheld, self._withheld, self._withhold = self._withheld, [], False
        if self._events is not None:
            for line in withheld:
                self._events.on_stderr(line)


_MAX_WITHHELD: Final = 100
"""Most withheld lines before the newest one."""
_CHATTER: Final = ("npm warn", "npm notice", "npm WARN")
_CHECK_SECONDS: Final = 5.0
"""Interval between checks of the bytes that a wrapper has written."""


@contextmanager
def _script(wrapped: Wrapper, environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Write the script into a private temporary folder, which is removed at the end. Yields the script's path and the
    mark that begins the line that it prints.
    """
    with tempfile.TemporaryDirectory(prefix="fairlead-start-") as folder:
        path, mark = Path(folder) / "start", f"{folder} "
        # by a link, as the path of an interpreter may be too long for a #! line or contain blanks
        interpreter = Path(folder) / "python"
        interpreter.symlink_to(Path(sys.executable).resolve())
        path.write_text(script(str(interpreter), mark, wrapped, environment))
        path.chmod(0o700)
        yield str(path), mark


def _modification_time(path: str) -> int:
    """Modification time of a program in nanoseconds; 0 if it cannot be read."""
    try:
        return Path(path).stat().st_mtime_ns
    except OSError:
        return 0


def _belongs_to_npm(path: str) -> bool:
    """Whether `npx` is part of npm, and not a shim of a version manager that may do more."""
    real = Path(path).resolve()
    try:
        return real.name == "npx-cli.js" and is_npm((real.parent.parent / "package.json").read_bytes())
    except OSError:
        return False


def _is_equivalent(wrapped: Wrapper, start: Start) -> bool:
    """Whether starting the program directly is the same as starting it by the wrapper."""
    if wrapped.kind == "uvx":  # uvx warns of a program from another package or from this machine
        first = start.env.get("PATH", "").split(os.pathsep)[0]
        return os.access(Path(first) / wrapped.program, os.X_OK)
    env = start.env
    project = Path(env.get("npm_config_local_prefix", start.cwd), ".npmrc")
    extra_files = [Path(env[name]) for name in ("npm_config_userconfig", "npm_config_globalconfig") if env.get(name)]
    return not any("script-shell" in _text(file) for file in [project, *extra_files])


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""
