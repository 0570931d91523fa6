"""`/v1/servers`: which servers there are, how each fares, and a request to ask one again.

Servers that never answered are among them; policies decide who may know of these (`policy.unready`). What a server
wrote, and what its process takes up, is for those who may read logs.
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
from fairlead_gateway.core.ports import CLOSED
from fairlead_gateway.core.server import Server
from fairlead_gateway.policy.server_info import server_info
from fairlead_gateway.policy.view import server_target
from fairlead_mcp.capabilities import extensions
from fairlead_offers.catalogs.subject_catalog import SubjectCatalog
from fairlead_offers.problems import NOT_DISCOVERED, Problem
from fairlead_offers.workers.heavy_work import with_pauses
from fairlead_rest.context import RestContext
from fairlead_rest.examples import servers as examples
from fairlead_rest.known_servers import existing, find_server, server_state, undisputed
from fairlead_rest.log_access import may_read
from fairlead_rest.openapi import describe_route
from fairlead_rest.process_facts import ProcessFacts, resident, running
from fairlead_web.bodies import answer

_UNTOLD: Final = "it brought nothing; an administrator of the gateway sees why"
"""In place of a failure, which may quote the server's standard error."""
_PREFIX_HELD: Final = (
    "another server holds its prefix, so its tools are at its own endpoint only; an administrator sees which"
)
"""In place of a conflict, which names a server that the asker may not know of."""


class RefreshDocument(msgspec.Struct, frozen=True, rename="camel"):
    """Last requested discovery."""

    at: str
    """When it began, RFC 3339."""
    failure: str | None = None
    """Why it brought nothing; null where it succeeded."""


class ServerDocument(msgspec.Struct, frozen=True, rename="camel"):
    """One server. Its address and credentials are not shown. Unknown members are absent."""

    server: str
    """`namespace/name`."""
    state: str
    """`ready`; `waiting`, `installing`, `starting`: it has not answered yet; `offline`: it answered before and cannot
    be reached now; `stopped`: its replicas are 0; `failed`.
    """
    prefix: str | None
    """Prefix of its tools on `/mcp`; null: its prefix is taken, and only its own endpoint shows them; empty: they are
    shown under their own names.
    """
    offline: bool
    """Whether its tools cannot be called now, for whatever reason."""
    endpoint: str
    """Path of the MCP endpoint that shows this server alone."""
    refreshed: RefreshDocument | None
    """Null before the first requested discovery. Discoveries of the operator's own are not recorded here."""
    problems: tuple[str, ...]
    """A sentence for each tool that could not be taken in; for those who see all of its tools."""
    reason: str | UnsetType = UNSET
    """Reason of its condition Ready, where it is not simply ready."""
    cause: str | UnsetType = UNSET
    """Observation in one word; the page of reasons explains each."""
    conflict: str | UnsetType = UNSET
    """Sentence that says that another server holds its prefix; names it for administrators. Absent otherwise."""
    breaker: str | UnsetType = UNSET
    """`closed`: calls go through; `open`: after failures in a row they are refused for a while; `half-open`: the next
    one is a trial. Of the replica that answers.
    """
    pods_left: int | UnsetType = UNSET
    """Pods that get no calls, for they do not answer the replica that answers this; absent for none."""
    tools: int | UnsetType = UNSET
    """Those that are enabled and listable; absent until it answered."""
    p95_ms: float | UnsetType = UNSET
    """95th percentile of its slowest measured tool, in milliseconds."""
    transport: str | UnsetType = UNSET
    """How the gateway reaches it: `streamable-http`, `sse`, `stdio-child`, `stdio-tcp` or `local`."""
    protocol_version: str | UnsetType = UNSET
    """Revision of MCP that the server negotiated."""
    extensions: list[str] | UnsetType = UNSET
    """Extensions of MCP that the server declares, by their identifiers."""
    server_info: Raw | UnsetType = UNSET
    """`serverInfo` of the server, or null."""
    hash: str | UnsetType = UNSET
    """Over all its definitions."""
    updated_at: str | UnsetType = UNSET
    """When those last changed, RFC 3339."""
    message: str | UnsetType = UNSET
    """Why it is not simply ready, and what to do; may quote what the server wrote. For administrators."""
    restarts: int | UnsetType = UNSET
    """Starts of its process after the first; where this process runs it. For administrators, like what follows."""
    last_words: str | UnsetType = UNSET
    """The line of its standard error that says most."""
    rss_bytes: int | UnsetType = UNSET
    """Resident memory of its process and of all that this started."""
    held: int | UnsetType = UNSET
    """Definitions of a server with `pin: true` that wait for an approval; absent for none."""


