"""Plays a file with mpv or ffplay, one process at a time."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal

Program = Literal["mpv", "ffplay"]
ARGUMENTS: Final[dict[Program, tuple[str, ...]]] = {
    "mpv": ("--no-config", "--no-video", "--really-quiet", "--no-terminal", "--loop-file=inf", "--"),
    "ffplay": ("-nodisp", "-hide_banner", "-loglevel", "error", "-loop", "0", "-i"),
}
EXIT_TIMEOUT_S: Final = 3.0
"""Seconds that a player has to exit before it is killed."""


class PlayerFailed(Exception):
    """Failure to start the player. The message is a sentence without its full stop."""


def find_player(player: Literal["auto", "mpv", "ffplay", "none"]) -> tuple[Program, str] | None:
    """Name and path of the player; None for `none`, or if `auto` finds no installed player. Raises PlayerFailed."""
    if player == "none":
        return None
    names: tuple[Program, ...] = ("mpv", "ffplay") if player == "auto" else (player,)
    for name in names:
        path = shutil.which(name)
        if path is not None:
            return name, path
    if player != "auto":
        raise PlayerFailed(f"{player} is not installed; install it, or set player to none")
    return None


class Player:
    """The player's process. `on_exit(code)` is called when it exits by itself."""

    def __init__(self, name: Program, program: str, on_exit: Callable[[int], None]) -> None:
        self.name = name
        self._program = program
        self._on_exit = on_exit
        self._process: asyncio.subprocess.Process | None = None
        self._watch_task: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()

    async def play(self, file: Path) -> None:
        """Play a file in a loop, instead of the current file. Raises PlayerFailed."""
        async with self._lock:
            await self._stop()
            try:
                # no inherited standard output: it is the connection to the MCP client
                self._process = await asyncio.create_subprocess_exec(
                    self._program,
                    *ARGUMENTS[self.name],
                    str(file),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.DEVNULL,
                    stderr=asyncio.subprocess.DEVNULL,
                )
            except OSError as error:
                raise PlayerFailed(f"{self.name} cannot be started: {error.strerror}") from error
            self._watch_task = asyncio.create_task(self._watch(self._process))

    async def stop(self) -> None:
        """Stop the process, if one is running."""
        async with self._lock:
            await self._stop()

    async def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if self._watch_task is not None:
            self._watch_task.cancel()
        if process.returncode is None:
            process.terminate()
            try:
                async with asyncio.timeout(EXIT_TIMEOUT_S):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()

    async def _watch(self, process: asyncio.subprocess.Process) -> None:
        code = await process.wait()
        if self._process is process:
            self._process = None
            self._on_exit(code)
