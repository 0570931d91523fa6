"""Reads the facts about a tool for its page, without token counts if the process that counts tokens is not ready."""

from __future__ import annotations

import asyncio
from typing import Final

from fairlead_console.pages.tools.facts import ToolFacts, tool_facts
from fairlead_offers.catalogs.subject_catalog import SubjectCatalog
from fairlead_offers.services import ToolServices

PATIENCE_SECONDS: Final = 0.02
"""Seconds that a page waits for the token counts of its tool; a page without the counts is refreshed by its script."""


class FactsReader:
    """Collects the facts about tools. If a page stops waiting for the token counts, the counting continues in the
    background, so that the next request gets the counts. Each gateway has one instance.
    """

    def __init__(self, services: ToolServices) -> None:
        self._services = services
        self._count_tasks: set[asyncio.Task[ToolFacts]] = set()

    async def read(self, catalog: SubjectCatalog, name: str) -> ToolFacts:
        """Return the facts about a tool, without tokens if counting takes over PATIENCE_SECONDS. Raises Problem."""
        task = asyncio.create_task(self._services.work.run_in_steps(lambda: tool_facts(self._services, catalog, name)))
        self._count_tasks.add(task)
        task.add_done_callback(self._after_count)
        finished_tasks, _ = await asyncio.wait({task}, timeout=PATIENCE_SECONDS)
        return task.result() if finished_tasks else await self.facts_without_tokens(catalog, name)

    async def facts_without_tokens(self, catalog: SubjectCatalog, name: str) -> ToolFacts:
        """Return the facts about a tool without tokens. Raises Problem."""
        return await self._services.work.run_in_steps(
            lambda: tool_facts(self._services, catalog, name, count_tokens=False)
        )

    def _after_count(self, task: asyncio.Task[ToolFacts]) -> None:
        self._count_tasks.discard(task)
        if not task.cancelled():
            task.exception()  # retrieve the exception, so that asyncio does not log it if `read` no longer waits
