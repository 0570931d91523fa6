"""Catalog of one subject: the servers and tools that its policies allow. REST resources read only this catalog.

`SubjectCatalogs` makes a `SubjectCatalog` for each request, from the identity that the guard authenticated, and waits
for servers that are starting.
"""

from __future__ import annotations

import contextlib
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
from fairlead_offers.catalogs.visible_tools import MAX_CACHED_VIEWS, VisibleTools
from fairlead_offers.problems import UNKNOWN_SERVER, UNKNOWN_TIER, UNKNOWN_TOOL, Problem, unready_problem

PAUSE: Final = 5e-5
"""Seconds between two slices of building a view, in which the event loop can serve calls."""
POLICY: Final = "policy"
"""`Choice.rule` of a choice whose tier was replaced by a faster one, because policies do not allow the chosen tier."""
Result = TypeVar("Result")


class SubjectCatalog:
    """Servers, tools and policy decisions that one subject may see."""

    __slots__ = ("_floors", "_selection", "_views", "identity")

    def __init__(self, selection: Selection, identity: Identity) -> None:
        self.identity = identity
        self._selection = selection
        self._views: Mapping[bytes, View] = selection.seen_by(identity)
        self._floors: Floors | None = None

    @property
    def snapshot(self) -> Snapshot:
        """Snapshot with everything that is served. The subject may see only what is in one of its views."""
        return self._selection.snapshot

    @property
    def views(self) -> Mapping[bytes, View]:
        """Views of the subject by request target, such as `/mcp`. Subjects that may see the same tools share one
        mapping, so that its `id` identifies what they see.
        """
        return self._views

    @property
    def whole(self) -> bool:
        """Whether policies hide nothing from this subject."""
        return self._views is self._selection.targets

    @property
    def tiers(self) -> tuple[str, ...]:
        """Names of the subject's tiers."""
        return tuple(tier for tier in self.snapshot.tiers if in_tier(MERGED, tier) in self._views)

    def view(self, tier: str | None) -> View:
        """Merged view of a tier; None stands for the default tier. Must not be called in the event loop. Raises
        Problem.
        """
        target = MERGED if tier is None else in_tier(MERGED, tier)
        for _ in self._selection.views_of(self.identity).build_in_slices(target) if not self.whole else ():
            time.sleep(PAUSE)
        view = self._views.get(target)
        if view is None:
            raise Problem(UNKNOWN_TIER, f"you have no latency tier {str(tier)[:64]!r}", existing=self.tiers)
        return view

    def built_view(self, tier: str | None) -> View | None:
        """Merged view of a tier if it is built already, else None. May be called in the event loop."""
        target = MERGED if tier is None else in_tier(MERGED, tier)
        return self._views.get(target) if self._selection.is_built(self.identity, target) else None

    @property
    def default_tier(self) -> str | None:
        """Tier of requests of the subject that name no tier; None if there is no default tier, or if servers have
        different default tiers.
        """
        if self.whole:
            return next((tier.name for tier in self.snapshot.rules.tiers if tier.default), None)
        return self._selection.views_of(self.identity).default_tier

    def floor(self, tool: Tool) -> Floor | None:
        """Fastest tier that may show a tool to this subject; None: every tier may."""
        floors = self._floors = self._floors or Floors(self.snapshot.rules.tiers)
        rules = None if self.whole else self._selection.views_of(self.identity).rules
        return slower(floors.of(tool), rules.floors.get(tool.ref) if rules is not None else None)

    def decision(self, server: ServerKey, tool: str) -> Decision:
        """Decision about an existing tool, whether visible to the subject or not. Must not be called in the event
        loop.
        """
        return decide(self._selection.policies, self._selection.views_of(self.identity).rules, server, tool)

    def denial(self, view: View, name: str) -> Denial | None:
        """Decision that denies the subject a tool; None if no policy denies it. `name`: a name that `view` does not
        have. Must not be called in the event loop.
        """
        return denial(self._selection, self.identity, view, name)

    def server_view(self, key: ServerKey) -> View | None:
        """View of one server; None if the subject may not see the server."""
        return self._views.get(server_target(key))

    def unready_server(self, problem: Problem) -> ServerEntry | None:
        """The unready server (it has no catalog yet) that explains a problem about an unknown server or tool: it is the
        server in question, or may have the tool in question. None for other problems.
        """
        name, code = problem.missing_name, problem.document.code
        if code == UNKNOWN_TOOL and name:
            return self.unready_of_tool(name)
        return unready_by_name(self._selection, self.identity, name) if code == UNKNOWN_SERVER and name else None

    def unready_of_tool(self, name: str) -> ServerEntry | None:
        """The unready server (it has no catalog yet) that may have a tool; None if there is no such server. `name`:
        exposed name of the tool, its id, or `[namespace/]server/tool`.
        """
        server = name.rpartition("/")[0]
        entry = unready_by_tool(self._selection, self.identity, name)
        return entry or (unready_by_name(self._selection, self.identity, server) if server else None)

    def unready_servers(self) -> list[ServerEntry]:
        """Servers that the subject may see and that have no catalog yet, sorted by key."""
        return sorted(unready_for(self._selection, self.identity), key=attrgetter("key"))

    def servers(self) -> list[Server]:
        """Servers that the subject may see, in the order of the snapshot."""
        return [server for key, server in self.snapshot.servers.items() if server_target(key) in self._views]


