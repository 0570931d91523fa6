"""Starts the servers of `npx` and `uvx` without these in front: wrappers that wait held half the memory of servers.

At each start the wrapper runs first and does all that it does (resolve, fetch, install, choose the program, set up its
environment), but what it then starts is a script of ours, which prints how it was started and ends, and so does the
wrapper. The program is then started as the script was. So it is the same whatever the wrapper makes of its settings,
and a wrapper that fails does so in its own words. What is unusual is started as it is written: `fairlead_mcp.wrappers`.
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
from fairlead_mcp.npm_logs import npm_failure
from fairlead_mcp.package_caches import is_cached
from fairlead_mcp.stdio import FETCHED_BYTES, ChildSpec, Process, ProcessObserver, SubprocessLauncher
from fairlead_mcp.waiting import wait_until_set
from fairlead_mcp.wrappers import SHELL, Start, Wrapper, is_npm, is_uv, script, start, wrapper

logger = logging.getLogger(__name__)

RESOLVE_SECONDS: Final = 120.0
"""To find the program of a package, and to fetch it: without `FETCHED_BYTES` more for so long, it is given up."""
FETCH_SECONDS: Final = 1800.0
"""To fetch a package, however much of it arrives."""
FETCHES: Final = max(3, os.cpu_count() or 1)
"""Packages that are fetched side by side: more share the line and the cores, and all of them come late."""
ASK_SECONDS: Final = 10.0
"""To print a version."""
END_SECONDS: Final = 1.0
"""A wrapper has so long to end by itself after its script, and again after SIGTERM."""


class DirectLauncher:
    """Launches the program behind a wrapper, and everything else as `inner` does. `seconds`: limit of finding one."""

    def __init__(self, inner: SubprocessLauncher, *, seconds: float = RESOLVE_SECONDS) -> None:
        self._inner = inner
        self._seconds = seconds
        self._genuine: dict[tuple[str, int], bool] = {}
        """By path and time of change, whether a program is npm's `npx`, or uv."""
        self._works: bool | None = None
        """Whether scripts of ours run on this machine."""
        self._unlike: set[Wrapper] = set()
        """Wrappers that would start another program than is expected of them."""
        self._fetched: set[tuple[str, str]] = set()
        """Packages that were started, by kind and name."""
        self._locks: defaultdict[tuple[str, str], asyncio.Lock] = defaultdict(asyncio.Lock)
        self._fetches = asyncio.Semaphore(FETCHES)

    async def launch(self, spec: ChildSpec, events: ProcessObserver) -> Process:
        """Implements Launcher. Also raises ConnectFailed (StartTimeout) where the wrapper takes too long."""
        wrapped = wrapper(spec)
        environment = spec.environment(os.environ)
        if wrapped is None or wrapped in self._unlike or not await self._usable(wrapped, environment):
            return await self._inner.launch(spec, events)
        start = await self._in_turn(wrapped, environment, spec, events)
        if isinstance(start, Start):
            return await self._inner.start(start.argv, start.env, start.cwd, events)
        return start or await self._inner.launch(spec, events)

    async def aclose(self) -> None:
        """Implements Launcher."""
        await self._inner.aclose()

    # Whether it can be done

    async def _usable(self, wrapped: Wrapper, environment: Mapping[str, str]) -> bool:
        """Whether the wrapper is the program it is called like, and scripts of ours run on this machine."""
        path = shutil.which(wrapped.command, path=environment.get("PATH"))
        if path is None:
            return False
        key = (path, _changed_at(path))
        if key not in self._genuine:
            genuine = _belongs_to_npm(path) if wrapped.kind == "npx" else await self._is_uv(path, environment)
            if not genuine:
                logger.info("%s is not the %s that is known here: servers keep it in front of them", path, wrapped.kind)
            self._genuine[key] = genuine
        return self._genuine[key] and await self._script_runs(wrapped)

    async def _is_uv(self, path: str, environment: Mapping[str, str]) -> bool:
        return is_uv(await self._output((path, "--version"), environment))

    async def _script_runs(self, wrapped: Wrapper) -> bool:
        """Asked once: a folder for temporary files may be one that no program runs from."""
        if self._works is None:
            with _script(wrapped._replace(kind="uvx"), {}) as (path, mark):
                self._works = (await self._output((path,), {})).startswith(mark)
            if not self._works:
                logger.info("no program runs from %s: servers keep npx and uvx in front of them", tempfile.gettempdir())
        return self._works

    async def _output(self, argv: tuple[str, ...], environment: Mapping[str, str]) -> str:
        """The first line that a short program prints; empty where it does not run."""
        told = _Told(None, "")
        try:
            await self._run(argv, environment, None, told, ASK_SECONDS)
        except McpError:
            return ""
        return told.answer or ""

    # What the wrapper would run

    async def _in_turn(
        self, wrapped: Wrapper, environment: Mapping[str, str], spec: ChildSpec, events: ProcessObserver
    ) -> Start | Process | None:
        """The program, or the wrapper as it failed, or None to start the latter. What one start fetches, another one
        of the same package waits for: two of npm in one folder of its cache break each other. Packages that were
        started before, or are in the cache of npm or uv, wait for no other package.
        """
        package = (wrapped.kind, wrapped.package)
        if package in self._fetched:
            return await self._look_up(wrapped, environment, spec, events)
        # no limit of time: each of those in front has one
        async with self._locks[package]:
            if package in self._fetched:  # meanwhile
                return await self._look_up(wrapped, environment, spec, events)
            if await asyncio.to_thread(is_cached, wrapped, environment, spec.cwd):
                start = await self._look_up(wrapped, environment, spec, events)
            else:
                start = await self._fetch_first(wrapped, environment, spec, events)
        if isinstance(start, Start):
            self._fetched.add(package)
            self._locks.pop(package, None)
        return start

    async def _fetch_first(
        self, wrapped: Wrapper, environment: Mapping[str, str], spec: ChildSpec, events: ProcessObserver
    ) -> Start | Process | None:
        """As `_look_up`, when it is this package's turn to be fetched; what is waited for is told meanwhile."""
        if self._fetches.locked():
            events.on_step(f"waiting to fetch {wrapped.package}: {FETCHES} other packages are fetched first")
        try:
            async with self._fetches:
                events.on_step(f"fetching {wrapped.package} with {wrapped.kind}")
                return await self._look_up(wrapped, environment, spec, events)
        finally:
            events.on_step("")

    async def _look_up(
        self, wrapped: Wrapper, environment: Mapping[str, str], spec: ChildSpec, events: ProcessObserver
    ) -> Start | Process | None:
        with _script(wrapped, environment) as (path, mark):
            told = _Told(events, mark, holding=wrapped.kind == "uvx")
            npx_environment = {**environment, SHELL: path} if wrapped.kind == "npx" else environment
            began = time.time()
            process = await self._run(
                wrapped.probe(path), npx_environment, spec.cwd, told, self._seconds, FETCH_SECONDS
            )
        if told.answer is None:
            if wrapped.kind == "uvx" or told.end == "exited with code 0":
                return None  # other words than the user's were run, or more than expected: the wrapper itself decides
            if not told.printed and (words := await asyncio.to_thread(npm_failure, wrapped, environment, began)):
                events.on_stderr(words)
            events.on_exit(told.end)
            return process
        told.release()
        begun = start(wrapped, told.answer)
        if begun is not None and _same(wrapped, begun):
            return begun
        self._unlike.add(wrapped)
        return None

    async def _run(
        self,
        argv: tuple[str, ...],
        environment: Mapping[str, str],
        cwd: str | None,
        told: _Told,
        seconds: float,
        most: float = 0.0,
    ) -> Process:
        """Run a program until it has answered, or ended; whatever happens, it and all that it started are gone then.
        It may take `seconds`, and up to `most` while it fetches.
        """
        process = await self._inner.start(argv, environment, cwd, told)
        clock = asyncio.get_running_loop().time
        began = moved = clock()
        written = 0
        try:
            while not await wait_until_set(told.done, min(seconds / 4, _LOOK_SECONDS)):
                now, bytes_ = clock(), process.written
                if now - began < most and bytes_ >= written + FETCHED_BYTES:
                    moved, written = now, bytes_
                if now - moved >= seconds:
                    words = f"{Path(argv[0]).name} did not find or fetch its program within {now - began:.1f} s"
                    raise ConnectFailed(words, reason="StartTimeout")
        finally:
            if not told.done.is_set():
                processes.signal_group(process.pid, signal.SIGTERM)
            # a cancellation on the way must not leave it half stopped
            await asyncio.shield(asyncio.ensure_future(process.stop(END_SECONDS)))
        return process


