"""Computes in advance what makes the first view of a page slow: compiled templates, and the lists of tools and scores
that a principal sees.

Preparation starts when somebody visits a page, so that an unused console takes no resources. Each template and list is
a separate job of the worker thread, so that a page waits for at most one of these jobs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from fairlead_console.html import Templates
from fairlead_offers.catalogs.subject_catalog import SubjectCatalog
from fairlead_offers.workers.heavy_work import WorkerThread

Preparation = Callable[[SubjectCatalog], object]


class FirstViews:
    """Prepares first views by filling the caches of pages. Each gateway has one instance."""

    def __init__(self, worker: WorkerThread, templates: Templates) -> None:
        self._worker = worker
        self._templates = templates
        self._preparations: list[Preparation] = []
        self._prepared_ids: tuple[int, int] | None = None
        """`id` of the snapshot and of the views that were prepared last. If a new object gets the same `id`, its
        preparation is skipped, which only makes the first view slower.
        """
        self._task: asyncio.Task[None] | None = None

    def add(self, preparation: Preparation) -> None:
        """Add a function that prepares data for a principal's catalog. It is called in the worker thread."""
        self._preparations.append(preparation)

    def prepare(self, catalog: SubjectCatalog) -> None:
        """Start preparing all pages for a principal's catalog, unless the last preparation was for the same catalog or
        is still running.
        """
        key = (id(catalog.snapshot), id(catalog.views))
        if key == self._prepared_ids or self._task is not None:
            return
        self._task = asyncio.create_task(self._prepare(catalog, are_compiled=self._prepared_ids is not None))
        self._task.add_done_callback(self._after_task)
        self._prepared_ids = key

    async def _prepare(self, catalog: SubjectCatalog, *, are_compiled: bool) -> None:
        for name in () if are_compiled else self._templates.names:
            await self._worker.do(partial(self._templates.compile, name))
        for preparation in self._preparations:
            await self._worker.do(partial(preparation, catalog))

    def _after_task(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled():
            task.exception()  # the worker is busy or closed; the first view of a page then does the work itself
