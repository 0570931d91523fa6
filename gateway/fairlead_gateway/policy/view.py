"""The view of one subject at one request target: the tools that are listed there, which are those that can be called;
and the table that each request finds its view in.

Pure module. The very object answers `tools/list` and resolves `tools/call`, so that a tool which is not listed cannot
be called.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from fairlead_api.meta import ServerKey
from fairlead_formats.names import SEPARATOR, did_you_mean
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.core.route import Route
from fairlead_gateway.policy import app_tools
from fairlead_gateway.policy.app_tools import for_apps
from fairlead_gateway.policy.hidden_tools_notice import HiddenTools, member_of, notice, over_budget
from fairlead_gateway.policy.resource_index import ResourceIndex
from fairlead_gateway.policy.tiers import Hidden
from fairlead_gateway.policy.tool_ids import ID, MAX_ID, ByServer, ambiguous, by_server, find_named
from fairlead_gateway.policy.tool_list import ToolList
from fairlead_tools.refusal import OVER_BUDGET, Refusal

if TYPE_CHECKING:
    from fairlead_gateway.policy.subject_views import SubjectViews

MERGED: Final = b"/mcp"
"""Target without a tier; each tier has its own below it."""
NEAR: Final = 200
"""Names that a suggestion looks at."""
NEAR_START: Final = 3
"""Characters."""


@dataclass(frozen=True, kw_only=True)
class ViewTools:
    """Tools of a view, by the names that it shows them under; the attributes are those of `View`."""

    routes: dict[str, Route]
    everything: Mapping[str, Route]
    hidden: Mapping[str, Hidden]
    pinned: frozenset[str]
    denied: Callable[[str], str | None]
    reads: bool


@dataclass(frozen=True, kw_only=True)
class ViewTarget:
    """Request target of a view, and how it introduces itself; the attributes are those of `View`."""

    base: bytes
    tier: str | None
    server_info: bytes | None
    instructions: Callable[[], str | None]
    behind: View | None = None


class View:
    """The tools that one target shows, by the names it shows them under, in the order of the names."""

    __slots__ = (
        "_by_server",
        "_for_apps",
        "_hidden_member",
        "_instructions",
        "_listing",
        "base",
        "behind",
        "denied",
        "escaping",
        "everything",
        "hidden",
        "offers",
        "pinned",
        "reads",
        "routes",
        "server_info",
        "tier",
    )

    def __init__(
        self,
        tools: ViewTools,
        listing: ToolList,
        offers: ResourceIndex,
        target: ViewTarget,
        escaping: frozenset[ServerKey],
    ) -> None:
        self.base = target.base
        """Target of the endpoint that this is a view of; those of its tiers stand below it."""
        self.tier = target.tier
        """The latency tier that chose the tools; None where none did, or different ones for different servers."""
        self.hidden = tools.hidden
        """Tools that the tier, or a limit on lists, does not show. What a policy denies is not among them."""
        self.everything = tools.everything
        """Routes of shown and hidden tools."""
        self.offers = offers
        """Prompts, resources and templates."""
        self.routes = tools.routes  # a dict, as the look-up of any other Mapping costs five times as much
        self.server_info = target.server_info
        """Raw `serverInfo` of the one server behind the view; None where the gateway speaks for itself."""
        self._instructions = cache(target.instructions)
        self.pinned = tools.pinned
        """Tools that no budget cuts."""
        self.denied = tools.denied
        """Why a tool is kept from the subject, by name; None where it is unknown, or is not to be known."""
        self.escaping = escaping
        """Servers whose control characters are made visible here."""
        self.behind = target.behind
        """View of everything that the router endpoint finds and calls; None for any other endpoint."""
        self.reads = tools.reads
        """Whether it lists `read_result`, since a tool or a policy bounds the tokens of results."""
        self._listing = listing
        self._hidden_member: bytes | None = None
        self._by_server: ByServer | None = None
        self._for_apps: dict[str, list[str]] | None = None

    def find_unlisted(self, name: str, now: float) -> Route | None:
        """Where a tool is called that is hidden: for a while as ever, for clients may hold a list of before; then
        nowhere, and it says which tier has it. None: there is no such tool. `now`: the gateway's clock.
        """
        hidden = self.hidden.get(name)
        if hidden is None:
            return None
        route = self.everything[name]
        if now < hidden.callable_until:
            return route
        return route.refusing(Refusal(OVER_BUDGET, over_budget(name, hidden, self.base)))

    def find_by_id(self, name: str, now: float) -> Route | str | None:
        """Route of a tool by its id, `mcp.{server}.{tool}`; why there is none, where several servers have that
        name; None where nothing that is shown or hidden here has it. `now`: the gateway's clock.
        """
        if not name.startswith(ID) or len(name) > MAX_ID:
            return None
        if self._by_server is None:
            self._by_server = by_server(self.everything)
        shown, servers = find_named(self._by_server, name.removeprefix(ID))
        if not shown:
            return None
        if len(servers) > 1:
            return ambiguous(name, servers, shown)
        return self.routes.get(shown[0]) or self.find_unlisted(shown[0], now)

    def find_for_app(self, name: str, now: float) -> Route | str | None:
        """Route of a tool by the name that the app of its server calls it by; why there is none, where the apps of
        several servers may mean it; None where none does. `now`: the gateway's clock.
        """
        if self._for_apps is None:
            self._for_apps = for_apps(self.everything)
        shown = self._for_apps.get(name)
        if shown is None:
            return None
        if len(shown) > 1:
            return app_tools.ambiguous(name, shown)
        return self.routes.get(shown[0]) or self.find_unlisted(shown[0], now)

    def manual(self, name: str) -> str:
        """Why policies let no loop of model and tools run a shown or hidden tool by itself; empty where one may."""
        route = self.everything.get(name)
        return "" if route is None else route.manual

    def tool_of(self, server: ServerKey, tool: str) -> Route | None:
        """Route of a tool of a server by its own name, shown or hidden; None where the subject may not see it."""
        if self._by_server is None:
            self._by_server = by_server(self.everything)
        shown = self._by_server.get(server.name, {}).get(server, {}).get(tool)
        return None if shown is None else self.everything[shown]

    def nearest(self, name: str) -> str | None:
        """The tool that a wrong name was probably meant to be; only ever one that is shown here. Among many, only those
        are looked at whose name, or own name behind the prefix, has the same beginning, so that a wrong name costs no
        more than a millisecond or two.
        """
        if len(self.routes) <= NEAR:
            return did_you_mean(name, self.routes)
        start, names = name[:NEAR_START].casefold(), []
        behind = SEPARATOR + (name.partition(SEPARATOR)[2] or name)[:NEAR_START]
        for exposed in self.routes:
            if behind in exposed or exposed[:NEAR_START].casefold() == start:
                names.append(exposed)
                if len(names) == NEAR:
                    break
        return did_you_mean(name, names)

    @property
    def instructions(self) -> str | None:
        """For the models of clients; None where no server says anything. Put together at the first use."""
        return self._instructions()

    @property
    def listing(self) -> tuple[bytes, ...]:
        """`{"tools":[…]`, open at the end for the members of either era; in parts, put together at the first use and
        never copied.
        """
        return self._listing.read()

    @property
    def legacy_listing(self) -> tuple[bytes, ...]:
        """As `listing`, for clients of 2025-11-25 and before."""
        return self._listing.legacy.read()

    @property
    def parts(self) -> tuple[bytes, ...]:
        """Parts of all its lists, each once."""
        legacy = self._listing.legacy
        return self.listing if legacy is self._listing else (*self.listing, *legacy.read())

    @property
    def hidden_member(self) -> bytes:
        """`"fairlead.dev/hidden":{…}` for the `_meta` of the list; empty where nothing is hidden. Encoded once: the
        bytes stay as long as the view.
        """
        if self._hidden_member is None:
            self._hidden_member = member_of(self.notice(self.hidden))
        return self._hidden_member

    def notice(self, names: Iterable[str]) -> HiddenTools | None:
        """How many of these hidden tools a tier hides, and why; None where it hides none."""
        return notice({name: self.hidden[name] for name in names}, self.base)

    @property
    def listed(self) -> bool:
        """Whether its list was put together."""
        return self._listing.ready

    def prepare_in_slices(self) -> Generator[None, None, None]:
        """Put its list together now."""
        if not self._listing.ready:
            yield from self._listing.join_in_slices()

    def lists_as(self, other: View) -> bool:
        """Whether both list the same tools, byte for byte."""
        return self._listing is other._listing or self.listing == other.listing


def server_target(key: ServerKey) -> bytes:
    """Target of the endpoint that shows one server alone, its tools unprefixed."""
    return f"/servers/{quote(key.namespace, safe='')}/{quote(key.name, safe='')}/mcp".encode()


class KnownViews:
    """The views of one selection that were put together before, which every request looks up.

    Apart from the selection, which is held weakly: nothing compiled can be. `targets` are the views of subjects of whom
    no policy speaks, by request target; `enforced`: whether any policy speaks of anybody.
    """

    __slots__ = ("_enforced", "_targets", "of_subject")

    def __init__(self, targets: dict[bytes, View], *, enforced: bool) -> None:
        self._targets = targets
        self._enforced = enforced
        self.of_subject: dict[Identity, SubjectViews] = {}
        """Views by subject, for those whose rule set is known. Another thread may look here too."""

    def find(self, identity: Identity, target: bytes) -> View | None:
        """The view of a target; None where it was not put together before or does not exist: see `Selection.ready`."""
        if not self._enforced:
            return self._targets.get(target)
        views = self.of_subject.get(identity)
        if views is None:
            return None
        views.is_used = True
        return views.views.get(target)
