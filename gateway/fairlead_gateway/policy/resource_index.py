"""Prompts, resources and resource templates of an endpoint: lists, capabilities, and the server that each is asked of.

Pure module. Lists are bytes that are put together at their first use.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Final

import msgspec
from msgspec import Raw

from fairlead_api.meta import ServerKey
from fairlead_gateway.catalog.model import Snapshot
from fairlead_gateway.core.server import Item, Server
from fairlead_gateway.core.server_binding import ServerBinding
from fairlead_mcp import jsonrpc
from fairlead_mcp.escaping import escaped

_EXPRESSION: Final = re.compile(r"\{([+#./;?&]?)[^{}]*\}")
_OF_OPERATOR: Final = MappingProxyType(
    {"+": ".*", "#": "(?:#.*)?", "/": "(?:/.*)?", "?": r"(?:\?.*)?", "&": "(?:&.*)?"}
)
MAX_TEMPLATE: Final = 2048
"""Characters of a URI template that is matched against."""


Resolved = tuple[ServerBinding, str]
"""A server, and how it calls what is meant."""


class ResourceIndex:
    """Prompts, resources and templates of an endpoint. With `alone`, everything that is not listed is asked of that one
    server all the same: it may answer for URIs that it does not list.
    """

    def __init__(
        self,
        prompts: Mapping[str, tuple[Server, Item]],
        resources: Mapping[str, tuple[Server, Item]],
        templates: Mapping[str, tuple[Server, Item]],
        reaches: Mapping[ServerKey, ServerBinding],
        *,
        servers: Iterable[Server],
        alone: ServerBinding | None = None,
        escaping: Collection[ServerKey] = frozenset(),
    ) -> None:
        """`escaping`: servers whose control characters are made visible."""
        self._escaping = escaping
        self._prompts = prompts
        self._resources = resources
        self._templates = templates
        self._reaches = reaches
        self._servers = tuple(servers)
        self._alone = alone

    def without(self, servers: Collection[ServerKey], escaping: Collection[ServerKey] = frozenset()) -> ResourceIndex:
        """The index without those of some servers, and with the control characters of others made visible."""

        def rest(items: Mapping[str, tuple[Server, Item]]) -> dict[str, tuple[Server, Item]]:
            return {name: held for name, held in items.items() if held[0].key not in servers}

        return ResourceIndex(
            rest(self._prompts), rest(self._resources), rest(self._templates), self._reaches,
            servers=[server for server in self._servers if server.key not in servers], alone=self._alone,
            escaping=escaping,
        )  # fmt: skip

    def prompt(self, name: str) -> Resolved | None:
        """Who has the prompt that is shown under a name."""
        found = self._prompts.get(name)
        return None if found is None else self._asked(*found)

    def resource(self, uri: str) -> Resolved | None:
        """Server that answers for a URI: the one that lists it, that has a template for it, or the only one."""
        found = self._resources.get(uri)
        if found is not None:
            return self._asked(found[0], found[1], uri)
        if self._alone is not None:
            return self._alone, uri
        for pattern, server, item in self._patterns:
            if pattern.fullmatch(uri) is not None:
                return self._asked(server, item, uri)
        return None

    def template(self, uri: str) -> Resolved | None:
        """Who has a template (or a resource), as `ref/resource` of a completion names it."""
        found = self._templates.get(uri)
        return self.resource(uri) if found is None else self._asked(found[0], found[1], uri)

    @cached_property
    def listings(self) -> Mapping[str, bytes]:
        """Method to `{"prompts":[…]`, open at the end for the members of either era."""
        merged = self._alone is None
        return {
            "prompts/list": self._listing(b"prompts", self._prompts, merged=merged),
            "resources/list": self._listing(b"resources", self._resources, merged=merged),
            "resources/templates/list": self._listing(b"resourceTemplates", self._templates, merged=merged),
        }

    def escapes(self, server: ServerKey) -> bool:
        """Whether a server's control characters are made visible."""
        return server in self._escaping

    def _listing(self, member: bytes, items: Mapping[str, tuple[Server, Item]], *, merged: bool) -> bytes:
        shown = [(server, item.merged if merged else item.definition) for server, item in items.values()]
        told = [bytes(escaped(raw)) if server.key in self._escaping else raw for server, raw in shown]
        return b'{"%b":[%b]' % (member, b",".join(told))

    @cached_property
    def features(self) -> frozenset[str]:
        """Capabilities of the servers behind: "prompts", "resources", "completions", "logging", and
        "resources.subscribe".
        """
        found: set[str] = set()
        for server in self._servers:
            found |= _features(server)
        return frozenset(found)

    @cached_property
    def _patterns(self) -> list[tuple[re.Pattern[str], Server, Item]]:
        return [
            (template_pattern(name), server, item)
            for name, (server, item) in self._templates.items()
            if len(name) <= MAX_TEMPLATE
        ]

    def _asked(self, server: Server, item: Item, name: str | None = None) -> Resolved | None:
        reach = self._alone or self._reaches.get(server.key)
        return None if reach is None else (reach, item.name if name is None else name)


def merged_resources(snapshot: Snapshot, reaches: Mapping[ServerKey, ServerBinding]) -> ResourceIndex:
    """Index of the merged endpoints."""
    shown = [server for server in snapshot.servers.values() if server.catalog.prefix is not None]
    return ResourceIndex(snapshot.prompts, snapshot.resources, snapshot.templates, reaches, servers=shown)


def server_resources(server: Server, reach: ServerBinding | None) -> ResourceIndex:
    """Index of the endpoint of one server."""
    offered = server.offered
    return ResourceIndex(
        {item.name: (server, item) for item in offered.prompts},
        {item.name: (server, item) for item in offered.resources},
        {item.name: (server, item) for item in offered.templates},
        {},
        servers=[server],
        alone=reach,
    )


def template_pattern(template: str) -> re.Pattern[str]:
    """Pattern of the URIs of a template (RFC 6570), whatever values its variables have: an expression stands for
    anything but what separates parts of a path, one with `+` for anything.
    """
    pieces, end = [], 0
    for expression in _EXPRESSION.finditer(template):
        pieces.append(re.escape(template[end : expression.start()]))
        pieces.append(_OF_OPERATOR.get(expression.group(1), "[^/?#]*"))
        end = expression.end()
    pieces.append(re.escape(template[end:]))
    return re.compile("".join(pieces), re.DOTALL)


def _features(server: Server) -> set[str]:
    try:
        declared = jsonrpc.decode_object(server.catalog.capabilities)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        declared = {}
    found: set[str] = {name for name in ("prompts", "resources", "completions", "logging") if name in declared}
    if server.offered.prompts:
        found.add("prompts")
    if server.offered.resources or server.offered.templates:
        found.add("resources")
    if _says_subscribe(declared.get("resources")):
        found.add("resources.subscribe")
    return found


def _says_subscribe(capability: Raw | None) -> bool:
    if capability is None:
        return False
    try:
        return bytes(jsonrpc.decode_object(capability).get("subscribe", b"")) == b"true"
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


NOTHING: Final = ResourceIndex({}, {}, {}, {}, servers=())
