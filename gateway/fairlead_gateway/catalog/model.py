"""The snapshot: all servers and tools of the documents, compiled into look-up tables.

Pure module. A snapshot is built in slices whenever documents change. A snapshot is immutable, so a call in flight uses
the snapshot with which it began until its end. Servers with an unchanged catalog are taken from the previous snapshot.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from operator import attrgetter, itemgetter
from typing import Final, TypeVar

import msgspec

from fairlead_api.documents.catalog import Catalog, DeclaredLatency, ToolEntry
from fairlead_api.documents.codec import Document
from fairlead_api.documents.rules import Rules
from fairlead_api.documents.servers import FileProblem, ServerEntry, Servers
from fairlead_api.documents.state import State, ToolState
from fairlead_api.meta import ServerKey
from fairlead_api.slices import SLICE, finish, order_in_slices, table_in_slices
from fairlead_formats.tools.verbatim import UnusableDefinition, ensure_name, is_idempotent, with_name
from fairlead_gateway.catalog.offered import offer_in_slices
from fairlead_gateway.core.quota import Caps
from fairlead_gateway.core.server import Item, Server, Tool
from fairlead_mcp import apps, uris
from fairlead_mcp.skills import ApprovedSkills
from fairlead_mcp.uris import UriNames
from fairlead_tools.definitions.forms import ListedType, make_forms
from fairlead_tools.names import exposed_name

_NO_LATENCY: Final = DeclaredLatency()
REMOVE: Final = "Remove"
"""Value of `discovery.onDisconnect` with which a server's tools are not listed while the server cannot be reached."""


ItemT = TypeVar("ItemT", Tool, Item)
"""Tool or item that merged endpoints show under its exposed name."""


class Collision(msgspec.Struct, frozen=True):
    """Two tools, prompts or resources with the same exposed name or URI. Merged endpoints list only one of them.

    The tool, prompt or resource of the first server by namespace and name is listed; for tools, servers without a
    prefix precede all other servers.
    """

    exposed_name: str
    """The common name or URI."""
    holder: ServerKey
    """Server whose tool, prompt or resource is listed."""
    dropped: ServerKey
    """Server whose tool, prompt or resource is not listed."""

    @property
    def advice(self) -> str:
        """Advice about what is not listed; a prefix does not change URIs."""
        if "://" in self.exposed_name:
            return f"a client that needs it connects to /servers/{self.dropped}/mcp"
        return "set the prefix of one of them (spec.prefix, or fairlead.prefix in an mcp.json)"


class Snapshot(msgspec.Struct, frozen=True):
    """Immutable state of the catalog: everything that can be listed and called."""

    servers: Mapping[ServerKey, Server] = {}
    merged: Mapping[str, tuple[Server, Tool]] = {}
    """Tools by exposed name, sorted by name, for merged endpoints."""
    prompts: Mapping[str, tuple[Server, Item]] = {}
    """Prompts by exposed name, for merged endpoints."""
    resources: Mapping[str, tuple[Server, Item]] = {}
    """Resources by URI, for merged endpoints."""
    templates: Mapping[str, tuple[Server, Item]] = {}
    """Resource templates by URI template, for merged endpoints."""
    skills: Mapping[str, tuple[Server, Item]] = {}
    """Skills by URI, for merged endpoints."""
    collisions: tuple[Collision, ...] = ()
    rules: Rules = Rules()
    """Tiers and policies of the last rules document; empty if there was no rules document."""
    states: Mapping[ServerKey, Mapping[str, ToolState]] = {}
    """Measurements and tier decisions of tools in this gateway's environment, by server and the server's own tool
    name.
    """
    decided_at: str = ""
    """When the oldest of the state documents was written (RFC 3339); empty without such documents."""
    round_trips: Mapping[ServerKey, float] = {}
    """Duration in milliseconds of a request that calls no tool, by server, in this gateway's environment."""
    entries: Mapping[ServerKey, ServerEntry] = {}
    """Servers with a status other than ready. A server that never answered has an entry in this mapping, but not in
    `servers`."""
    files: tuple[FileProblem, ...] = ()
    """Problems in declaration files, except problems that make a server unusable."""

    @property
    def tiers(self) -> tuple[str, ...]:
        return tuple(tier.name for tier in self.rules.tiers)


EMPTY: Final = Snapshot()
"""Snapshot without documents."""


def build(documents: Mapping[str, Document], previous: Snapshot = EMPTY, environment: str = "cluster") -> Snapshot:
    """Compile documents like `build_in_slices`, but in one piece."""
    return finish(build_in_slices(documents, previous, environment))


