"""Prompts, resources, resource templates and skills of an endpoint: lists, capabilities, and the server of each item.

Pure module. The lists of an endpoint are JSON bytes that are joined at the first use.
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
"""Items by the name or URI under which an endpoint lists them, each with its server."""
ResolvedItem = tuple[ServerBinding, str]
"""A server, and the server's own name or URI of the item."""
_NONE: Final[Items] = MappingProxyType({})


class ResourceItems(msgspec.Struct, frozen=True):
    """Prompts, resources, templates and skills of an endpoint."""

    prompts: Items = _NONE
    resources: Items = _NONE
    templates: Items = _NONE
    skills: Items = _NONE

    def without(self, servers: Collection[ServerKey]) -> ResourceItems:
        """The items of all servers except `servers`."""

        def without_servers(items: Items) -> Items:
            return {name: item for name, item in items.items() if item[0].key not in servers}

        return ResourceItems(
            without_servers(self.prompts),
            without_servers(self.resources),
            without_servers(self.templates),
            without_servers(self.skills),
        )


_NO_ITEMS: Final = ResourceItems()


class ResourceIndex:
    """Prompts, resources and templates of an endpoint. `only_server` is set for the endpoint of a single server; then
    requests for unlisted names and URIs go to this server too, because it may serve URIs that it does not list.
    """

    def __init__(
        self,
        items: ResourceItems,
        bindings: Mapping[ServerKey, ServerBinding],
        *,
        servers: Iterable[Server],
        only_server: ServerBinding | None = None,
        escaped_servers: Collection[ServerKey] = frozenset(),
        denied_tools: Collection[ToolRef] = frozenset(),
    ) -> None:
        """Create the index. `escaped_servers`: servers whose control characters are escaped. User interfaces that only
        `denied_tools` reference are withheld.
        """
        self.routes: dict[tuple[str, str | ServerKey], Route] = {}
        """Routes by method and name or URI, created at the first request. Routes of completions are stored by
        server.
        """
        self._tasks: Raw | None = None
        """Settings of the tasks extension, if this index declares the extension without having servers."""
        self._escaped_servers = escaped_servers
        self._prompts = items.prompts
        self._templates = items.templates
        self._skills = items.skills
        self._bindings = bindings
        self._servers = tuple(servers)
        self._only_server = only_server
        self._interfaces = {
            server.key: UserInterfaces(server, denied_tools) for server in self._servers if server.interfaces
        }
        self._resources = {
            uri: item for uri, item in items.resources.items() if not self._is_withheld(item[0].key, item[1].name)
        }
        self._items = msgspec.structs.replace(items, resources=self._resources)

    def without(
        self,
        servers: Collection[ServerKey],
        escaped_servers: Collection[ServerKey] = frozenset(),
        denied_tools: Collection[ToolRef] = frozenset(),
    ) -> ResourceIndex:
        """A copy of the index without the items of `servers` and the user interfaces of `denied_tools`, in which the
        control characters of the servers in `escaped_servers` are escaped.
        """
        return ResourceIndex(
            self._items.without(servers),
            self._bindings,
            servers=[server for server in self._servers if server.key not in servers],
            only_server=self._only_server,
            escaped_servers=escaped_servers,
            denied_tools=denied_tools,
        )

    def tasks_only(self) -> ResourceIndex:
        """An index without items that declares the tasks extension if this index does."""
        index = ResourceIndex(_NO_ITEMS, {}, servers=())
        index._tasks = self.extensions.get(TASKS)
        return index

    def withheld_keys(self, denied_tools: Collection[ToolRef]) -> list[str]:
        """Keys of the user interfaces that are withheld because policies deny their tools. Views with equal keys share
        one index.
        """
        return [
            f"{server.key}\0{uri}"
            for server in self._servers
            if server.interfaces
            for uri in UserInterfaces(server, denied_tools).withheld_uris
        ]

    def prompt(self, name: str) -> ResolvedItem | None:
        """Server of the prompt that is listed under a name, and the server's own name of the prompt."""
        prompt = self._prompts.get(name)
        return None if prompt is None else self._resolve(*prompt)

    def resource(self, uri: str) -> ResolvedItem | None:
        """Server that serves a URI: the server that lists the URI, the only server of the endpoint, or a server with a
        matching template.
        """
        resource = self._resources.get(uri)
        if resource is not None:
            return self._resolve(resource[0], resource[1])
        if self._only_server is not None:
            return None if self._is_withheld(self._only_server.server.key, uri) else (self._only_server, uri)
        if uris.scheme_of(uri) in uris.SCHEMES:
            return self._resolve_prefixed(uri) or self._resolve_owner(uri)
        skill = self._skill_files.get(uri)
        if skill is not None:
            return self._resolve(*skill, uri)
        for template, server, item in self._uri_templates:
            if template.matches(uri):
                return self._resolve(server, item, uri)
        return self._resolve_owner(uri)

    def skill(self, uri: str) -> ResolvedItem | None:
        """Server of a skill by the URI of its `SKILL.md`; the skill may be unlisted."""
        skill = self._skills.get(uri)
        return self.resource(uri) if skill is None else self._resolve(*skill)

    def lists(self, name: str) -> bool:
        """Whether a prompt, resource or skill is listed under a name or URI. Templates are ignored."""
        return name in self._prompts or name in self._resources or name in self._skills

    def uri_names(self, server: ServerKey) -> UriNames | None:
        """Renaming of a server's URIs at this endpoint; None if the endpoint shows the server's own URIs."""
        return None if self._only_server is not None else self._uri_names.get(server)

    def _resolve_prefixed(self, uri: str) -> ResolvedItem | None:
        """The server whose prefix is in a URI, whether or not the server lists the URI."""
        parts = uris.split(uri)
        server = None if parts is None else self._servers_by_prefix.get(parts[0])
        binding = None if server is None else self._bindings.get(server.key)
        if parts is None or server is None or binding is None or self._is_withheld(server.key, parts[1]):
            return None
        return binding, parts[1]

    def _resolve_owner(self, uri: str) -> ResolvedItem | None:
        """The server that has a URI without a prefix; None if several servers have it. Models read such URIs in the
        texts of servers, because servers do not know the prefixes of this gateway.
        """
        owners = self._owners_by_uri.get(uri) or self._owners_by_template(uri)
        owners = [server for server in owners if not self._is_withheld(server.key, uri)]
        binding = self._bindings.get(owners[0].key) if len(owners) == 1 else None
        return None if binding is None else (binding, uri)

    def _owners_by_template(self, uri: str) -> list[Server]:
        servers = (server for template, server in self._own_templates if template.matches(uri))
        return [*{server.key: server for server in servers}.values()]

    def _is_withheld(self, server: ServerKey, uri: str) -> bool:
        interfaces = self._interfaces.get(server)
        return interfaces is not None and interfaces.withholds(uri)

    @cached_property
    def _servers_by_prefix(self) -> Mapping[str, Server]:
        return {server.catalog.prefix: server for server in self._servers if server.catalog.prefix}

    @cached_property
    def _uri_names(self) -> Mapping[ServerKey, UriNames]:
        return {server.key: server.uris for server in self._servers if shows_uris(server)}

    @cached_property
    def _owners_by_uri(self) -> Mapping[str, list[Server]]:
        """Servers by the URIs that they list or that their tools and skills reference."""
        owners: dict[str, list[Server]] = {}
        for server in self._servers:
            listed_uris = {item.name for item in server.offered.resources}
            ui_uris = {uri for uri in listed_uris.union(server.interfaces) if uris.scheme_of(uri) in uris.SCHEMES}
            for uri in ui_uris.union(*(uris_of(item.definition) for item in server.offered.skills)):
                owners.setdefault(uri, []).append(server)
        return owners

    def template(self, uri: str) -> ResolvedItem | None:
        """Server of the template or resource that the `ref/resource` of a `completion/complete` request names."""
        template = self._templates.get(uri)
        return self.resource(uri) if template is None else self._resolve(template[0], template[1])

    @cached_property
    def listings(self) -> Mapping[str, bytes]:
        """Results by method, such as `{"prompts":[…]`. The closing brace is missing: each era adds its members."""
        merged = self._only_server is None
        return {
            "prompts/list": self._listing(b"prompts", self._prompts, merged=merged),
            "resources/list": self._listing(b"resources", self._resources, merged=merged),
            "resources/templates/list": self._listing(b"resourceTemplates", self._templates, merged=merged),
            "skills/list": self._listing(b"skills", self._skills, merged=merged),
        }

    def must_escape(self, server: ServerKey) -> bool:
        """Whether control characters in a server's texts are escaped."""
        return server in self._escaped_servers

    def _listing(self, member: bytes, items: Mapping[str, tuple[Server, Item]], *, merged: bool) -> bytes:
        definitions = [(server, item.merged if merged else item.definition) for server, item in items.values()]
        escaped = [bytes(escape(raw)) if server.key in self._escaped_servers else raw for server, raw in definitions]
        return b'{"%b":[%b]' % (member, b",".join(escaped))

    @cached_property
    def features(self) -> frozenset[str]:
        """Capabilities of the endpoint's servers: "prompts", "resources", "skills", "completions", "logging" and
        "resources.subscribe". Capabilities that a shared stream cannot pass on to the right client are left out.
        """
        features: set[str] = set()
        for server in self._servers:
            features |= _features(server)
        return frozenset(features)

    @cached_property
    def extensions(self) -> Mapping[str, Raw]:
        """MCP extensions that the endpoint's servers declare, by identifier, with settings in raw JSON.

        If servers differ, the settings are `{}`, except that `directoryRead` of skills stays if any server has it. The
        tasks extension counts for modern servers only: a legacy server creates no tasks (SEP-2663).
        """
        extensions: dict[str, Raw] = {} if self._tasks is None else {TASKS: self._tasks}
        for server in self._servers:
            modern = eras.era_of(server.catalog.protocol_version) is eras.Era.MODERN
            for name, settings in extension_settings(server.catalog.capabilities).items():
                if name == TASKS and not modern:
                    continue
                first_settings = extensions.setdefault(name, settings)
                if bytes(first_settings) != bytes(settings):
                    directories = name == SKILLS and (reads_directories(first_settings) or reads_directories(settings))
                    extensions[name] = Raw(b'{"directoryRead":true}' if directories else b"{}")
        return MappingProxyType(extensions)

    @cached_property
    def announcements(self) -> Mapping[tuple[ServerKey, str], str]:
        """Time at which a server last announced a change, by server and list ("tools", "prompts", "resources")."""
        return {(server.key, name): at for server in self._servers for name, at in server.catalog.announced.items()}

    @cached_property
    def _skill_files(self) -> Mapping[str, tuple[Server, Item]]:
        """Skills by the URIs of their files. Files whose URIs have a server prefix are left out."""
        return {uri: skill for skill in self._skills.values() for uri in skill[1].files}

    @cached_property
    def _own_templates(self) -> list[tuple[UriTemplate, Server]]:
        return [
            (uri_template(item.name), server) for name, (server, item) in self._templates.items() if name != item.name
        ]

    @cached_property
    def _uri_templates(self) -> list[tuple[UriTemplate, Server, Item]]:
        return [(uri_template(name), server, item) for name, (server, item) in self._templates.items()]

    def _resolve(self, server: Server, item: Item, name: str | None = None) -> ResolvedItem | None:
        binding = self._only_server or self._bindings.get(server.key)
        return None if binding is None else (binding, item.name if name is None else name)


