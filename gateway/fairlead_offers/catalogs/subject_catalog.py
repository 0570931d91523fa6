"""The catalog as one subject may see it: the only way from a REST resource to the catalog.

`SubjectCatalogs` makes a `SubjectCatalog` per request, from the identity that the guard left in its scope, and waits
for servers that start.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from operator import attrgetter
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from fairlead_api.documents.servers import ServerEntry
from fairlead_api.floors import Floor, Floors, slower
from fairlead_api.meta import ServerKey
from fairlead_gateway.calls.path.startup import StartupWait, refusal_of
from fairlead_gateway.catalog.model import Snapshot
from fairlead_gateway.conversation.turn import Choice
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.core.server import Server, Tool
from fairlead_gateway.endpoint.view_builds import ViewBuilds
from fairlead_gateway.policy.decision import Decision, Denial, decide, denial
from fairlead_gateway.policy.selection import Selection
from fairlead_gateway.policy.tiers import by_speed, in_tier
from fairlead_gateway.policy.unready_servers import is_starting, unready_by_name, unready_by_tool, unready_for
from fairlead_gateway.policy.view import MERGED, View, server_target
from fairlead_offers.catalogs.visible_tools import MAX_KEPT_VIEWS, VisibleTools
from fairlead_offers.problems import UNKNOWN_SERVER, UNKNOWN_TIER, UNKNOWN_TOOL, Problem, unready_problem

PAUSE: Final = 5e-5
"""Seconds between two slices of a view that is built, in which the event loop serves calls."""
POLICY: Final = "policy"
"""Rule of a choice whose tier policies made faster."""
Result = TypeVar("Result")


class SubjectCatalog:
    """Servers, tools and decisions of a selection that one subject may see."""

    __slots__ = ("_floors", "_selection", "_views", "identity")

    def __init__(self, selection: Selection, identity: Identity) -> None:
        self.identity = identity
        self._selection = selection
        self._views: Mapping[bytes, View] = selection.seen_by(identity)
        self._floors: Floors | None = None

    @property
    def snapshot(self) -> Snapshot:
        """Everything that is served to anybody: a subject may see only what is in one of its views."""
        return self._selection.snapshot

    @property
    def views(self) -> Mapping[bytes, View]:
        """Views of the subject; subjects that may see the same share the object."""
        return self._views

    @property
    def whole(self) -> bool:
        """Whether policies hide nothing from this subject."""
        return self._views is self._selection.targets

    @property
    def tiers(self) -> tuple[str, ...]:
        """Names of the tiers that the subject has."""
        return tuple(tier for tier in self.snapshot.tiers if in_tier(MERGED, tier) in self._views)

    def view(self, tier: str | None) -> View:
        """The merged view of a tier, of the default one with None. Not in the loop. Raises Problem."""
        target = MERGED if tier is None else in_tier(MERGED, tier)
        for _ in self._selection.views_of(self.identity).build_in_slices(target) if not self.whole else ():
            time.sleep(PAUSE)
        view = self._views.get(target)
        if view is None:
            raise Problem(UNKNOWN_TIER, f"there is no tier {str(tier)[:64]!r}", existing=self.tiers)
        return view

    @property
    def default_tier(self) -> str | None:
        """Tier of this subject where it names none; None where there is none, or one per server."""
        if self.whole:
            return next((tier.name for tier in self.snapshot.rules.tiers if tier.default), None)
        return self._selection.views_of(self.identity).default_tier

    def floor(self, tool: Tool) -> Floor | None:
        """The fastest tier that may show a tool to this subject; None: any."""
        tiers = self._floors = self._floors or Floors(self.snapshot.rules.tiers)
        rules = None if self.whole else self._selection.views_of(self.identity).rules
        return slower(tiers.of(tool), rules.floors.get(tool.ref) if rules is not None else None)

    def decision(self, server: ServerKey, tool: str) -> Decision:
        """Decision about an existing tool, visible to this subject or not. Not in the loop."""
        return decide(self._selection.policies, self._selection.views_of(self.identity).rules, server, tool)

    def denial(self, view: View, name: str) -> Denial | None:
        """Decision that denies this subject a tool whose name `view` does not show. Not in the loop."""
        return denial(self._selection, self.identity, view, name)

    def of_server(self, key: ServerKey) -> View | None:
        """The view of one server; None: it does not exist for this subject."""
        return self._views.get(server_target(key))

    def unready(self, problem: Problem) -> ServerEntry | None:
        """The server without a catalog that may have the unknown tool or server of a problem."""
        name, code = problem.missing, problem.document.code
        if code == UNKNOWN_TOOL and name:
            return self.unready_of_tool(name)
        return unready_by_name(self._selection, self.identity, name) if code == UNKNOWN_SERVER and name else None

    def unready_of_tool(self, name: str) -> ServerEntry | None:
        """The server without a catalog that may have a tool, by the tool's name on `/mcp`, its id, or
        `[namespace/]server/tool`.
        """
        server = name.rpartition("/")[0]
        entry = unready_by_tool(self._selection, self.identity, name)
        return entry or (unready_by_name(self._selection, self.identity, server) if server else None)

    def unready_servers(self) -> list[ServerEntry]:
        """The servers without a catalog that the subject may see, in the order of their names."""
        return sorted(unready_for(self._selection, self.identity), key=attrgetter("key"))

    def servers(self) -> list[Server]:
        """The servers that the subject may see, in the order of the catalog."""
        return [server for key, server in self.snapshot.servers.items() if server_target(key) in self._views]


def attainable(choice: Choice, seen: SubjectCatalog) -> Choice:
    """The choice, with a tier no slower than the subject's policies allow."""
    shown = seen.tiers
    if choice.tier in shown:
        return choice
    slowest = [tier for tier in by_speed(seen.snapshot.rules.tiers) if tier.name in shown][-1]
    return msgspec.structs.replace(
        choice, tier=slowest.name, rule=POLICY, matched=None, limit_ms=slowest.max_latency_ms
    )