def build_in_slices(
    documents: Mapping[str, Document], previous: Snapshot = EMPTY, environment: str = "cluster"
) -> Generator[None, None, Snapshot]:
    """Compile documents, given by name, into a snapshot; `previous` is the previous snapshot.

    If two documents describe one server, the first by document name is used. Only measurements in `environment` are
    used. The rules of `previous` stay in effect if there is no rules document.
    """
    catalogs: dict[ServerKey, Catalog] = {}
    states: dict[ServerKey, dict[str, ToolState]] = {}
    decision_times = []
    round_trips: dict[ServerKey, float] = {}
    rules = previous.rules
    entries: dict[ServerKey, ServerEntry] = {}
    files: tuple[FileProblem, ...] = ()
    for _, document in sorted(documents.items()):
        if isinstance(document, Catalog):
            catalogs.setdefault(document.key, document)
        elif isinstance(document, Rules):
            rules = document
        elif isinstance(document, Servers):
            entries = {entry.key: entry for entry in document.servers}
            files = document.files
        elif isinstance(document, State):
            for server in document.servers:
                tool_states = {tool.name: tool for tool in server.tools if tool.environment == environment}
                states[ServerKey(server.namespace, server.name)] = tool_states
                yield
            decision_times.append(document.decided_at)
            round_trips.update(_round_trips(document, environment))
        yield
    servers = {}
    for key in sorted(catalogs):
        servers[key] = yield from _server(catalogs[key], previous.servers.get(key))
    # in a name collision, servers without a prefix win
    unprefixed_first = sorted(servers.values(), key=lambda server: server.catalog.prefix != "")
    merged, collisions = yield from _merge((server, server.tools) for server in unprefixed_first)
    prompts, prompt_collisions = yield from _merge((server, server.offered.prompts) for server in servers.values())
    resources, uri_collisions = yield from _merge((server, server.offered.resources) for server in servers.values())
    templates, template_collisions = yield from _merge(
        (server, server.offered.templates) for server in servers.values()
    )
    skills, skill_collisions = yield from _merge((server, server.offered.skills) for server in servers.values())
    skills, file_collisions = yield from _drop_mixed_skills(skills, resources)
    collisions += prompt_collisions + uri_collisions + template_collisions + skill_collisions + file_collisions
    decided_at = min(decision_times, default="")
    return Snapshot(
        servers=servers,
        merged=merged,
        prompts=prompts,
        resources=resources,
        templates=templates,
        skills=skills,
        collisions=collisions,
        rules=rules,
        states=states,
        decided_at=decided_at,
        round_trips=round_trips,
        entries=entries,
        files=files,
    )


def _round_trips(document: State, environment: str) -> dict[ServerKey, float]:
    return {
        ServerKey(server.namespace, server.name): server.round_trip_ms[environment]
        for server in document.servers
        if environment in server.round_trip_ms
    }


def _server(catalog: Catalog, previous: Server | None) -> Generator[None, None, Server]:
    if previous is not None and previous.catalog is catalog:
        return previous
    if not catalog.online and catalog.on_disconnect == REMOVE:
        return Server(catalog.key, catalog, ())
    tools: dict[str, Tool] = {}
    interfaces: dict[str, list[str]] = {}
    problems: list[str] = []
    for entry in (yield from order_in_slices(catalog.tools, attrgetter("name"))):
        if entry.name in tools:
            continue
        interface = apps.interface_of(bytes(entry.definition))
        for uri in interface.resources:
            interfaces.setdefault(uri, []).append(entry.name)
        if not entry.enabled:
            continue
        try:
            tools[entry.name] = _tool(entry, catalog, interface, problems)
        except UnusableDefinition as error:
            problems.append(f"tool {entry.name!r} of {catalog.key} is left out: {error}")
        yield
    offered = yield from offer_in_slices(catalog)
    tools_by_interface = {uri: tuple(names) for uri, names in interfaces.items()}
    approved = ApprovedSkills(item.definition for item in offered.skills) if catalog.pinned else None
    problems += offered.problems
    listed_tools = tuple(tools.values())
    if any(tool.renamed is not None for tool in listed_tools):
        listed_tools = tuple(sorted(listed_tools, key=attrgetter("shown_name")))
    return Server(catalog.key, catalog, listed_tools, tuple(problems), offered, tools_by_interface, approved)


