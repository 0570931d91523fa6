"""Keys of the terminal while `fairlead up` draws its table: `t` opens the screen of `fairlead top`.

A terminal hands keys over at once only in cbreak mode (termios(3)). Its modes are those of before whenever nobody reads
keys: while another program has the screen, and at the end, however that comes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import termios
import tty
from collections.abc import Callable, Mapping
from typing import Final, Protocol

TOP_KEY: Final = "t"
KEYS_HINT: Final = "t opens `fairlead top` here, q returns; Ctrl-C stops"
STOP_SECONDS: Final = 5.0
"""Time in which the screen is left at the end, before its process is killed."""


class TerminalKeys:
    """Reads single keys between `listen` and `release`. A no-op in the background, where a terminal lends its modes to
    nobody.
    """

    def __init__(self, number: int) -> None:
        """`number`: file descriptor of a terminal, whose modes now are those that it gets back."""
        self._number = number
        self._modes = termios.tcgetattr(number)
        self._loop: asyncio.AbstractEventLoop | None = None

    def listen(self, pressed: Callable[[str], None]) -> None:
        """Call `pressed` with each key from now on. To be called in the event loop."""
        if self._loop is None and self._in_front():
            tty.setcbreak(self._number, termios.TCSANOW)
            self._loop = asyncio.get_running_loop()
            self._loop.add_reader(self._number, self._read, pressed)

    def release(self) -> None:
        """Give the terminal back as it was."""
        loop, self._loop = self._loop, None
        if loop is not None and not loop.is_closed():
            loop.remove_reader(self._number)
        if self._in_front():
            with contextlib.suppress(termios.error):  # the terminal is gone
                termios.tcsetattr(self._number, termios.TCSANOW, self._modes)

    def _read(self, pressed: Callable[[str], None]) -> None:
        if not self._in_front():
            return  # a read in the background would stop the process
        try:
            keys = os.read(self._number, 64)
        except OSError:
            keys = b""
        if not keys:
            self.release()  # the terminal is gone
        for key in keys.decode(errors="ignore"):
            pressed(key)

    def _in_front(self) -> bool:
        try:
            return os.tcgetpgrp(self._number) == os.getpgrp()
        except OSError:  # it is not a controlling terminal, so nobody else's jobs are in front
            return True


class Stage(Protocol):
    """A display that another program can take the terminal from for a while."""

    def suspend(self) -> None: ...

    def resume(self, *, clear: bool) -> None:
        """Draw again; `clear`: in a window without what is there."""
        ...


async def open_top_on_key(keys: TerminalKeys, stage: Stage, url: str, environ: Mapping[str, str] = os.environ) -> None:
    """Show the screen of `fairlead top` of a gateway each time that TOP_KEY is pressed; until cancelled."""
    wanted = asyncio.Event()

    def on_key(key: str) -> None:
        if key == TOP_KEY:
            wanted.set()

    while True:
        keys.listen(on_key)
        await wanted.wait()
        keys.release()
        stage.suspend()
        code = 1
        try:
            code = await _top(url, environ)
        finally:
            keys.release()  # a process that was killed left its own modes
            stage.resume(clear=code == 0)
        wanted.clear()


async def never() -> None:
    """Wait until cancelled."""
    await asyncio.Event().wait()


async def _top(url: str, environ: Mapping[str, str]) -> int:
    """Exit code of the screen, which runs as a process of its own: its loop and its terminal modes are not ours."""
    words = [sys.executable, "-m", "fairlead_cli", "top", "--url", url]
    process = await asyncio.create_subprocess_exec(*words, env=dict(environ))
    try:
        return await process.wait()
    finally:
        if process.returncode is None:
            process.terminate()
            try:
                async with asyncio.timeout(STOP_SECONDS):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