def merged_resources(snapshot: Snapshot, bindings: Mapping[ServerKey, ServerBinding]) -> ResourceIndex:
    """Index of the merged endpoints."""
    servers = [server for server in snapshot.servers.values() if server.catalog.prefix is not None]
    items = ResourceItems(snapshot.prompts, snapshot.resources, snapshot.templates, snapshot.skills)
    return ResourceIndex(items, bindings, servers=servers)


def server_resources(server: Server, binding: ServerBinding | None) -> ResourceIndex:
    """Index of the endpoint of one server."""
    offered = server.offered
    items = ResourceItems(
        {item.name: (server, item) for item in offered.prompts},
        {item.name: (server, item) for item in offered.resources},
        {item.name: (server, item) for item in offered.templates},
        {item.name: (server, item) for item in offered.skills},
    )
    return ResourceIndex(items, {}, servers=[server], only_server=binding)


class UserInterfaces:
    """User interfaces of one server. An interface is readable if a policy allows any tool that references it."""

    __slots__ = ("_allowed_uris", "_listed_uris", "withheld_uris")

    def __init__(self, server: Server, denied_tools: Collection[ToolRef]) -> None:
        allowed_tools = {tool.name for tool in server.tools if tool.ref not in denied_tools}
        self._allowed_uris = frozenset(
            uri for uri, tools in server.interfaces.items() if not allowed_tools.isdisjoint(tools)
        )
        self.withheld_uris = frozenset(server.interfaces) - self._allowed_uris
        """The server's own URIs of the interfaces that only denied tools reference."""
        self._listed_uris = (
            frozenset(item.name for item in server.offered.resources) if self.withheld_uris else frozenset()
        )

    def withholds(self, uri: str) -> bool:
        """Whether a resource must not be read; `uri` is the server's own URI of the resource. If the server has a
        withheld interface, its unlisted `ui://` URIs are withheld too, because they may be another spelling of that
        interface.
        """
        if not self.withheld_uris or uri in self._allowed_uris:
            return False
        return uri in self.withheld_uris or (uris.scheme_of(uri) == "ui" and uri not in self._listed_uris)