def _tool(entry: ToolEntry, catalog: Catalog, interface: apps.UserInterface, problems: list[str]) -> Tool:
    """Compile one tool. Raises UnusableDefinition if clients would reject its definition."""
    raw, shown_name = bytes(entry.shown_definition), entry.shown_name
    exposed = None if catalog.prefix is None else exposed_name(catalog.prefix, shown_name)

    def name_definition(definition: bytes) -> tuple[bytes, bytes]:
        if entry.description is None:
            unprefixed = ensure_name(definition, name=shown_name)
        else:
            unprefixed = with_name(definition, name=shown_name, description=entry.description)
        merged = with_name(unprefixed, name=exposed) if exposed else b""
        if interface.resources and catalog.prefix is not None:
            merged = bytes(UriNames(catalog.prefix).show_in(merged, uris.TOOL))
        return unprefixed, merged

    modern, legacy = make_forms(raw, ListedType.TOOL)
    if modern.refusal:
        raise UnusableDefinition(modern.refusal)
    definition, merged = name_definition(modern.definition)
    legacy_definitions: tuple[bytes | None, bytes | None] = (None, None)
    if legacy.refusal:
        legacy_definitions = (b"", b"")
        problems.append(
            f"tool {entry.name!r} of {catalog.key} is left out for clients of legacy revisions: {legacy.refusal}"
        )
    elif legacy.definition is not modern.definition:
        legacy_definitions = name_definition(legacy.definition)
    latency = entry.latency or _NO_LATENCY
    return Tool(
        entry.name,
        (catalog.key, entry.name),
        definition,
        exposed,
        merged,
        *legacy_definitions,
        max_duration_ms=latency.max_duration_ms,
        idempotent=is_idempotent(raw, declared=latency.idempotent, trusted=catalog.trust_annotations),
        cacheable_seconds=latency.cacheable_seconds or 0,
        hash=entry.hash,
        estimated_duration_ms=latency.estimated_duration_ms,
        estimate_untrusted=latency.estimate_untrusted,
        min_tier=entry.min_tier,
        authored_min_tier=entry.authored_min_tier,
        caps=Caps(entry.calls_per_minute, entry.concurrency) or None,
        result_tokens=entry.result_tokens,
        speech=entry.speech,
        tags=entry.tags,
        categories=entry.categories,
        requires=entry.requires,
        interface=interface,
        operation=entry.operation,
        renamed=None if shown_name == entry.name else shown_name,
        shape=entry.shape,
        server_definition=b"" if entry.shape is None else bytes(entry.definition),
    )


def _drop_mixed_skills(
    skills: dict[str, tuple[Server, Item]], resources: Mapping[str, tuple[Server, Item]]
) -> Generator[None, None, tuple[dict[str, tuple[Server, Item]], tuple[Collision, ...]]]:
    """Drop skills with a file whose URI another server also uses, for a resource or for a file of a skill.

    Otherwise a client that reads the skill could get a file of another server (SEP-2640).
    """
    owners: dict[str, ServerKey] = {}
    collisions: dict[str, Collision] = {}
    for number, (exposed, (server, item)) in enumerate(sorted(skills.items(), key=lambda skill: skill[1][0].key)):
        if number % SLICE == SLICE - 1:
            yield
        file_owners = (resources[uri][0].key if uri in resources else owners.get(uri, server.key) for uri in item.files)
        other_owner = next((key for key in file_owners if key != server.key), None)
        if other_owner is None:
            owners.update(dict.fromkeys(item.files, server.key))
        else:
            collisions[exposed] = Collision(exposed, other_owner, server.key)
    return {name: skill for name, skill in skills.items() if name not in collisions}, tuple(collisions.values())


def _merge(
    servers: Iterable[tuple[Server, Iterable[ItemT]]],
) -> Generator[None, None, tuple[dict[str, tuple[Server, ItemT]], tuple[Collision, ...]]]:
    """Tools or items by exposed name, sorted by name, and the collisions of names.

    If two servers expose a name, the first in `servers` gets it. `servers` are sorted, so that the order in which
    servers were added does not matter.
    """
    merged: dict[str, tuple[Server, ItemT]] = {}
    collisions = []
    for server, items in servers:
        for number, item in enumerate(items):
            if number % SLICE == SLICE - 1:
                yield
            if item.exposed_name is None:
                continue
            holder = merged.setdefault(item.exposed_name, (server, item))
            if holder[0] is not server:
                collisions.append(Collision(item.exposed_name, holder[0].key, server.key))
        yield
    in_order = yield from order_in_slices(merged.items(), itemgetter(0))
    return (yield from table_in_slices(in_order)), tuple(collisions)
