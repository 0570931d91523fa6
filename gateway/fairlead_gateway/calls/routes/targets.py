"""Resolves requests for prompts, resources and completions to routes, and translates names to the server's names.

Pure module. `calls.path.dispatch` resolves tool calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import msgspec
from msgspec import Raw

from fairlead_gateway.calls.results.verbatim_reads import check_of
from fairlead_gateway.calls.routes import param_headers
from fairlead_gateway.calls.routes.routing import request_route
from fairlead_gateway.core.client_message import Rejection
from fairlead_gateway.core.request import Headers, McpRequest
from fairlead_gateway.core.route import Route
from fairlead_gateway.core.server_binding import ServerBinding
from fairlead_gateway.policy.resource_index import ResolvedItem, ResourceIndex, is_watchable
from fairlead_gateway.telemetry import MetricsRegistry
from fairlead_gateway.upstream.server_session import SUBSCRIBE, UNSUBSCRIBE
from fairlead_mcp import jsonrpc, members
from fairlead_mcp.capabilities import extension_settings
from fairlead_mcp.methods import METHODS, SKILLS, Method, TargetKind
from fairlead_mcp.skills import reads_directories

GET_PROMPT: Final = "prompts/get"
COMPLETE: Final = "completion/complete"
SUBSCRIPTIONS: Final = frozenset({SUBSCRIBE, UNSUBSCRIBE})
"""Subscription methods of legacy sessions; modern clients name resources in `subscriptions/listen`."""
DIRECTORY: Final = "resources/directory/read"
"""Method of the skills extension (SEP-2640) that lists the files of a skill."""
_FINDERS: Final[Mapping[TargetKind, Callable[[ResourceIndex, str], ResolvedItem | None]]] = {
    TargetKind.PROMPT: ResourceIndex.prompt,
    TargetKind.RESOURCE: ResourceIndex.resource,
    TargetKind.SKILL: ResourceIndex.skill,
}
_REF_MEMBERS: Final = members.ProtectedNames({"type", "name", "uri", "title"})


def name_in(request: McpRequest) -> str | None:
    """Exposed name or URI of a request's target; None if it is missing or malformed."""
    params = request.params
    try:
        if request.method == COMPLETE:
            params = jsonrpc.decode_object(params["ref"])
        return jsonrpc.decode_text(params["uri" if "uri" in params else "name"])
    except (KeyError, *jsonrpc.UNREADABLE):
        return None


def param_lines(route: Route, request: McpRequest, headers: Headers | None) -> bytes | Rejection:
    """The `Mcp-Param-*` header lines for the server. A rejection if servers may read the arguments differently, or if
    the client's `Mcp-Param-*` headers differ from the arguments (SEP-2243).

    `headers` are the client's headers. They are None, and not checked, for the inner call of a meta-tool, because the
    client's headers repeat arguments of the meta-tool.
    """
    arguments = request.params.get("arguments")
    ambiguity_message = param_headers.find_ambiguity(arguments, route.param_headers)
    if ambiguity_message is not None:
        return invalid_params(request, ambiguity_message)
    if request.modern and headers is not None:
        mismatch_message = param_headers.mismatch(arguments, route.param_headers, headers)
        if mismatch_message is not None:
            return Rejection(400, jsonrpc.HEADER_MISMATCH, mismatch_message, request.id)
    return param_headers.lines(arguments, route.param_headers)


def resolve(index: ResourceIndex, request: McpRequest, metrics: MetricsRegistry) -> Route | Rejection:
    """The route of a request other than a tool call, or a rejection if the view does not have its target."""
    row = METHODS[request.method]
    try:
        if row.kind is TargetKind.REFERENCE:
            return _resolve_completion(index, request, metrics)
        name = request.read_name(row.member)
    except (KeyError, msgspec.DecodeError, UnicodeDecodeError):
        return invalid_params(
            request, f"params of {request.method} lacks a required member, or has one of the wrong type"
        )
    route = index.routes.get((request.method, name))
    if route is not None:
        return route
    new_route = _new_route(index, row, request, name, metrics)
    if isinstance(new_route, Route) and index.lists(name):  # not cached for templates, which match any number of URIs
        index.routes[request.method, name] = new_route
    return new_route


