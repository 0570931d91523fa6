"""Services about tools that the REST API, the LLM APIs, speech sessions and the console share."""

from __future__ import annotations

import msgspec

from fairlead_gateway.calls.path.direct import Caller
from fairlead_gateway.conversation.choosers import Choosers
from fairlead_gateway.core.search_counts import SearchCounts
from fairlead_offers.catalogs.catalog_changes import CatalogChanges
from fairlead_offers.catalogs.subject_catalog import SubjectCatalogs
from fairlead_offers.models.model_facts import ModelFacts
from fairlead_offers.results.session_context import SessionContext
from fairlead_offers.search.tool_search import ToolSearch
from fairlead_offers.workers.heavy_work import HeavyWork


class ToolServices(msgspec.Struct, frozen=True, kw_only=True):
    """Services about the tools of one gateway. The gateway calls `aclose` when it stops."""

    catalogs: SubjectCatalogs
    work: HeavyWork
    models: ModelFacts
    search: ToolSearch
    counts: SearchCounts
    """Counts searches, and calls of tools that a search has found."""
    results: SessionContext
    """Reads stored results of tools."""
    caller: Caller
    """Calls tools in the same way as the MCP endpoints."""
    choosers: Choosers
    """Choose the latency tier for the next answer of a conversation. Must be used in the worker thread."""
    changes: CatalogChanges
    """Counts the tools that change from one snapshot to the next."""

    async def aclose(self) -> None:
        """Cancel running work, and end the processes."""
        await self.changes.aclose()
        await self.work.aclose()
        await self.search.aclose()
        await self.results.aclose()
