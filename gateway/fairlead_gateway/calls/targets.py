"""Routes of prompts, resources and completions, and their params under the server's own names.

Pure module. Tools are found by `calls.dispatch`.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw

from fairlead_gateway.calls import param_headers
from fairlead_gateway.calls.routing import request_route
from fairlead_gateway.core.client_message import Headers, Rejection
from fairlead_gateway.core.request import McpRequest
from fairlead_gateway.core.route import Route
from fairlead_gateway.core.server_binding import ServerBinding
from fairlead_gateway.policy.resource_index import ResourceIndex
from fairlead_gateway.telemetry import MetricsRegistry
from fairlead_mcp import eras, jsonrpc, members

GET_PROMPT: Final = "prompts/get"
READ: Final = "resources/read"
COMPLETE: Final = "completion/complete"
SUBSCRIPTIONS: Final = frozenset({"resources/subscribe", "resources/unsubscribe"})
"""Methods of legacy sessions; modern clients name resources when they listen."""
METHODS: Final = frozenset({GET_PROMPT, READ, COMPLETE}) | SUBSCRIPTIONS
MORE: Final = ("inputResponses", "requestState")
_REF: Final = members.Known({"type", "name", "uri", "title"})


def continues(params: jsonrpc.RawObject) -> bool:
    """Whether a request continues one that was answered by questions (SEP-2322)."""
    return MORE[0] in params or MORE[1] in params


def param_lines(route: Route, request: McpRequest, headers: Headers) -> bytes | Rejection:
    """Lines of `Mcp-Param-*` for the server, once the client's match the arguments that they repeat (SEP-2243)."""
    arguments = request.params.get("arguments")
    misread = param_headers.misread(arguments, route.param_headers)
    if misread is not None:
        return invalid(request, misread)
    wrong = param_headers.mismatch(arguments, route.param_headers, headers) if request.modern else None
    if wrong is not None:
        return Rejection(400, jsonrpc.HEADER_MISMATCH, wrong, request.id)
    return param_headers.lines(arguments, route.param_headers)


def resolve(offers: ResourceIndex, request: McpRequest, metrics: MetricsRegistry) -> Route | Rejection:
    """The route of a request that is no tool call, as far as the view shows its target; puts the server's own name into
    the params.
    """
    try:
        if request.method == COMPLETE:
            return _completion(offers, request, metrics)
        member = "uri" if request.method in SUBSCRIPTIONS else eras.NAMED[request.method]
        name = jsonrpc.decode_text(request.params[member])
    except (KeyError, msgspec.DecodeError, UnicodeDecodeError):
        return invalid(request, "a required parameter is missing or of the wrong type")
    found = offers.prompt(name) if request.method == GET_PROMPT else offers.resource(name)
    if found is None:
        if request.method == GET_PROMPT:
            return invalid(request, f"Unknown prompt: {name}")
        return not_found(request, name)
    binding, own = found
    request.params = {**request.params, member: Raw(jsonrpc.encode(own))}
    return _beside(offers, binding, request.method, own, metrics, idempotent=request.method not in SUBSCRIPTIONS)


def _beside(
    offers: ResourceIndex,
    binding: ServerBinding,
    method: str,
    name: str,
    metrics: MetricsRegistry,
    *,
    idempotent: bool = True,
) -> Route:
    recorder, escapes = metrics.recorder(method, "", str(binding.server.key)), offers.escapes(binding.server.key)
    return request_route(binding, name, recorder, idempotent=idempotent, escapes=escapes)


def not_found(request: McpRequest, uri: str) -> Rejection:
    """A URI that no server answers for, in the words of the client's era (SEP-2164)."""
    code = jsonrpc.INVALID_PARAMS if request.modern else jsonrpc.RESOURCE_NOT_FOUND
    status = 400 if request.modern else 200
    return Rejection(status, code, "Resource not found", request.id, jsonrpc.encode({"uri": uri}))


def _completion(offers: ResourceIndex, request: McpRequest, metrics: MetricsRegistry) -> Route | Rejection:
    ref = jsonrpc.decode_object(request.params["ref"])
    misread = _REF.misread(ref, "params.ref")
    if misread is not None:
        return invalid(request, misread)
    kind = jsonrpc.decode_text(ref["type"])
    member = "name" if kind == "ref/prompt" else "uri"
    name = jsonrpc.decode_text(ref[member])
    found = offers.prompt(name) if kind == "ref/prompt" else offers.template(name)
    if found is None:
        return invalid(request, f"Unknown reference: {name}")
    binding, own = found
    ref[member] = Raw(jsonrpc.encode(own))
    request.params = {**request.params, "ref": Raw(jsonrpc.encode(ref))}
    return _beside(offers, binding, COMPLETE, "", metrics)


def invalid(request: McpRequest, message: str) -> Rejection:
    """JSON-RPC error -32602 for params that cannot be served."""
    return Rejection(400 if request.modern else 200, jsonrpc.INVALID_PARAMS, message, request.id)
