"""Reads keys from the terminal while `fairlead up` draws its table: `t` opens the screen of `fairlead top`, and
`sign_in_keys` handles the others.

A terminal delivers single keys only in cbreak mode (termios(3)). Its original modes are restored whenever no keys are
read: while another program has the screen, and at the end of the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import termios
import tty
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol

TOP_KEY: Final = "t"
KEYS_HINT: Final = "t opens `fairlead top` here, q returns; Ctrl-C stops"
MAX_KEYS: Final = 16
"""Maximum number of pressed keys that wait for the end of an action; further keys are ignored."""
STOP_SECONDS: Final = 5.0
"""Seconds that `fairlead top` has to close its screen before its process is killed."""


class TerminalKeys:
    """Reads single keys between `listen` and `release`. Does nothing in a background job, which must not change the
    terminal's modes.
    """

    def __init__(self, number: int) -> None:
        """`number` is the file descriptor of a terminal; `release` restores its current modes."""
        self._number = number
        self._modes = termios.tcgetattr(number)
        self._loop: asyncio.AbstractEventLoop | None = None

    def listen(self, on_key: Callable[[str], None]) -> None:
        """Call `on_key` with each key from now on. Must be called in the event loop."""
        if self._loop is None and self._in_foreground():
            tty.setcbreak(self._number, termios.TCSANOW)
            self._loop = asyncio.get_running_loop()
            self._loop.add_reader(self._number, self._read, on_key)

    def release(self) -> None:
        """Restore the terminal's modes."""
        loop, self._loop = self._loop, None
        if loop is not None and not loop.is_closed():
            loop.remove_reader(self._number)
        if self._in_foreground():
            with contextlib.suppress(termios.error):  # the terminal is gone
                termios.tcsetattr(self._number, termios.TCSANOW, self._modes)

    def _read(self, on_key: Callable[[str], None]) -> None:
        if not self._in_foreground():
            return  # reading in a background job would stop the process (SIGTTIN)
        try:
            keys = os.read(self._number, 64)
        except OSError:
            keys = b""
        if not keys:
            self.release()  # the terminal is gone
        for key in keys.decode(errors="ignore"):
            on_key(key)

    def _in_foreground(self) -> bool:
        try:
            return os.tcgetpgrp(self._number) == os.getpgrp()
        except OSError:  # not a controlling terminal, so there are no other jobs
            return True


class SuspendableDisplay(Protocol):
    """A display that can lend the terminal to another program."""

    def suspend(self) -> None: ...

    def resume(self, *, clear: bool) -> None:
        """Draw again; `clear` empties the window first."""
        ...


async def act_on_keys(
    keys: TerminalKeys,
    display: SuspendableDisplay,
    url: str,
    press: Callable[[str], Awaitable[object]],
    environ: Mapping[str, str] = os.environ,
) -> None:
    """Show the screen of `fairlead top` each time that TOP_KEY is pressed, and call `press` with each other key, until
    cancelled.
    """
    key_queue: asyncio.Queue[str] = asyncio.Queue(MAX_KEYS)

    def on_key(key: str) -> None:
        with contextlib.suppress(asyncio.QueueFull):
            key_queue.put_nowait(key)

    while True:
        keys.listen(on_key)
        key = await key_queue.get()
        if key != TOP_KEY:
            await press(key)
            continue
        keys.release()
        display.suspend()
        code = 1
        try:
            code = await _top(url, environ)
        finally:
            keys.release()  # a killed process does not restore the terminal's modes
            display.resume(clear=code == 0)
        while not key_queue.empty():
            key_queue.get_nowait()


async def wait_forever() -> None:
    """Wait until cancelled."""
    await asyncio.Event().wait()


async def _top(url: str, environ: Mapping[str, str]) -> int:
    """Run the screen as a process with its own event loop and terminal modes. Returns its exit code."""
    command = [sys.executable, "-m", "fairlead_cli", "top", "--url", url]
    process = await asyncio.create_subprocess_exec(*command, env=dict(environ))
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
