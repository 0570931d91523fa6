"""Texts of the user that wait to be looked through, so that no audio waits for that."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import msgspec

log = logging.getLogger(__name__)


class HeardText(msgspec.Struct):
    """Text of one turn of the user's."""

    turn: str
    """Id that tells the turn from others."""
    text: str
    final: bool
    grows: bool
    """Whether it goes on where the text before it, of the same turn, ended."""


class Hearing:
    """Looks through texts one after the other, in a task of its own. `aclose` it."""

    def __init__(self, look: Callable[[HeardText], Awaitable[None]]) -> None:
        self._look = look
        self._waiting: list[HeardText] = []
        self._task: asyncio.Task[None] | None = None

    def add(self, heard: HeardText) -> None:
        """Have a text looked through soon. Pieces of one turn that wait are joined."""
        last = self._waiting[-1] if self._waiting else None
        if last is not None and last.turn == heard.turn and not last.final:
            last.text = last.text + heard.text if heard.grows else heard.text
            last.final = heard.final
            last.grows = last.grows and heard.grows
        else:
            self._waiting.append(heard)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work(), name="hearing of a speech session")

    async def done(self) -> None:
        """Wait until nothing waits."""
        while self._task is not None and not self._task.done():
            await asyncio.wait({self._task})

    async def aclose(self) -> None:
        """Drop what waits."""
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _work(self) -> None:
        while self._waiting:
            heard = self._waiting.pop(0)
            try:
                await self._look(heard)
            except Exception:
                log.exception("The tier of a speech session was not chosen")
