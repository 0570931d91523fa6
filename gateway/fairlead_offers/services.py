"""The services by which REST, models' endpoints, speech and the console deal with tools."""

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
    """Services of one gateway that deal with tools. `aclose` them."""

    catalogs: SubjectCatalogs
    work: HeavyWork
    models: ModelFacts
    search: ToolSearch
    counts: SearchCounts
    """Counts of searches, and of calls of what was found."""
    results: SessionContext
    """Kept results of tools."""
    caller: Caller
    """Calls a tool as an endpoint does."""
    choosers: Choosers
    """Choosers of the tier of an answer. In the thread only."""
    changes: CatalogChanges
    """Follows what is searched from one catalog to the next."""

    async def aclose(self) -> None:
        """End what is being done, and the processes."""
        await self.changes.aclose()
        await self.work.aclose()
        await self.search.aclose()
        await self.results.aclose()
