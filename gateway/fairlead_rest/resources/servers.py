"""REST resource `/v1/servers`: lists servers with their state, and requests the discovery of a server's tools.

The list includes servers that have never answered; `policy.unready_servers` decides which principals may see such
servers. Output and memory of a server's process are shown only to principals who may read logs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from operator import attrgetter
from typing import Final

import msgspec
from fastapi import APIRouter, Request, Response
from msgspec import UNSET, Raw, UnsetType

from fairlead_api.documents.catalog import LocalEndpoint, Refreshed
from fairlead_api.documents.servers import ServerEntry
from fairlead_api.documents.state import ToolState
from fairlead_api.meta import ServerKey
from fairlead_api.v1alpha1.causes import Cause
from fairlead_gateway.core.ports import CLOSED
from fairlead_gateway.core.server import Server
from fairlead_gateway.policy.server_info import server_info
from fairlead_gateway.policy.view import server_target
from fairlead_mcp.capabilities import extensions
from fairlead_offers.catalogs.subject_catalog import SubjectCatalog
from fairlead_offers.problems import NOT_DISCOVERED, Problem
from fairlead_offers.workers.heavy_work import with_pauses
from fairlead_rest.api_facts import ApiFacts, api_facts
from fairlead_rest.context import RestContext
from fairlead_rest.examples import servers as examples
from fairlead_rest.known_servers import current_entry, find_server, server_state, visible_servers
from fairlead_rest.log_access import may_read
from fairlead_rest.openapi import describe_route
from fairlead_rest.process_facts import ProcessFacts, collect_facts, measure_memory
from fairlead_web.bodies import answer

_HIDDEN_FAILURE: Final = "the discovery failed; an administrator of the gateway can see the reason"
"""Replacement for the reason of a failure, which may quote the server's standard error."""
_PREFIX_TAKEN: Final = (
    "another server has this server's prefix, so its tools are listed only at its own endpoint; an administrator can "
    "see which server"
)
"""Replacement for the message of a conflict, which names a server that the caller may not be allowed to see."""
_PREFIX_RESERVED: Final = (
    "this server's prefix is reserved for a server that was deleted, so its tools are listed only at its own endpoint; "
    "an administrator can see for which server and until when"
)
"""Replacement for the message of a conflict with a server that was deleted."""


class RefreshDocument(msgspec.Struct, frozen=True, rename="camel"):
    """Last requested discovery of a server's tools."""

    at: str
    """Start of the discovery (RFC 3339)."""
    failure: str | None = None
    """Reason why the discovery failed; null if it succeeded."""


class ServerDocument(msgspec.Struct, frozen=True, rename="camel"):
    """State of one server, without its address and credentials. Members without a known value are absent."""

    server: str
    """Server as `namespace/name`."""
    state: str
    """State of the server. `ready`; `waiting`, `installing` or `starting` if it has not answered yet; `offline` if it
    answered before but cannot be reached; `stopped` if it has 0 replicas; `sign-in` if it lists its tools only to
    people and nobody has signed in; `failed`.
    """
    prefix: str | None
    """Prefix of the server's tools on `/mcp`. Empty: tools have no prefix. Null: another server has the prefix, and
    the tools are listed only at the server's own endpoint.
    """
    offline: bool
    """Whether the server's tools cannot be called, for any reason."""
    endpoint: str
    """Path of the MCP endpoint that has only this server."""
    refreshed: RefreshDocument | None
    """Last discovery that was requested over REST; null if there was none. Regular discoveries are not included."""
    problems: tuple[str, ...]
    """One message for each tool that was left out; only for principals who may see all tools of the server."""
    sign_in: str | UnsetType = UNSET
    """Why the caller has to sign in at the server before its tools can be called; absent if that is not so. It says
    nothing about other callers.
    """
    reason: str | UnsetType = UNSET
    """Reason of the condition Ready; absent if there is none."""
    cause: str | UnsetType = UNSET
    """Observed cause in one word, which the page of reasons explains."""
    conflict: str | UnsetType = UNSET
    """Message if another server has the prefix, with the name of that server for administrators."""
    breaker: str | UnsetType = UNSET
    """State of the circuit breaker in the gateway replica that answers. `closed`: calls are sent; `open`: calls are
    refused for a while after consecutive failures; `half-open`: the next call is a trial.
    """
    pods_left: int | UnsetType = UNSET
    """Number of pods that get no calls, as they do not answer this gateway replica; absent if there are none."""
    tools: int | UnsetType = UNSET
    """Number of enabled tools that can be listed; absent until the server has answered."""
    p95_ms: float | UnsetType = UNSET
    """95th percentile of the server's slowest measured tool, in milliseconds."""
    transport: str | UnsetType = UNSET
    """Transport to the server: `streamable-http`, `sse`, `stdio-child`, `stdio-tcp`, `openapi` or `local`."""
    protocol_version: str | UnsetType = UNSET
    """Revision of MCP that the server negotiated."""
    extensions: list[str] | UnsetType = UNSET
    """Identifiers of the MCP extensions that the server declares."""
    server_info: Raw | UnsetType = UNSET
    """`serverInfo` of the server; null if the server sent no information."""
    hash: str | UnsetType = UNSET
    """Hash of all definitions of the server."""
    updated_at: str | UnsetType = UNSET
    """Time of the last change of the definitions (RFC 3339)."""
    message: str | UnsetType = UNSET
    """Message about the state, with what to do. It may quote output of the server, and is only for administrators."""
    restarts: int | UnsetType = UNSET
    """Restarts of the server's process, if it is a child process of this gateway. This and the following members are
    only for administrators.
    """
    last_words: str | UnsetType = UNSET
    """Most informative line of the process's standard error."""
    rss_bytes: int | UnsetType = UNSET
    """Resident memory of the server's process and its descendants, in bytes."""
    api: ApiFacts | UnsetType = UNSET
    """Counts of an OpenAPI document's operations; only for principals who may see all tools of the server."""
    held: int | UnsetType = UNSET
    """Number of definitions that are held back until their approval, for servers with `pin: true`; absent if 0."""


