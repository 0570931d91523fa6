"""`GET /v1/logs/{server}`: what the processes of a server printed, over its restarts.

It may hold what a server should have kept to itself, so it is for administrators (`FAIRLEAD_ADMIN_GROUPS`). Where
there is no authentication, it is for programs on this machine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Final
from urllib.parse import urlsplit

import msgspec
from fastapi import APIRouter, Query, Request, Response

from fairlead_api.documents.catalog import Catalog, EventsEndpoint, HttpEndpoint, LocalEndpoint, TcpEndpoint
from fairlead_api.meta import ServerKey, pod_logs
from fairlead_formats.names import did_you_mean
from fairlead_mcp.printed import PrintedLine
from fairlead_offers.catalogs.subject_catalog import SubjectCatalog
from fairlead_offers.problems import NOT_KEPT, UNKNOWN_SERVER, Problem
from fairlead_rest.context import RestContext
from fairlead_rest.examples import servers as examples
from fairlead_rest.log_access import admit
from fairlead_rest.openapi import describe_route

MAX_NAMES: Final = 100
_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
"""A name that a command may hold without quotes."""
"""Servers that a problem names."""


class LogLine(msgspec.Struct, frozen=True):
    """One line."""

    at: str
    """RFC 3339."""
    run: int
    """Counts the starts of the process, from 1."""
    stream: str
    """`stderr`; `stdout` for anything but MCP messages; `run` for how a run began or ended."""
    text: str
    """Without control characters and secrets of the server's environment, and cut after 1,000 characters."""


class LogDocument(msgspec.Struct, frozen=True):
    """The last lines of one server, oldest first. Up to 128 KiB are kept."""

    server: str
    """`namespace/name`."""
    lines: list[LogLine]
    next: int
    """`after` of a request for what follows."""
    missed: bool
    """Lines behind `after` are not kept any more."""


def router(context: RestContext) -> APIRouter:
    """The resource `/v1/logs`."""
    routes = APIRouter(prefix="/v1", tags=["servers"])

    @routes.get(
        "/logs/{server:path}",
        **describe_route("Show what a server printed, by `namespace/name`, name or prefix", LogDocument, examples.LOG),
    )
    async def show_log(
        request: Request,
        server: str,
        tail: Annotated[int | None, Query(ge=0, description="So many of the last lines at most.")] = None,
        after: Annotated[int, Query(ge=0, description="Lines behind this `next` of an answer before.")] = 0,
    ) -> Response:
        seen = context.seen(request)
        admit(context, request, seen.identity)
        key = _server_key(context, seen, server)
        held = context.records.outputs.of(key)
        if held is None and (served := seen.snapshot.servers.get(key)) is not None:
            _elsewhere(served.catalog)
        lines, number = (held.after(after), held.number) if held is not None else ((), 0)
        first = number + 1 if not lines else lines[0].number
        shown = lines if tail is None else lines[len(lines) - min(tail, len(lines)) :]
        made = LogDocument(str(key), [_line(line) for line in shown], number, 0 < after < first - 1)
        return await context.answer(lambda: made)

    return routes


def _server_key(context: RestContext, seen: SubjectCatalog, name: str) -> ServerKey:
    """The server of that `namespace/name`, else the only one of that name, prefix or id. Raises Problem."""
    prefixes: Mapping[ServerKey, str | None] = {
        **dict.fromkeys(context.records.outputs.servers()),
        **{server.key: server.catalog.prefix for server in seen.servers()},
    }
    plain = name.removeprefix("mcp.")
    matches = [key for key in prefixes if str(key) == name] or [
        key for key, prefix in prefixes.items() if plain in (key.name, prefix)
    ]
    if len(matches) == 1:
        return matches[0]
    names = tuple(sorted(map(str, matches or prefixes)))[:MAX_NAMES]
    if matches:
        raise Problem(
            UNKNOWN_SERVER, f"{name[:128]!r} may be any of {', '.join(names)}: say namespace/name", existing=names
        )
    near = did_you_mean(name, [each for key in prefixes for each in (str(key), key.name)])
    hint = "" if near is None else f". Did you mean {near}?"
    pods = "" if context.records.outputs.runs_processes else _logs_of_unready(seen, plain)
    detail = f"no server {name[:128]!r} is served here{pods}{hint}"
    raise Problem(UNKNOWN_SERVER, detail, did_you_mean=near, existing=names)


def _logs_of_unready(seen: SubjectCatalog, name: str) -> str:
    """Command for the logs of a server that has no catalog, by its namespace where that is named or known; empty where
    no server can be called so.
    """
    namespace, _, own = name.rpartition("/")
    if not all(_LABEL.fullmatch(word) for word in ((namespace, own) if namespace else (own,))):
        return ""
    homes = [key.namespace for key in seen.snapshot.entries if key.name == own]
    home = namespace or (homes[0] if len(homes) == 1 else "NAMESPACE")
    return f"; of a server that has never been ready, see its pods: {pod_logs(home, own)}"


def _elsewhere(catalog: Catalog) -> None:
    """Raises Problem for a server that another process runs; says where its output is."""
    endpoint, key = catalog.endpoint, catalog.key
    if isinstance(endpoint, LocalEndpoint):
        raise Problem(NOT_KEPT, f"the tools of {key} are functions of this gateway: they print into its own log")
    url = urlsplit(endpoint.url).hostname or "" if isinstance(endpoint, HttpEndpoint | EventsEndpoint) else ""
    if isinstance(endpoint, TcpEndpoint) or url.startswith(f"{key.name}.{key.namespace}.svc"):
        command = pod_logs(*key)
        raise Problem(NOT_KEPT, f"{key} runs in a pod, and Kubernetes keeps what it prints: {command}")
    if url:
        raise Problem(NOT_KEPT, f"{key} is reached by its URL: what it prints stays where it runs")


def _line(line: PrintedLine) -> LogLine:
    at = datetime.fromtimestamp(line.at, UTC).isoformat(timespec="milliseconds")
    return LogLine(at, line.run, line.stream, line.text)
