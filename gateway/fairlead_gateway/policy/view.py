"""Views: the tools that one subject can list and call at one request target, and the table of all views.

Pure module. One object answers `tools/list` and resolves `tools/call`, so a tool that is not listed cannot be called.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from fairlead_api.meta import ServerKey
from fairlead_formats.names import SEPARATOR, suggest_name
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.core.route import Route
from fairlead_gateway.policy import app_tools
from fairlead_gateway.policy.app_tools import names_for_apps
from fairlead_gateway.policy.hidden_tools_notice import HiddenTools, member_of, notice, refusal_message
from fairlead_gateway.policy.resource_index import ResourceIndex
from fairlead_gateway.policy.tiers import Hidden
from fairlead_gateway.policy.tool_ids import (
    ID,
    MAX_ID,
    ByServer,
    ambiguity_message,
    by_former_name,
    by_own_name,
    by_server,
    find_named,
)
from fairlead_gateway.policy.tool_list import ToolList
from fairlead_tools.refusal import OVER_BUDGET, Refusal

if TYPE_CHECKING:
    from fairlead_gateway.policy.subject_views import SubjectViews

MERGED: Final = b"/mcp"
"""Request target of the merged endpoint without a tier; the target of a tier is this path with its name appended."""
MAX_COMPARED_NAMES: Final = 200
"""Maximum number of names that are compared with a wrong name, to suggest the name that was probably meant."""
COMMON_CHARACTERS: Final = 3
"""Number of leading characters that a suggested name shares with the wrong name in a view with more than
`MAX_COMPARED_NAMES` tools.
"""


@dataclass(frozen=True, kw_only=True)
class ViewTools:
    """Tools of a view by the names that it lists; `View` documents the attributes."""

    routes: dict[str, Route]
    everything: Mapping[str, Route]
    hidden: Mapping[str, Hidden]
    pinned: frozenset[str]
    why_denied: Callable[[str], str | None]
    lists_reader: bool


@dataclass(frozen=True, kw_only=True)
class ViewTarget:
    """Request target of a view, with the `serverInfo` and instructions of its endpoint; `View` documents the
    attributes.
    """

    base: bytes
    tier: str | None
    server_info: bytes | None
    instructions: Callable[[], str | None]
    full_view: View | None = None


class View:
    """The tools that one request target shows, by listed name, sorted by name."""

    __slots__ = (
        "_hidden_member",
        "_instructions",
        "_listing",
        "_names_by_former_name",
        "_names_by_server",
        "_names_by_server_name",
        "_names_for_apps",
        "base",
        "escaped_servers",
        "everything",
        "full_view",
        "hidden",
        "lists_reader",
        "pinned",
        "resources",
        "routes",
        "server_info",
        "tier",
        "why_denied",
    )

    def __init__(
        self,
        tools: ViewTools,
        listing: ToolList,
        resources: ResourceIndex,
        target: ViewTarget,
        escaped_servers: frozenset[ServerKey],
    ) -> None:
        self.base = target.base
        """Request target of the view's endpoint without a tier."""
        self.tier = target.tier
        """The latency tier that selected the tools; None without a tier, or if different tiers apply to the servers."""
        self.hidden = tools.hidden
        """Tools that the tier or a limit on lists hides. Tools that a policy denies are not included."""
        self.everything = tools.everything
        """Routes of shown and hidden tools."""
        self.resources = resources
        """Prompts, resources and templates."""
        self.routes = tools.routes  # a dict: a look-up in any other Mapping takes five times as long
        self.server_info = target.server_info
        """Raw `serverInfo` of the view's only server; None if the gateway sends its own `serverInfo`."""
        self._instructions = cache(target.instructions)
        self.pinned = tools.pinned
        """Tools that limits on the length of lists never cut."""
        self.why_denied = tools.why_denied
        """Returns why policies deny a tool by name; None if the tool is unknown or the reason must not be disclosed."""
        self.escaped_servers = escaped_servers
        """Servers whose texts are shown with control characters escaped."""
        self.full_view = target.full_view
        """For the router endpoint, the view with all tools that the router can find and call; None for any other
        endpoint."""
        self.lists_reader = tools.lists_reader
        """Whether the list includes `read_result`, because a tool or a policy limits the tokens of results."""
        self._listing = listing
        self._hidden_member: bytes | None = None
        self._names_by_server_name: dict[ServerKey, dict[str, str]] | None = None
        self._names_by_server: ByServer | None = None
        self._names_by_former_name: dict[str, str] | None = None
        self._names_for_apps: dict[str, list[str]] | None = None

    def find_unlisted(self, name: str, now: float) -> Route | None:
        """Route of a hidden tool; None if the view hides no tool called `name`. `now` is the time of the gateway's
        clock. In a grace period the tool can still be called, because clients may have an older list. After the grace
        period the route refuses calls and says which tier lists the tool.
        """
        hidden = self.hidden.get(name)
        if hidden is None:
            return None
        route = self.everything[name]
        if now < hidden.callable_until:
            return route
        return route.with_refusal(Refusal(OVER_BUDGET, refusal_message(name, hidden, self.base)))

    def find_by_id(self, name: str, now: float) -> Route | str | None:
        """Route of a shown or hidden tool by its id, `mcp.{server}.{tool}`; None if no tool has the id. A string
        explains why an id is ambiguous. `now` is the time of the gateway's clock.
        """
        if not name.startswith(ID) or len(name) > MAX_ID:
            return None
        if self._names_by_server is None:
            self._names_by_server = by_server(self.everything)
        listed_names, servers = find_named(self._names_by_server, name.removeprefix(ID))
        if not listed_names:
            return None
        if len(servers) > 1:
            return ambiguity_message(name, servers, listed_names)
        return self.routes.get(listed_names[0]) or self.find_unlisted(listed_names[0], now)

    def find_for_app(self, name: str, now: float) -> Route | str | None:
        """Route of a tool by its unprefixed name, which the MCP app of its server uses; None if no server with an app
        has such a tool. A string explains why a name is ambiguous. `now` is the time of the gateway's clock.
        """
        if self._names_for_apps is None:
            self._names_for_apps = names_for_apps(self.everything)
        listed_names = self._names_for_apps.get(name)
        if listed_names is None:
            return None
        if len(listed_names) > 1:
            return app_tools.ambiguity_message(name, listed_names)
        return self.routes.get(listed_names[0]) or self.find_unlisted(listed_names[0], now)

    def why_manual(self, name: str) -> str:
        """Why policies do not let the LLM tool loop run a shown or hidden tool automatically; empty if they allow
        it.
        """
        route = self.everything.get(name)
        return "" if route is None else route.manual

    def tool_of(self, server: ServerKey, tool: str) -> Route | None:
        """Route of a shown or hidden tool, by its server and its name at the server; None if policies deny the tool."""
        if self._names_by_server_name is None:
            self._names_by_server_name = by_own_name(self.everything)
        listed_name = self._names_by_server_name.get(server, {}).get(tool)
        return None if listed_name is None else self.everything[listed_name]

    def find_renamed(self, name: str) -> str | None:
        """Listed name of a shown or hidden tool that clients see under another name (`as` in `spec.tools`). `name` is
        its name at the server, or the id that it would have without `as`. None for any other name.
        """
        if self._names_by_former_name is None:
            self._names_by_former_name = by_former_name(self.everything)
        return self._names_by_former_name.get(name)

    def nearest(self, name: str) -> str | None:
        """The shown tool that a wrong name probably means. In a view with more than `MAX_COMPARED_NAMES` tools, the
        search is limited to about 2 ms: only names that begin like the wrong name are compared, with or without the
        prefix.
        """
        if len(self.routes) <= MAX_COMPARED_NAMES:
            return suggest_name(name, self.routes)
        start, names = name[:COMMON_CHARACTERS].casefold(), []
        after_separator = SEPARATOR + (name.partition(SEPARATOR)[2] or name)[:COMMON_CHARACTERS]
        for exposed in self.routes:
            if after_separator in exposed or exposed[:COMMON_CHARACTERS].casefold() == start:
                names.append(exposed)
                if len(names) == MAX_COMPARED_NAMES:
                    break
        return suggest_name(name, names)

    @property
    def instructions(self) -> str | None:
        """`instructions` for the models of clients; None if no server has instructions. Joined at the first use."""
        return self._instructions()

    @property
    def listing(self) -> tuple[bytes, ...]:
        """Parts of `{"tools":[…]`, joined at the first use and never copied. The closing brace is missing, because each
        era adds its members.
        """
        return self._listing.read()

    @property
    def legacy_listing(self) -> tuple[bytes, ...]:
        """Parts of the tool list for clients of 2025-11-25 and before; see `listing`."""
        return self._listing.legacy.read()

    @property
    def parts(self) -> tuple[bytes, ...]:
        """Parts of the modern and the legacy list, each part once."""
        legacy = self._listing.legacy
        return self.listing if legacy is self._listing else (*self.listing, *legacy.read())

    @property
    def hidden_member(self) -> bytes:
        """`"fairlead.dev/hidden":{…}` for the `_meta` of the list; empty if no tool is hidden. Encoded at the first
        use.
        """
        if self._hidden_member is None:
            self._hidden_member = member_of(self.notice(self.hidden))
        return self._hidden_member

    def notice(self, names: Iterable[str]) -> HiddenTools | None:
        """Notice about those tools in `names` that the tier hides; None if the tier hides none of the tools."""
        return notice({name: self.hidden[name] for name in names}, self.base)

    @property
    def is_joined(self) -> bool:
        """Whether the tool list is already joined."""
        return self._listing.is_joined

    def prepare_in_slices(self) -> Generator[None, None, None]:
        """Join the tool list now."""
        if not self._listing.is_joined:
            yield from self._listing.join_in_slices()

    def lists_as(self, other: View) -> bool:
        """Whether both views list the same tools, byte for byte."""
        return self._listing is other._listing or self.listing == other.listing


def server_target(key: ServerKey) -> bytes:
    """Request target of the endpoint of one server, whose tool names have no prefix."""
    return f"/servers/{quote(key.namespace, safe='')}/{quote(key.name, safe='')}/mcp".encode()


class BuiltViews:
    """Table of the views of one `Selection` that are already built. Each request looks up its view in this table.

    This class is not a part of `Selection`: mypyc compiles it, for speed, and a compiled class cannot be referenced
    weakly, as `Selection` is. `targets` are the views of subjects without policies by request target; `enforced` says
    whether policies restrict anybody.
    """

    __slots__ = ("_enforced", "_targets", "views_by_subject")

    def __init__(self, targets: dict[bytes, View], *, enforced: bool) -> None:
        self._targets = targets
        self._enforced = enforced
        self.views_by_subject: dict[Identity, SubjectViews] = {}
        """Views by subject, for subjects whose rule set was already looked up. Other threads read this too."""

    def find(self, identity: Identity, target: bytes) -> View | None:
        """The view of a target; None if the view is not built yet or does not exist (see `Selection.is_built`)."""
        if not self._enforced:
            return self._targets.get(target)
        views = self.views_by_subject.get(identity)
        if views is None:
            return None
        views.is_used = True
        return views.views.get(target)
