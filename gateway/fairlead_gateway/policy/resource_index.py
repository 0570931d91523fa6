"""Prompts, resources, resource templates and skills of an endpoint: lists, capabilities, and the server of each.

Pure module. Lists are bytes that are put together at their first use.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Final, TypeAlias

import msgspec
from msgspec import Raw

from fairlead_api.documents.catalog import HttpEndpoint
from fairlead_api.meta import ServerKey
from fairlead_gateway.catalog.model import Snapshot
from fairlead_gateway.core.route import Route
from fairlead_gateway.core.server import Item, Server, ToolRef
from fairlead_gateway.core.server_binding import ServerBinding
from fairlead_gateway.policy.uri_templates import UriTemplate, uri_template
from fairlead_mcp import eras, jsonrpc, uris
from fairlead_mcp.capabilities import extension_settings
from fairlead_mcp.escaping import escape
from fairlead_mcp.methods import SKILLS, TASKS
from fairlead_mcp.skills import reads_directories, uris_of
from fairlead_mcp.uris import UriNames

Items: TypeAlias = Mapping[str, tuple[Server, Item]]
"""Items of servers by the name or URI that an endpoint has them under."""
Resolved = tuple[ServerBinding, str]
"""A server, and how it calls what is meant."""
_NONE: Final[Items] = MappingProxyType({})


class ResourceItems(msgspec.Struct, frozen=True):
    """Items of an endpoint that are not tools."""

    prompts: Items = _NONE
    resources: Items = _NONE
    templates: Items = _NONE
    skills: Items = _NONE

    def without(self, servers: Collection[ServerKey]) -> ResourceItems:
        """Those of all other servers."""

        def rest(items: Items) -> Items:
            return {name: held for name, held in items.items() if held[0].key not in servers}

        return ResourceItems(rest(self.prompts), rest(self.resources), rest(self.templates), rest(self.skills))


_NO_ITEMS: Final = ResourceItems()


class ResourceIndex:
    """Prompts, resources and templates of an endpoint. With `alone`, everything that is not listed is asked of that one
    server all the same: it may answer for URIs that it does not list.
    """

    def __init__(
        self,
        items: ResourceItems,
        reaches: Mapping[ServerKey, ServerBinding],
        *,
        servers: Iterable[Server],
        alone: ServerBinding | None = None,
        escaping: Collection[ServerKey] = frozenset(),
        unseen: Collection[ToolRef] = frozenset(),
    ) -> None:
        """`escaping`: servers whose control characters are made visible; `unseen`: tools that policies do not allow,
        and with them the user interfaces that no other tool names.
        """
        self.routes: dict[tuple[str, str | ServerKey], Route] = {}
        """Routes of listed targets, made with the first request for each; of completions, by server."""
        self._tasks: Raw | None = None
        """Settings of the extension for tasks, of an index that declares it beside those of its servers."""
        self._escaping = escaping
        self._prompts = items.prompts
        self._templates = items.templates
        self._skills = items.skills
        self._reaches = reaches
        self._servers = tuple(servers)
        self._alone = alone
        self._interfaces = {server.key: Interfaces(server, unseen) for server in self._servers if server.interfaces}
        self._resources = {
            uri: held for uri, held in items.resources.items() if not self._withheld(held[0].key, held[1].name)
        }
        self._items = msgspec.structs.replace(items, resources=self._resources)

    def without(
        self,
        servers: Collection[ServerKey],
        escaping: Collection[ServerKey] = frozenset(),
        unseen: Collection[ToolRef] = frozenset(),
    ) -> ResourceIndex:
        """The index without those of some servers and of some tools, and with the control characters of others made
        visible.
        """
        return ResourceIndex(
            self._items.without(servers),
            self._reaches,
            servers=[server for server in self._servers if server.key not in servers],
            alone=self._alone,
            escaping=escaping,
            unseen=unseen,
        )

    def tasks_alone(self) -> ResourceIndex:
        """An index of nothing, which declares tasks where this one does."""
        index = ResourceIndex(_NO_ITEMS, {}, servers=())
        index._tasks = self.extensions.get(TASKS)
        return index

    def withheld(self, unseen: Collection[ToolRef]) -> list[str]:
        """Marks of the user interfaces that go with tools that are not allowed: views with equal ones share theirs."""
        return [
            f"{server.key}\0{uri}"
            for server in self._servers
            if server.interfaces
            for uri in Interfaces(server, unseen).withheld
        ]

    def prompt(self, name: str) -> Resolved | None:
        """Who has the prompt that is shown under a name."""
        prompt = self._prompts.get(name)
        return None if prompt is None else self._resolve(*prompt)

    def resource(self, uri: str) -> Resolved | None:
        """Server that answers for a URI: the one that lists it, that has a template for it, or the only one."""
        resource = self._resources.get(uri)
        if resource is not None:
            return self._resolve(resource[0], resource[1])
        if self._alone is not None:
            return None if self._withheld(self._alone.server.key, uri) else (self._alone, uri)
        if uris.scheme_of(uri) in uris.SCHEMES:
            return self._of_part(uri) or self._of_owner(uri)
        of_skill = self._skill_files.get(uri)
        if of_skill is not None:
            return self._resolve(*of_skill, uri)
        for template, server, item in self._uri_templates:
            if template.matches(uri):
                return self._resolve(server, item, uri)
        return self._of_owner(uri)

    def skill(self, uri: str) -> Resolved | None:
        """Server that has a skill, by the URI of its `SKILL.md`, listed or not."""
        skill = self._skills.get(uri)
        return self.resource(uri) if skill is None else self._resolve(*skill)

    def lists(self, name: str) -> bool:
        """Whether a prompt, a resource or a skill is listed under a name; templates have none."""
        return name in self._prompts or name in self._resources or name in self._skills

    def names(self, server: ServerKey) -> UriNames | None:
        """Names that the URIs of a server have here; None where they are its own."""
        return None if self._alone is not None else self._names.get(server)

    def _of_part(self, uri: str) -> Resolved | None:
        """The server whose part a URI carries, whether it lists it or not."""
        parts = uris.split(uri)
        server = None if parts is None else self._by_part.get(parts[0])
        reach = None if server is None else self._reaches.get(server.key)
        if parts is None or server is None or reach is None or self._withheld(server.key, parts[1]):
            return None
        return reach, parts[1]

    def _of_owner(self, uri: str) -> Resolved | None:
        """The only server that has a URI by its own name: texts of servers do not know what it is called here."""
        owners = self._names_of_owners.get(uri) or self._owners_by_template(uri)
        owners = [server for server in owners if not self._withheld(server.key, uri)]
        reach = self._reaches.get(owners[0].key) if len(owners) == 1 else None
        return None if reach is None else (reach, uri)

    def _owners_by_template(self, uri: str) -> list[Server]:
        matching = (server for template, server in self._own_templates if template.matches(uri))
        return [*{server.key: server for server in matching}.values()]

    def _withheld(self, server: ServerKey, uri: str) -> bool:
        interfaces = self._interfaces.get(server)
        return interfaces is not None and interfaces.withholds(uri)

    @cached_property
    def _by_part(self) -> Mapping[str, Server]:
        return {server.catalog.prefix: server for server in self._servers if server.catalog.prefix}

    @cached_property
    def _names(self) -> Mapping[ServerKey, UriNames]:
        return {server.key: server.uris for server in self._servers if shows_uris(server)}

    @cached_property
    def _names_of_owners(self) -> Mapping[str, list[Server]]:
        """Servers by the URIs that they list, or that their tools and skills name."""
        owners: dict[str, list[Server]] = {}
        for server in self._servers:
            listed = {item.name for item in server.offered.resources}
            own = {uri for uri in listed.union(server.interfaces) if uris.scheme_of(uri) in uris.SCHEMES}
            for uri in own.union(*(uris_of(item.definition) for item in server.offered.skills)):
                owners.setdefault(uri, []).append(server)
        return owners

    def template(self, uri: str) -> Resolved | None:
        """Who has a template (or a resource), as `ref/resource` of a completion names it."""
        template = self._templates.get(uri)
        return self.resource(uri) if template is None else self._resolve(template[0], template[1])

    @cached_property
    def listings(self) -> Mapping[str, bytes]:
        """Method to `{"prompts":[…]`, open at the end for the members of either era."""
        merged = self._alone is None
        return {
            "prompts/list": self._listing(b"prompts", self._prompts, merged=merged),
            "resources/list": self._listing(b"resources", self._resources, merged=merged),
            "resources/templates/list": self._listing(b"resourceTemplates", self._templates, merged=merged),
            "skills/list": self._listing(b"skills", self._skills, merged=merged),
        }

    def escapes(self, server: ServerKey) -> bool:
        """Whether a server's control characters are made visible."""
        return server in self._escaping

    def _listing(self, member: bytes, items: Mapping[str, tuple[Server, Item]], *, merged: bool) -> bytes:
        shown = [(server, item.merged if merged else item.definition) for server, item in items.values()]
        told = [bytes(escape(raw)) if server.key in self._escaping else raw for server, raw in shown]
        return b'{"%b":[%b]' % (member, b",".join(told))

    @cached_property
    def features(self) -> frozenset[str]:
        """Capabilities of the servers behind: "prompts", "resources", "skills", "completions", "logging", and
        "resources.subscribe"; what a shared stream cannot pass on is left out.
        """
        features: set[str] = set()
        for server in self._servers:
            features |= _features(server)
        return frozenset(features)

    @cached_property
    def extensions(self) -> Mapping[str, Raw]:
        """Extensions of MCP that the servers behind declare: identifier to settings, raw JSON; `{}` where servers
        differ in them, but that directories can be read where one of them has any. Tasks are those of modern servers:
        a legacy one makes none (SEP-2663).
        """
        extensions: dict[str, Raw] = {} if self._tasks is None else {TASKS: self._tasks}
        for server in self._servers:
            modern = eras.era_of(server.catalog.protocol_version) is eras.Era.MODERN
            for name, settings in extension_settings(server.catalog.capabilities).items():
                if name == TASKS and not modern:
                    continue
                announced = extensions.setdefault(name, settings)
                if bytes(announced) != bytes(settings):
                    directories = name == SKILLS and (reads_directories(announced) or reads_directories(settings))
                    extensions[name] = Raw(b'{"directoryRead":true}' if directories else b"{}")
        return MappingProxyType(extensions)

    @cached_property
    def announcements(self) -> Mapping[tuple[ServerKey, str], str]:
        """Server and list ("tools", "prompts", "resources") to the time when it last announced a change."""
        return {(server.key, name): at for server in self._servers for name, at in server.catalog.announced.items()}

    @cached_property
    def _skill_files(self) -> Mapping[str, tuple[Server, Item]]:
        """Skills by those of their files that have no server's part."""
        return {uri: held for held in self._skills.values() for uri in held[1].files}

    @cached_property
    def _own_templates(self) -> list[tuple[UriTemplate, Server]]:
        return [
            (uri_template(item.name), server) for name, (server, item) in self._templates.items() if name != item.name
        ]

    @cached_property
    def _uri_templates(self) -> list[tuple[UriTemplate, Server, Item]]:
        return [(uri_template(name), server, item) for name, (server, item) in self._templates.items()]

    def _resolve(self, server: Server, item: Item, name: str | None = None) -> Resolved | None:
        reach = self._alone or self._reaches.get(server.key)
        return None if reach is None else (reach, item.name if name is None else name)