class _Told:
    """Events of a wrapper on its way to the script: its log goes on to `events`, the script's line is kept.

    With `holding`, what follows the first line of an error is kept back until `release`.
    """

    def __init__(self, events: ProcessObserver | None, mark: str, *, holding: bool = False) -> None:
        self.answer: str | None = None
        self.end = ""
        self.printed = False
        """Whether it wrote more to standard error than what says nothing about a failure."""
        self.done = asyncio.Event()
        self._events = events
        self._mark = mark.encode()
        self._holding = holding
        self._held: list[str] = []

    def on_line(self, line: bytes) -> None:
        if self.answer is None and line.startswith(self._mark):
            self.answer = line[len(self._mark) :].decode("utf-8", "replace")
            self.done.set()
        elif self._events is not None:
            self._events.on_line(line)

    def on_step(self, what: str) -> None:
        """Nothing is done before a wrapper."""

    def on_stderr(self, line: str) -> None:
        self.printed |= not line.startswith(_CHATTER)
        if self._events is None:
            return
        if self._holding and (self._held or line.lstrip().startswith(("error", "×"))):
            self._held = [*self._held[-_KEPT:], line]
        else:
            self._events.on_stderr(line)

    def on_fault(self, error: McpError) -> None:
        self.on_exit(str(error))

    def on_exit(self, how: str) -> None:
        self.end = self.end or how
        self.done.set()

    def release(self) -> None:
        """Hand on what was kept back."""
        held, self._held, self._holding = self._held, [], False
        if self._events is not None:
            for line in held:
                self._events.on_stderr(line)


