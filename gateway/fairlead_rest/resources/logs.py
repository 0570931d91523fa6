"""REST resource `GET /v1/logs/{server}`: output of a server's processes, including previous runs.

The output may contain secrets of the server, so it is for administrators (`FAIRLEAD_ADMIN_GROUPS`). If authentication
is off, it is for programs on this machine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Final
from urllib.parse import urlsplit

import msgspec
from fastapi import APIRouter, Query, Request, Response

from fairlead_api.documents.catalog import (
    Catalog,
    EventsEndpoint,
    HttpEndpoint,
    LocalEndpoint,
    OpenApiEndpoint,
    TcpEndpoint,
)
from fairlead_api.meta import ServerKey, pod_logs
from fairlead_formats.names import suggest_name
from fairlead_mcp.printed import PrintedLine
from fairlead_offers.catalogs.subject_catalog import SubjectCatalog
from fairlead_offers.problems import NOT_KEPT, UNKNOWN_SERVER, Problem
from fairlead_rest.context import RestContext
from fairlead_rest.examples import servers as examples
from fairlead_rest.log_access import admit
from fairlead_rest.openapi import describe_route

MAX_NAMES: Final = 100
"""Maximum number of servers that a problem lists."""
_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
"""Pattern of names that need no quotes in a command."""


class LogLine(msgspec.Struct, frozen=True):
    """Line of output."""

    at: str
    """Time of the line (RFC 3339)."""
    run: int
    """Number of the process's run, from 1."""
    stream: str
    """`stderr`; `stdout` for output that is not an MCP message; `run` for the begin or end of a run."""
    text: str
    """Text without control characters and without secrets of the server's environment, cut after 1,000 characters."""


class LogDocument(msgspec.Struct, frozen=True):
    """Last lines of one server, oldest first. Up to 128 KiB are stored."""

    server: str
    """Server as `namespace/name`."""
    lines: list[LogLine]
    next: int
    """Value of `after` in a request for the following lines."""
    missed: bool
    """Whether lines after `after` are no longer stored."""


def router(context: RestContext) -> APIRouter:
    """Make the route of `/v1/logs`."""
    routes = APIRouter(prefix="/v1", tags=["servers"])

    @routes.get(
        "/logs/{server:path}",
        **describe_route("Show the output of a server, by `namespace/name`, name or prefix", LogDocument, examples.LOG),
    )
    async def show_log(
        request: Request,
        server: str,
        tail: Annotated[int | None, Query(ge=0, description="Maximum number of lines, from the end.")] = None,
        after: Annotated[
            int, Query(ge=0, description="Only lines after this position: the `next` of an earlier answer.")
        ] = 0,
    ) -> Response:
        catalog = context.catalog(request)
        admit(context, request, catalog.identity)
        key = _server_key(context, catalog, server)
        output = context.records.outputs.of(key)
        if output is None and (remote := catalog.snapshot.servers.get(key)) is not None:
            _refuse_remote(remote.catalog)
        lines, number = (output.after(after), output.number) if output is not None else ((), 0)
        first = number + 1 if not lines else lines[0].number
        shown_lines = lines if tail is None else lines[len(lines) - min(tail, len(lines)) :]
        document = LogDocument(str(key), [_line(line) for line in shown_lines], number, 0 < after < first - 1)
        return await context.answer(lambda: document)

    return routes


def _server_key(context: RestContext, catalog: SubjectCatalog, name: str) -> ServerKey:
    """Find a server by `namespace/name`, or by a name, prefix or id that only one server has. Raises Problem."""
    prefixes: Mapping[ServerKey, str | None] = {
        **dict.fromkeys(context.records.outputs.servers()),
        **{server.key: server.catalog.prefix for server in catalog.servers()},
    }
    short_name = name.removeprefix("mcp.")
    matches = [key for key in prefixes if str(key) == name] or [
        key for key, prefix in prefixes.items() if short_name in (key.name, prefix)
    ]
    if len(matches) == 1:
        return matches[0]
    names = tuple(sorted(map(str, matches or prefixes)))[:MAX_NAMES]
    if matches:
        raise Problem(
            UNKNOWN_SERVER,
            f"several servers have the name {name[:128]!r}: use one of {', '.join(names)}",
            existing=names,
        )
    similar_name = suggest_name(name, [each for key in prefixes for each in (str(key), key.name)])
    hint = "" if similar_name is None else f". Did you mean {similar_name}?"
    pods = "" if context.records.outputs.runs_processes else _logs_of_unready(catalog, short_name)
    detail = f"this gateway has no server {name[:128]!r}{pods}{hint}"
    raise Problem(UNKNOWN_SERVER, detail, did_you_mean=similar_name, existing=names)


def _logs_of_unready(catalog: SubjectCatalog, name: str) -> str:
    """Hint with the command for the logs of a server without a catalog; empty if `name` is not a valid name."""
    namespace, _, server_name = name.rpartition("/")
    if not all(_LABEL.fullmatch(word) for word in ((namespace, server_name) if namespace else (server_name,))):
        return ""
    namespaces = [key.namespace for key in catalog.snapshot.entries if key.name == server_name]
    namespace = namespace or (namespaces[0] if len(namespaces) == 1 else "NAMESPACE")
    return f"; for the logs of a server that has never been ready, run {pod_logs(namespace, server_name)}"


def _refuse_remote(catalog: Catalog) -> None:
    """Raise Problem for a server that this process does not run, with the location of its output."""
    endpoint, key = catalog.endpoint, catalog.key
    if isinstance(endpoint, LocalEndpoint):
        raise Problem(
            NOT_KEPT, f"the tools of {key} are functions in this gateway: their output is in the gateway's log"
        )
    url = ""
    if isinstance(endpoint, HttpEndpoint | EventsEndpoint | OpenApiEndpoint):
        url = urlsplit(endpoint.url).hostname or ""
    if isinstance(endpoint, TcpEndpoint) or url.startswith(f"{key.name}.{key.namespace}.svc"):
        command = pod_logs(*key)
        raise Problem(NOT_KEPT, f"{key} runs in a pod: its output is in Kubernetes; to read it, run {command}")
    if url:
        raise Problem(NOT_KEPT, f"{key} is a remote server: its output is on the machine that runs it")


def _line(line: PrintedLine) -> LogLine:
    at = datetime.fromtimestamp(line.at, UTC).isoformat(timespec="milliseconds")
    return LogLine(at, line.run, line.stream, line.text)