class RefreshAsked(msgspec.Struct, frozen=True, rename="camel"):
    """Requested discovery. The operator will fetch the request. The discovery is finished when the server's
    `refreshed.at` has changed.
    """

    server: str
    """Server as `namespace/name`."""
    before: str | None
    """Current `refreshed.at` of the server."""
    operator_seen_at: str | None
    """Time at which an operator last fetched requests from this gateway (RFC 3339); null: never."""


class FileProblemDocument(msgspec.Struct, frozen=True):
    """Problem of a file that declares servers, except problems that belong to a single server."""

    file: str
    message: str
    """Message with file, line, column, the problem and what to do."""


class ServerList(msgspec.Struct, frozen=True, rename="camel"):
    """List of servers, sorted by namespace and name."""

    servers: list[ServerDocument]
    file_problems: list[FileProblemDocument] | UnsetType = UNSET
    """Problems of the files that `fairlead up` reads, for administrators; absent if there are none."""


def router(context: RestContext) -> APIRouter:
    """Make the routes of `/v1/servers`."""
    routes = APIRouter(prefix="/v1", tags=["servers"])

    @routes.get("/servers", **describe_route("List servers", ServerList, examples.SERVERS))
    async def list_servers(request: Request) -> Response:
        catalog = context.catalog(request)
        facts = _admin_facts(context, request, catalog, [server.key for server in visible_servers(catalog)])
        sign_in_reasons = await context.sign_ins.required.of(catalog.identity)
        return await context.answer(lambda: list_documents(catalog, facts, sign_in_reasons))

    @routes.get(
        "/servers/{server:path}",
        **describe_route("Show one server, by `namespace/name`, name or prefix", ServerDocument, examples.SERVER),
    )
    async def show_server(request: Request, server: str) -> Response:
        catalog = context.catalog(request)
        key = find_server(catalog, server).key
        facts = _admin_facts(context, request, catalog, [key])
        sign_in_reasons = await context.sign_ins.required.of(catalog.identity)
        return await context.answer(lambda: document(catalog, key, facts, sign_in_reasons))

    @routes.post(
        "/servers/{server:path}/refresh",
        status_code=202,
        **describe_route("Discover the tools of a server now", RefreshAsked, examples.REFRESH, status=202),
    )
    async def refresh(request: Request, server: str) -> Response:
        catalog = context.catalog(request)
        key = find_server(catalog, server).key
        server_in_snapshot = catalog.snapshot.servers.get(key)
        if server_in_snapshot is not None and isinstance(server_in_snapshot.catalog.endpoint, LocalEndpoint):
            raise Problem(NOT_DISCOVERED, f"{key} has no discovery, as its tools are functions in this gateway")
        asked_at = context.administration.requests.asked_at
        context.administration.requests.ask_refresh(key)
        refreshed = _last_refresh(server_in_snapshot, catalog.snapshot.entries.get(key))
        at = None if asked_at is None else datetime.fromtimestamp(asked_at, UTC).isoformat(timespec="milliseconds")
        return answer(RefreshAsked(str(key), refreshed.at if refreshed else None, at), 202)

    return routes


class AdminFacts(msgspec.Struct, frozen=True):
    """Facts about servers that only administrators may see."""

    is_admin: bool = False
    """Whether the caller is an administrator."""
    processes: Mapping[ServerKey, ProcessFacts] = {}


def _admin_facts(
    context: RestContext, request: Request, catalog: SubjectCatalog, servers: Collection[ServerKey]
) -> AdminFacts:
    """Collect the facts if the caller may read the logs of servers; like logs, the facts contain text from servers.
    Must be called in the event loop.
    """
    if not may_read(context, request, catalog.identity):
        return AdminFacts()
    return AdminFacts(True, collect_facts(context.records.children, servers))


def list_documents(catalog: SubjectCatalog, facts: AdminFacts, sign_ins: Mapping[ServerKey, str]) -> ServerList:
    """Documents of all servers that the subject may see. Must not be called in the event loop. `sign_ins` has the
    servers at which the subject has to sign in, each with the reason.
    """
    sizes = measure_memory(facts.processes)
    files = [FileProblemDocument(each.file, each.message) for each in catalog.snapshot.files] if facts.is_admin else []
    return ServerList(
        [_document(catalog, each.key, facts, sizes, sign_ins) for each in with_pauses(visible_servers(catalog))],
        files or UNSET,
    )