def shows_uris(server: Server) -> bool:
    """Whether a server has resources or skills, so that its results may contain their URIs."""
    return bool(server.interfaces) or not _features(server).isdisjoint(("resources", "skills"))


def is_watchable(server: Server) -> bool:
    """Whether clients can subscribe to a server's resources. This is impossible if clients share one message stream to
    the server, because an update does not say for which client it is.
    """
    return isinstance(server.catalog.endpoint, HttpEndpoint)


def passes_log_messages(server: Server) -> bool:
    """Whether a server's log messages are passed on to clients. This is impossible if clients share one message stream
    to the server, because a log message does not say for which client it is.
    """
    return isinstance(server.catalog.endpoint, HttpEndpoint) or server.catalog.session == "PerClient"


def _features(server: Server) -> set[str]:
    try:
        capabilities = jsonrpc.decode_object(server.catalog.capabilities)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        capabilities = {}
    features: set[str] = {name for name in ("prompts", "resources", "completions") if name in capabilities}
    if "logging" in capabilities and passes_log_messages(server):
        features.add("logging")
    if SKILLS in extension_settings(server.catalog.capabilities):
        features.add("skills")
    if server.offered.prompts:
        features.add("prompts")
    if server.offered.resources or server.offered.templates:
        features.add("resources")
    if is_watchable(server) and _declares_subscribe(capabilities.get("resources")):
        features.add("resources.subscribe")
    return features


def _declares_subscribe(capability: Raw | None) -> bool:
    if capability is None:
        return False
    try:
        return bytes(jsonrpc.decode_object(capability).get("subscribe", b"")) == b"true"
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


NOTHING: Final = ResourceIndex(_NO_ITEMS, {}, servers=())
