"""Reads the facts about a tool for its page, without token counts if the process that counts tokens is not ready."""

from __future__ import annotations

import asyncio
from typing import Final

from fairlead_console.pages.tools.facts import ToolFacts, tool_facts
from fairlead_offers.catalogs.subject_catalog import SubjectCatalog
from fairlead_offers.services import ToolServices

PATIENCE_SECONDS: Final = 0.02
"""Seconds that a page waits for the token counts of its tool; a page without the counts refreshes itself."""


class FactsReader:
    """Collects the facts about tools. If a page does not wait any longer, the counting of tokens continues in the
    background, so that its next request gets the counts. A gateway has one object.
    """

    def __init__(self, services: ToolServices) -> None:
        self._services = services
        self._counting: set[asyncio.Task[ToolFacts]] = set()

    async def read(self, seen: SubjectCatalog, name: str) -> ToolFacts:
        """Return the facts about a tool, without tokens if counting takes over PATIENCE_SECONDS. Raises Problem."""
        whole = asyncio.create_task(self._services.work.stepwise(lambda: tool_facts(self._services, seen, name)))
        self._counting.add(whole)
        whole.add_done_callback(self._after_count)
        done, _ = await asyncio.wait({whole}, timeout=PATIENCE_SECONDS)
        return whole.result() if done else await self.facts_without_tokens(seen, name)

    async def facts_without_tokens(self, seen: SubjectCatalog, name: str) -> ToolFacts:
        """Return the facts about a tool without tokens. Raises Problem."""
        return await self._services.work.stepwise(lambda: tool_facts(self._services, seen, name, counted=False))

    def _after_count(self, task: asyncio.Task[ToolFacts]) -> None:
        self._counting.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved so that asyncio does not log it; `read` raises it if it still waits