class RefreshAsked(msgspec.Struct, frozen=True, rename="camel"):
    """A request that waits for the operator to fetch it. It is done when the server's `refreshed.at` is another one."""

    server: str
    """`namespace/name`."""
    before: str | None
    """`refreshed.at` of the server now."""
    operator_seen_at: str | None
    """When an operator last asked this gateway for requests, RFC 3339; null: none has."""


class FileProblemDocument(msgspec.Struct, frozen=True):
    """Problem of a file that declares servers, which is not one of a single server."""

    file: str
    message: str
    """File, line and column, what is wrong and what to do."""


class ServerList(msgspec.Struct, frozen=True, rename="camel"):
    """Servers by namespace and name."""

    servers: list[ServerDocument]
    file_problems: list[FileProblemDocument] | UnsetType = UNSET
    """Problems of the files that `fairlead up` reads; absent where there are none. For administrators."""


def router(context: RestContext) -> APIRouter:
    """The resource `/v1/servers`."""
    routes = APIRouter(prefix="/v1", tags=["servers"])

    @routes.get("/servers", **describe_route("List servers", ServerList, examples.SERVERS))
    async def list_servers(request: Request) -> Response:
        seen = context.seen(request)
        inside = _inside(context, request, seen, [server.key for server in existing(seen)])
        return await context.answer(lambda: listed(seen, inside))

    @routes.get(
        "/servers/{server:path}",
        **describe_route("Show one server, by `namespace/name`, name or prefix", ServerDocument, examples.SERVER),
    )
    async def show_server(request: Request, server: str) -> Response:
        seen = context.seen(request)
        known_server = find_server(seen, server)
        inside = _inside(context, request, seen, [known_server.key])
        return await context.answer(lambda: document(seen, known_server.key, inside))

    @routes.post(
        "/servers/{server:path}/refresh",
        status_code=202,
        **describe_route("Ask a server for its tools now", RefreshAsked, examples.REFRESH, status=202),
    )
    async def refresh(request: Request, server: str) -> Response:
        seen = context.seen(request)
        key = find_server(seen, server).key
        served = seen.snapshot.servers.get(key)
        if served is not None and isinstance(served.catalog.endpoint, LocalEndpoint):
            raise Problem(NOT_DISCOVERED, f"the tools of {key} are functions of this gateway")
        asked_at = context.administration.requests.asked_at
        context.administration.requests.ask_refresh(key)
        refreshed = _last_refresh(served, seen.snapshot.entries.get(key))
        at = None if asked_at is None else datetime.fromtimestamp(asked_at, UTC).isoformat(timespec="milliseconds")
        return answer(RefreshAsked(str(key), refreshed.at if refreshed else None, at), 202)

    return routes


class AdminFacts(msgspec.Struct, frozen=True):
    """Facts about servers that only administrators read."""

    told: bool = False
    running: Mapping[ServerKey, ProcessFacts] = {}


def _inside(context: RestContext, request: Request, seen: SubjectCatalog, servers: Collection[ServerKey]) -> AdminFacts:
    """Facts for those who may read the logs of servers, for both hold texts of a server. In the loop."""
    if not may_read(context, request, seen.identity):
        return AdminFacts()
    return AdminFacts(True, running(context.records.children, servers))