def limit_tier(choice: Choice, catalog: SubjectCatalog) -> Choice:
    """Limit the tier of a choice to the slowest tier that the subject's policies allow. Raises Problem if they allow
    none.
    """
    allowed_tiers = catalog.tiers
    if choice.tier in allowed_tiers:
        return choice
    if not allowed_tiers:
        raise Problem(UNKNOWN_TIER, "you may use no latency tier: ask for a ToolPolicy that shows you one")
    slowest_tier = [tier for tier in by_speed(catalog.snapshot.rules.tiers) if tier.name in allowed_tiers][-1]
    return msgspec.structs.replace(
        choice, tier=slowest_tier.name, rule=POLICY, matched=None, limit_ms=slowest_tier.max_latency_ms
    )


class HasView(Protocol):
    """Value that was made from a view and holds a reference to it, such as the compiled tools of the view."""

    @property
    def view(self) -> View: ...


Cached = TypeVar("Cached", bound=HasView)


class ViewCache(Generic[Cached]):
    """Cache of values that are made from views of the served snapshot, with least-recently-used eviction. Only the
    worker thread may use it, except for `find_cached`.
    """

    def __init__(self, make: Callable[[View, Snapshot], Cached], max_values: int) -> None:
        """`make`: makes the value of a view. `max_values`: size of the cache."""
        self._make = make
        self._max_values = max_values
        self._snapshot: Snapshot | None = None
        self._items: OrderedDict[int, Cached] = OrderedDict()

    def get(self, catalog: SubjectCatalog, tier: str | None) -> Cached:
        """Return the value for a tier's view; None stands for the default tier. Raises Problem."""
        view = catalog.view(tier)
        if self._snapshot is not catalog.snapshot:
            self._items = OrderedDict()  # first, so that `find_cached` never finds items of another snapshot
            self._snapshot = catalog.snapshot
        item = self._items.get(id(view))  # no other view can get this id, because the cached value keeps the view alive
        if item is None:
            item = self._items[id(view)] = self._make(view, catalog.snapshot)
            if len(self._items) > self._max_values:
                self._items.popitem(last=False)
        else:
            self._items.move_to_end(id(view))
        return item

    def find_cached(self, catalog: SubjectCatalog, tier: str | None) -> Cached | None:
        """Value for a tier's view if it is made already, else None. For the event loop."""
        if self._snapshot is not catalog.snapshot:
            return None
        view, items = catalog.built_view(tier), self._items
        item = items.get(id(view))
        if item is not None:
            with contextlib.suppress(KeyError):  # the worker thread has just evicted it
                items.move_to_end(id(view))
        return item


class SubjectCatalogs:
    """Makes the catalogs of subjects. Each gateway has one instance."""

    def __init__(self, selection: Callable[[], Selection], view_builds: ViewBuilds, startup_wait: StartupWait) -> None:
        self._selection = selection
        self._view_builds = view_builds
        self._visible_tools = ViewCache(VisibleTools, MAX_CACHED_VIEWS)
        self.startup_wait = startup_wait
        """Lets requests wait for servers that are starting, up to a limit."""

    async def prepare(self, identity: Identity) -> None:
        """Build the view of `/mcp` for an identity in slices, so that the build does not block the event loop."""
        await self._view_builds.wait_until_built(self._selection(), identity, MERGED)

    def seen_by(self, identity: Identity) -> SubjectCatalog:
        """Catalog that an identity may see."""
        return SubjectCatalog(self._selection(), identity)

    def visible_tools(self, catalog: SubjectCatalog, tier: str | None) -> VisibleTools:
        """Visible tools of a tier; None stands for the default tier. Must be called in the worker thread. Raises
        Problem.
        """
        return self._visible_tools.get(catalog, tier)

    def find_visible_tools(self, catalog: SubjectCatalog, tier: str | None) -> VisibleTools | None:
        """Like `visible_tools`, but None if they are not made yet. For the event loop."""
        return self._visible_tools.find_cached(catalog, tier)

    async def when_ready(
        self, identity: Identity, agent: str, work: Callable[[SubjectCatalog], Awaitable[Result]]
    ) -> Result:
        """Run `work` with a subject's catalog. If `work` fails because of an unknown tool or server that a starting
        server may explain, wait for the starting server and run `work` again. Raises Problem: STARTING if the wait
        times out, CONNECTION_LOST if the server failed.
        """
        end = time.monotonic() + self.startup_wait.seconds
        while True:
            catalog = self.seen_by(identity)
            try:
                return await work(catalog)
            except Problem as problem:
                entry = catalog.unready_server(problem)
                if entry is None:
                    raise
                if not self.starts(entry):
                    raise unready_problem(refusal_of(entry, starts=False)) from problem
                if not await self.startup_wait.wait(entry.key, end - time.monotonic(), agent):
                    raise unready_problem(refusal_of(entry, starts=True)) from problem

    def starts(self, entry: ServerEntry | None) -> bool:
        """Whether a server is starting and has no catalog yet. False for None."""
        return entry is not None and is_starting(self._selection(), entry.key)
