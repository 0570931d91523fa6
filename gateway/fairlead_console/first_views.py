"""Prepares what the first view of a page waits for: compiled templates, and lists of all that a person sees.

It begins once somebody has looked at a page, so that a console that nobody opens takes nothing. Each piece is work of
its own in the worker: the next page waits for one of them at most.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from fairlead_console.html import Templates
from fairlead_offers.catalogs.subject_catalog import SubjectCatalog
from fairlead_offers.workers.heavy_work import WorkerThread

Piece = Callable[[SubjectCatalog], object]


class FirstViews:
    """One per gateway. What is prepared is kept, within bounds, by those who use it."""

    def __init__(self, worker: WorkerThread, templates: Templates) -> None:
        self._worker = worker
        self._templates = templates
        self._pieces: list[Piece] = []
        self._prepared: tuple[int, int] | None = None
        """Ids of the snapshot and views of the last person: where ids were reused, a first view takes its time."""
        self._preparing: asyncio.Task[None] | None = None

    def add(self, piece: Piece) -> None:
        """Have something made of what a person sees. In the worker."""
        self._pieces.append(piece)

    def prepare(self, seen: SubjectCatalog) -> None:
        """Prepare all pages for somebody who looks at one, where that was not done for what they see now."""
        of = (id(seen.snapshot), id(seen.views))
        if of == self._prepared or self._preparing is not None:
            return
        self._preparing = asyncio.create_task(self._prepare(seen, compiled=self._prepared is not None))
        self._preparing.add_done_callback(self._after_task)
        self._prepared = of

    async def _prepare(self, seen: SubjectCatalog, *, compiled: bool) -> None:
        for name in () if compiled else self._templates.names:
            await self._worker.do(partial(self._templates.compile, name))
        for piece in self._pieces:
            await self._worker.do(partial(piece, seen))

    def _after_task(self, task: asyncio.Task[None]) -> None:
        self._preparing = None
        if not task.cancelled():
            task.exception()  # a worker that is busy or closed: the first view of a page does it itself