def listed(seen: SubjectCatalog, inside: AdminFacts) -> ServerList:
    """The documents of all of them. Not in the loop."""
    sizes = resident(inside.running)
    files = [FileProblemDocument(each.file, each.message) for each in seen.snapshot.files] if inside.told else []
    return ServerList(
        [_document(seen, each.key, inside, sizes) for each in with_pauses(existing(seen))], files or UNSET
    )


def document(seen: SubjectCatalog, key: ServerKey, inside: AdminFacts) -> ServerDocument:
    """Document of a server for a subject that may see it. Not in the loop."""
    return _document(seen, key, inside, resident(inside.running))


def _document(
    seen: SubjectCatalog, key: ServerKey, inside: AdminFacts, sizes: Mapping[ServerKey, int]
) -> ServerDocument:
    server, entry = seen.snapshot.servers.get(key), seen.snapshot.entries.get(key)
    last, process = _last_refresh(server, entry), inside.running.get(key)
    conflict, entry = _conflict(server, entry, inside), undisputed(server, entry)
    failure = None if last is None else last.failure or None
    if failure is not None and not inside.told:
        failure = _UNTOLD
    shown = ServerDocument(
        server=str(key),
        state=server_state(server, entry)[0],
        prefix=server.catalog.prefix if server is not None else entry.prefix if entry is not None else None,
        offline=server is None or not server.catalog.online,
        endpoint=server_target(key).decode(),
        refreshed=None if last is None else RefreshDocument(last.at, failure),
        problems=(),
        reason=entry.reason if entry is not None and entry.reason else UNSET,
        cause=entry.cause if entry is not None and entry.cause else UNSET,
        conflict=conflict,
        message=entry.message if entry is not None and entry.message and inside.told else UNSET,
        restarts=UNSET if process is None else process.restarts,
        last_words=UNSET if process is None or not process.last_words else process.last_words,
        rss_bytes=sizes.get(key, UNSET),
    )
    if server is None:
        return shown
    held = server.catalog.held if inside.told else 0
    return msgspec.structs.replace(_with_tools(shown, server, seen), held=held or UNSET)


def _conflict(server: Server | None, entry: ServerEntry | None, inside: AdminFacts) -> str | UnsetType:
    """The entry's sentence. The catalog and the entry are separate documents, and arrive apart."""
    if server is not None and server.catalog.prefix is not None:
        return UNSET
    if entry is not None and entry.conflict:
        return entry.conflict if inside.told else _PREFIX_HELD
    return UNSET if server is None else _PREFIX_HELD


def _with_tools(shown: ServerDocument, server: Server, seen: SubjectCatalog) -> ServerDocument:
    """The document of a server that answered, with what it said."""
    view = seen.of_server(server.key)
    routes = {} if view is None else view.everything
    route = next(iter(routes.values()), None)
    catalog, info = server.catalog, server_info(server)
    return msgspec.structs.replace(
        shown,
        breaker=CLOSED if route is None else route.guard.state,
        pods_left=UNSET if route is None else route.upstream.gauges().pods_left or UNSET,
        tools=len(routes),
        p95_ms=_slowest(seen.snapshot.states.get(server.key, {}), routes),
        transport=str(catalog.endpoint.__struct_config__.tag),
        protocol_version=catalog.protocol_version,
        extensions=sorted(extensions(catalog.capabilities)),
        server_info=Raw(b"null" if info is None else info),
        hash=catalog.hash,
        updated_at=catalog.updated_at,
        problems=server.problems if len(routes) == len(server.tools) else (),
    )


def _slowest(states: Mapping[str, ToolState], tools: Collection[str]) -> float | UnsetType:
    measured = (states[tool].quantiles for tool in tools if tool in states)
    return max((quantiles.p95_ms for quantiles in measured if quantiles is not None), default=UNSET)


def _last_refresh(server: Server | None, entry: ServerEntry | None) -> Refreshed | None:
    """The last answer to a request: of the catalog, or of the entry of a server that brought none."""
    told = (server.catalog.refreshed if server is not None else None, entry.refreshed if entry is not None else None)
    return max((report for report in told if report is not None), key=attrgetter("at"), default=None)