def document(
    catalog: SubjectCatalog, key: ServerKey, facts: AdminFacts, sign_ins: Mapping[ServerKey, str]
) -> ServerDocument:
    """Document of a server that the subject may see, as in `list_documents`, with remarks on operations."""
    server_document = _document(catalog, key, facts, measure_memory(facts.processes), sign_ins)
    server = catalog.snapshot.servers.get(key)
    if server is None or server.catalog.api is None or server_document.api is UNSET:
        return server_document
    return msgspec.structs.replace(server_document, api=api_facts(server.catalog.api, remarks=True))


def _document(
    catalog: SubjectCatalog,
    key: ServerKey,
    facts: AdminFacts,
    sizes: Mapping[ServerKey, int],
    sign_ins: Mapping[ServerKey, str],
) -> ServerDocument:
    server, entry = catalog.snapshot.servers.get(key), catalog.snapshot.entries.get(key)
    last_refresh, process = _last_refresh(server, entry), facts.processes.get(key)
    conflict, entry = _conflict(server, entry, facts), current_entry(server, entry)
    failure = None if last_refresh is None else last_refresh.failure or None
    if failure is not None and not facts.is_admin:
        failure = _HIDDEN_FAILURE
    server_document = ServerDocument(
        server=str(key),
        state=server_state(server, entry)[0],
        prefix=server.catalog.prefix if server is not None else entry.prefix if entry is not None else None,
        offline=server is None or not server.catalog.online,
        endpoint=server_target(key).decode(),
        refreshed=None if last_refresh is None else RefreshDocument(last_refresh.at, failure),
        problems=(),
        sign_in=sign_ins.get(key, UNSET),
        reason=entry.reason if entry is not None and entry.reason else UNSET,
        cause=entry.cause if entry is not None and entry.cause else UNSET,
        conflict=conflict,
        message=entry.message if entry is not None and entry.message and facts.is_admin else UNSET,
        restarts=UNSET if process is None else process.restarts,
        last_words=UNSET if process is None or not process.last_words else process.last_words,
        rss_bytes=sizes.get(key, UNSET),
    )
    if server is None:
        return server_document
    held = server.catalog.held if facts.is_admin else 0
    return msgspec.structs.replace(_with_tools(server_document, server, catalog), held=held or UNSET)


def _conflict(server: Server | None, entry: ServerEntry | None, facts: AdminFacts) -> str | UnsetType:
    """Message about another server that has the prefix; UNSET if there is none. Both the catalog and the entry of a
    server have the message: they are two documents, and either may arrive first.
    """
    if server is not None and server.catalog.prefix is not None:
        return UNSET
    if entry is not None and entry.conflict:
        if facts.is_admin:
            return entry.conflict
        return _PREFIX_RESERVED if entry.conflict.startswith(f"{Cause.PREFIX_RESERVED}:") else _PREFIX_TAKEN
    return UNSET if server is None else _PREFIX_TAKEN


def _with_tools(server_document: ServerDocument, server: Server, catalog: SubjectCatalog) -> ServerDocument:
    """Add members to the document of a server that has answered."""
    view = catalog.server_view(server.key)
    routes = {} if view is None else view.everything
    route = next(iter(routes.values()), None)
    server_catalog, info = server.catalog, server_info(server)
    sees_all_tools = len(routes) == len(server.tools)
    return msgspec.structs.replace(
        server_document,
        breaker=CLOSED if route is None else route.guard.state,
        pods_left=UNSET if route is None else route.upstream.gauges().pods_left or UNSET,
        tools=len(routes),
        p95_ms=_slowest_p95_ms(catalog.snapshot.states.get(server.key, {}), routes),
        transport=str(server_catalog.endpoint.__struct_config__.tag),
        protocol_version=server_catalog.protocol_version,
        extensions=sorted(extensions(server_catalog.capabilities)),
        server_info=Raw(b"null" if info is None else info),
        hash=server_catalog.hash,
        updated_at=server_catalog.updated_at,
        problems=server.problems if sees_all_tools else (),
        api=api_facts(server_catalog.api, remarks=False)
        if sees_all_tools and server_catalog.api is not None
        else UNSET,
    )


def _slowest_p95_ms(states: Mapping[str, ToolState], tools: Collection[str]) -> float | UnsetType:
    all_quantiles = (states[tool].quantiles for tool in tools if tool in states)
    return max((quantiles.p95_ms for quantiles in all_quantiles if quantiles is not None), default=UNSET)


def _last_refresh(server: Server | None, entry: ServerEntry | None) -> Refreshed | None:
    """Last requested discovery, from the server's catalog, or from the entry of a server without a catalog."""
    reports = (server.catalog.refreshed if server is not None else None, entry.refreshed if entry is not None else None)
    return max((report for report in reports if report is not None), key=attrgetter("at"), default=None)
