"""Builds routes: the parameters of calls to one tool, prompt or resource, prepared once per snapshot. Pure module."""

from __future__ import annotations

from dataclasses import replace

import msgspec
from msgspec import Raw

from fairlead_gateway.calls.results.cache import scope
from fairlead_gateway.calls.routes import param_headers
from fairlead_gateway.calls.routes.tool_call_shape import ToolCallShape
from fairlead_gateway.core.ports import AttemptMeter, CallRecorder, SchemaCheck, Upstream
from fairlead_gateway.core.route import Route
from fairlead_gateway.core.server import Server, Tool
from fairlead_gateway.core.server_binding import ServerBinding
from fairlead_gateway.core.task import TaskRef
from fairlead_mcp import eras, jsonrpc
from fairlead_tools.refusals import missing_capability


def tool_route(
    binding: ServerBinding,
    tool: Tool,
    recorder: CallRecorder,
    meter: AttemptMeter,
    *,
    check: SchemaCheck | None = None,
    upstream: Upstream | None = None,
) -> Route:
    """Route of a tool, before policies are applied. `upstream`, if given, replaces the upstream of `binding`."""
    server, limit_ms = binding.server, tool.max_duration_ms
    call_upstream = binding.upstream if upstream is None else upstream
    return Route(
        tool=tool,
        binding=binding,
        server=server,
        name=tool.name,
        id=f"{server.key}/{tool.name}",
        caps=tool.caps,
        name_raw=Raw(jsonrpc.encode(tool.name)),
        name_lines=name_lines(tool.name),
        upstream=call_upstream,
        recorder=recorder,
        meter=meter,
        timeout=binding.timeout if limit_ms is None else min(binding.timeout, limit_ms / 1000),
        start_timeout=binding.timeout,
        max_timeout=binding.max_timeout if limit_ms is None else min(binding.max_timeout, limit_ms / 1000),
        max_bytes=binding.max_bytes,
        server_info=binding.server_info,
        guard=binding.guard,
        retries=binding.retries,
        idempotent=tool.idempotent,
        per_client=server.catalog.session == "PerClient",
        cacheable_seconds=tool.cacheable_seconds,
        cache_scope=_cache_scope(server, tool),
        offline=not server.catalog.online,
        requires=tool.requires,
        param_headers=param_headers.read_headers(tool.definition),
        check=check,
        caller_deadline=binding.caller_deadline,
        unavailable=missing_capability(tool.name, server.key, tool.requires) if tool.requires else None,
        counted=bool(tool.caps),
        shape=_call_shape(binding, tool),
        result_tokens=tool.result_tokens,
    )


def request_route(
    binding: ServerBinding, name: str, recorder: CallRecorder, *, idempotent: bool, member: str = ""
) -> Route:
    """Route of a request other than a tool call.

    `name` is the server's own name or URI of the target, and `member` the member of `params` that has to contain it.
    Both are empty for requests without a target.
    """
    server = binding.server
    return Route(
        binding=binding,
        server=server,
        name=name,
        member=member,
        name_raw=Raw(jsonrpc.encode(name)) if member else None,
        name_lines=name_lines(name) if name else b"",
        upstream=binding.upstream,
        recorder=recorder,
        timeout=binding.timeout,
        max_timeout=binding.max_timeout,
        max_bytes=binding.max_bytes,
        server_info=binding.server_info,
        guard=binding.guard,
        retries=binding.retries,
        idempotent=idempotent,
        per_client=server.catalog.session == "PerClient",
        offline=not server.catalog.online,
        caller_deadline=binding.caller_deadline,
    )


def task_route(creator: Route, task: TaskRef, recorder: CallRecorder, *, idempotent: bool) -> Route:
    """Route of a request about a task. `creator` is the route of the tool that created the task.

    The tool's quota, timeout and cache do not apply to such a request.
    """
    return replace(
        request_route(creator.binding, "", recorder, idempotent=idempotent),
        name=task.tool,
        name_lines=name_lines(task.id),
        task=task,
        result_tokens=creator.max_result_tokens,
        must_escape=creator.must_escape,
        uris=creator.uris,
    )


def name_lines(name: str) -> bytes:
    """`Mcp-Name` as a line of an HTTP head."""
    return b"%b: %b\r\n" % (eras.H_NAME, eras.header_value(name))


def _call_shape(binding: ServerBinding, tool: Tool) -> ToolCallShape | None:
    if tool.shape is None:
        return None
    header_parameters = param_headers.read_headers(tool.server_definition)
    return ToolCallShape(tool.shape, header_parameters, binding.secret_arguments.get(tool.name, {}))


def _cache_scope(server: Server, tool: Tool) -> bytes:
    if not tool.cacheable_seconds:
        return b""
    catalog = server.catalog
    access = msgspec.json.encode((catalog.endpoint, catalog.credential, catalog.oauth, catalog.protocol_version))
    operation = b"" if tool.operation is None else msgspec.json.encode(tool.operation)
    shape = b"" if tool.shape is None else msgspec.json.encode(tool.shape)
    return scope(str(server.key), access, tool.name, tool.hash, tool.definition, operation, shape)
