"""Catalogs as subjects see them, and the wait for servers that start."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from fairlead_api.documents.servers import ServerEntry
from fairlead_gateway.calls.path.startup import StartupWait, refusal_of
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.policy.selection import Selection
from fairlead_gateway.policy.unready import on_the_way
from fairlead_offers.catalogs.kept_by_view import KeptByView
from fairlead_offers.catalogs.subject_catalog import SubjectCatalog
from fairlead_offers.catalogs.visible_tools import MAX_KEPT_VIEWS, VisibleTools
from fairlead_offers.problems import Problem, unready_problem

Result = TypeVar("Result")


class SubjectCatalogs:
    """Gives everybody the tools that are served and that its policies allow. One per gateway."""

    def __init__(self, selection: Callable[[], Selection], patience: StartupWait) -> None:
        self._selection = selection
        self._views = KeptByView(VisibleTools, MAX_KEPT_VIEWS)
        self.patience = patience
        """Wait for servers that start."""

    def seen_by(self, identity: Identity) -> SubjectCatalog:
        """The catalog that an identity may see."""
        return SubjectCatalog(self._selection(), identity)

    def visible(self, seen: SubjectCatalog, tier: str | None) -> VisibleTools:
        """The visible tools of a tier, of the default one with None. In the thread only. Raises Problem."""
        return self._views.of(seen, tier)

    async def when_ready(
        self, identity: Identity, agent: str, work: Callable[[SubjectCatalog], Awaitable[Result]]
    ) -> Result:
        """Do `work` with a subject's catalog. Where it finds no tool or server of a name that a starting one may have,
        wait for that, and do it again. Raises Problem: STARTING after the wait, CONNECTION_LOST for one that failed.
        """
        end = time.monotonic() + self.patience.seconds
        while True:
            seen = self.seen_by(identity)
            try:
                return await work(seen)
            except Problem as problem:
                entry = seen.unready(problem)
                if entry is None:
                    raise
                if not self.starts(entry):
                    raise unready_problem(refusal_of(entry, starts=False)) from problem
                if not await self.patience.wait(entry.key, end - time.monotonic(), agent):
                    raise unready_problem(refusal_of(entry, starts=True)) from problem

    def starts(self, entry: ServerEntry | None) -> bool:
        """Whether a server may have a catalog in a moment, and has none; False for no server."""
        return entry is not None and on_the_way(self._selection(), entry.key)