def _new_route(
    index: ResourceIndex, row: Method, request: McpRequest, name: str, metrics: MetricsRegistry
) -> Route | Rejection:
    if row.extension and row.extension not in index.extensions:
        status = 404 if request.modern else 200
        return Rejection(status, jsonrpc.METHOD_NOT_FOUND, f"Method not found: {request.method}", request.id)
    target = _FINDERS[row.kind](index, name)
    if target is None:
        if row.kind is TargetKind.RESOURCE and not row.extension:
            return not_found(request, name)
        return invalid_params(request, f"Unknown {row.kind.value}: {name}")
    binding, server_name = target
    if request.method == DIRECTORY and not _reads_directories(binding):
        return invalid_params(request, f"the server {binding.server.key} does not support {request.method}")
    if request.method in SUBSCRIPTIONS and not is_watchable(binding.server):
        message = f"the server {binding.server.key} does not support subscriptions, which require Streamable HTTP"
        return invalid_params(request, message)
    return _make_route(index, binding, request.method, server_name, metrics)


def _make_route(
    index: ResourceIndex, binding: ServerBinding, method: str, name: str, metrics: MetricsRegistry
) -> Route:
    """Route of a method. `name` is the server's own name of the target; empty for a completion."""
    key, row = binding.server.key, METHODS[method]
    must_escape = index.must_escape(key)
    recorder = metrics.recorder(method, "", str(key))
    route = request_route(binding, name, recorder, idempotent=row.idempotent, member=row.member if name else "")
    verify = check_of(binding.server, method, name, must_escape=must_escape)
    return replace(route, must_escape=must_escape, uris=index.uri_names(key), verify=verify)


def _reads_directories(binding: ServerBinding) -> bool:
    settings = extension_settings(binding.server.catalog.capabilities)
    return reads_directories(settings.get(SKILLS))


def not_found(request: McpRequest, uri: str) -> Rejection:
    """Rejection of an unknown resource URI, in the form of the client's era (SEP-2164)."""
    code = jsonrpc.INVALID_PARAMS if request.modern else jsonrpc.RESOURCE_NOT_FOUND
    status = 400 if request.modern else 200
    return Rejection(status, code, "Resource not found", request.id, jsonrpc.encode({"uri": uri}))


def _resolve_completion(index: ResourceIndex, request: McpRequest, metrics: MetricsRegistry) -> Route | Rejection:
    """The route of a completion. Replaces the name in `params.ref` of the request by the server's own."""
    ref = jsonrpc.decode_object(request.params["ref"])
    ambiguity_message = _REF_MEMBERS.explain_misread(ref, "params.ref")
    if ambiguity_message is not None:
        return invalid_params(request, ambiguity_message)
    kind = jsonrpc.decode_text(ref["type"])
    member = "name" if kind == "ref/prompt" else "uri"
    name = jsonrpc.decode_text(ref[member])
    target = index.prompt(name) if kind == "ref/prompt" else index.template(name)
    if target is None:
        return invalid_params(request, f"Unknown reference: {name}")
    binding, server_name = target
    ref[member] = Raw(jsonrpc.encode(server_name))
    request.params = {**request.params, "ref": Raw(jsonrpc.encode(ref))}
    key = binding.server.key
    route = index.routes.get((COMPLETE, key))
    if route is None:
        route = index.routes[COMPLETE, key] = _make_route(index, binding, COMPLETE, "", metrics)
    return route


def invalid_params(request: McpRequest, message: str) -> Rejection:
    """JSON-RPC error -32602 for invalid params."""
    return Rejection(400 if request.modern else 200, jsonrpc.INVALID_PARAMS, message, request.id)