def merged_resources(snapshot: Snapshot, reaches: Mapping[ServerKey, ServerBinding]) -> ResourceIndex:
    """Index of the merged endpoints."""
    shown = [server for server in snapshot.servers.values() if server.catalog.prefix is not None]
    items = ResourceItems(snapshot.prompts, snapshot.resources, snapshot.templates, snapshot.skills)
    return ResourceIndex(items, reaches, servers=shown)


def server_resources(server: Server, reach: ServerBinding | None) -> ResourceIndex:
    """Index of the endpoint of one server."""
    offered = server.offered
    items = ResourceItems(
        {item.name: (server, item) for item in offered.prompts},
        {item.name: (server, item) for item in offered.resources},
        {item.name: (server, item) for item in offered.templates},
        {item.name: (server, item) for item in offered.skills},
    )
    return ResourceIndex(items, {}, servers=[server], alone=reach)


class Interfaces:
    """User interfaces of one server, as far as its tools are allowed: an interface goes with the tools that name it."""

    __slots__ = ("_allowed", "_listed", "withheld")

    def __init__(self, server: Server, unseen: Collection[ToolRef]) -> None:
        seen = {tool.name for tool in server.tools if tool.ref not in unseen}
        self._allowed = frozenset(uri for uri, naming in server.interfaces.items() if not seen.isdisjoint(naming))
        self.withheld = frozenset(server.interfaces) - self._allowed
        """Own URIs that only tools which are not allowed name."""
        self._listed = frozenset(item.name for item in server.offered.resources) if self.withheld else frozenset()

    def withholds(self, uri: str) -> bool:
        """Whether a resource is not to be read, by its own URI. Where any is withheld, a `ui://` URI that nobody
        names may be another spelling of it.
        """
        if not self.withheld or uri in self._allowed:
            return False
        return uri in self.withheld or (uris.scheme_of(uri) == "ui" and uri not in self._listed)