_KEPT: Final = 100
_CHATTER: Final = ("npm warn", "npm notice", "npm WARN")
_LOOK_SECONDS: Final = 5.0
"""Between two looks at what a wrapper has written."""


@contextmanager
def _script(wrapped: Wrapper, given: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Path and mark of a script in a folder of its owner alone, which is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="fairlead-start-") as folder:
        path, mark = Path(folder) / "start", f"{folder} "
        # by a link: the path of an interpreter may be too long for a first line, or hold blanks
        interpreter = Path(folder) / "python"
        interpreter.symlink_to(Path(sys.executable).resolve())
        path.write_text(script(str(interpreter), mark, wrapped, given))
        path.chmod(0o700)
        yield str(path), mark


def _changed_at(path: str) -> int:
    """When a program last changed, in nanoseconds; 0 where that cannot be told."""
    try:
        return Path(path).stat().st_mtime_ns
    except OSError:
        return 0


def _belongs_to_npm(path: str) -> bool:
    """Whether `npx` is npm's own, and no shim of a version manager that may do more."""
    real = Path(path).resolve()
    try:
        return real.name == "npx-cli.js" and is_npm((real.parent.parent / "package.json").read_bytes())
    except OSError:
        return False


def _same(wrapped: Wrapper, start: Start) -> bool:
    """Whether the program, started alone, is the one that the wrapper would start."""
    if wrapped.kind == "uvx":  # one of another package, or of this machine, is for the wrapper to tell of
        first = start.env.get("PATH", "").split(os.pathsep)[0]
        return os.access(Path(first) / wrapped.program, os.X_OK)
    env = start.env
    project = Path(env.get("npm_config_local_prefix", start.cwd), ".npmrc")
    named = [Path(env[name]) for name in ("npm_config_userconfig", "npm_config_globalconfig") if env.get(name)]
    return not any("script-shell" in _text(file) for file in [project, *named])


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""