class OfView(Protocol):
    """Value that holds the view it was made of."""

    @property
    def view(self) -> View: ...


Kept = TypeVar("Kept", bound=OfView)


class KeptByView(Generic[Kept]):
    """Cache of values made of views, for the snapshot that is served now; the least recently used is dropped first. In
    the thread for heavy work only.
    """

    def __init__(self, make: Callable[[View, Snapshot], Kept], most: int) -> None:
        """Keeps at most `most` values."""
        self._make = make
        self._most = most
        self._snapshot: Snapshot | None = None
        self._items: OrderedDict[int, Kept] = OrderedDict()

    def of(self, seen: SubjectCatalog, tier: str | None) -> Kept:
        """The value of a tier's view, of the default tier with None. Raises Problem."""
        view = seen.view(tier)
        if self._snapshot is not seen.snapshot:
            self._snapshot = seen.snapshot
            self._items = OrderedDict()
        item = self._items.get(id(view))  # unique: the value holds its view
        if item is None:
            item = self._items[id(view)] = self._make(view, seen.snapshot)
            if len(self._items) > self._most:
                self._items.popitem(last=False)
        else:
            self._items.move_to_end(id(view))
        return item


class SubjectCatalogs:
    """Catalogs of all subjects: the served tools that their policies allow. One per gateway."""

    def __init__(self, selection: Callable[[], Selection], view_builds: ViewBuilds, patience: StartupWait) -> None:
        self._selection = selection
        self._view_builds = view_builds
        self._views = KeptByView(VisibleTools, MAX_KEPT_VIEWS)
        self.patience = patience
        """Wait for servers that start."""

    async def prepare(self, identity: Identity) -> None:
        """Build the merged view of an identity in slices, so that no request holds up the event loop for it."""
        await self._view_builds.ready(self._selection(), identity, MERGED)

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
        return entry is not None and is_starting(self._selection(), entry.key)