def shows_uris(server: Server) -> bool:
    """Whether a server has resources, so that its results may name them."""
    return bool(server.interfaces) or not _features(server).isdisjoint(("resources", "skills"))


def is_watchable(server: Server) -> bool:
    """Whether its resources can be subscribed to: on a stream of messages that many share nothing says which client an
    update is for.
    """
    return isinstance(server.catalog.endpoint, HttpEndpoint)


def passes_log_messages(server: Server) -> bool:
    """Whether its log messages reach clients: on a stream of messages that many share nothing says which client one is
    for.
    """
    return isinstance(server.catalog.endpoint, HttpEndpoint) or server.catalog.session == "PerClient"


def _features(server: Server) -> set[str]:
    try:
        declared = jsonrpc.decode_object(server.catalog.capabilities)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        declared = {}
    features: set[str] = {name for name in ("prompts", "resources", "completions") if name in declared}
    if "logging" in declared and passes_log_messages(server):
        features.add("logging")
    if SKILLS in extension_settings(server.catalog.capabilities):
        features.add("skills")
    if server.offered.prompts:
        features.add("prompts")
    if server.offered.resources or server.offered.templates:
        features.add("resources")
    if is_watchable(server) and _says_subscribe(declared.get("resources")):
        features.add("resources.subscribe")
    return features


def _says_subscribe(capability: Raw | None) -> bool:
    if capability is None:
        return False
    try:
        return bytes(jsonrpc.decode_object(capability).get("subscribe", b"")) == b"true"
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


NOTHING: Final = ResourceIndex(_NO_ITEMS, {}, servers=())
