"""Checks of a call before it is sent, in the order of the table in docs/reference/calls.md.

Each check, called a stage, returns a refusal, or None if the call may proceed. The last stage may answer the call from
the cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from msgspec import Raw

from fairlead_gateway.calls.path.call import ToolCall
from fairlead_gateway.calls.results.cache import key_of, scope
from fairlead_gateway.calls.routes import param_headers
from fairlead_gateway.core.call_shape import CallShape, MisnamedArgument
from fairlead_gateway.core.long_results import HEADER_LIMIT, LEAST_TOKENS, META_LIMIT, MOST_TOKENS, tokens_in
from fairlead_gateway.core.route import smaller
from fairlead_gateway.limits.limiter import Limited
from fairlead_mcp import jsonrpc
from fairlead_tools import refusals
from fairlead_tools.refusal import CONNECTION_LOST, INVALID_ARGUMENTS, Refusal

Stage: TypeAlias = Callable[[ToolCall], Refusal | None]


def check_availability(call: ToolCall) -> Refusal | None:
    """Refuse tools that are too slow for the view's tier, or that require a capability the client has not declared."""
    route = call.route
    return None if route.unavailable is None or route.available_to(call.capabilities()) else route.unavailable


def check_arguments(call: ToolCall) -> Refusal | None:
    """Refuse arguments that do not match the tool's `inputSchema`, then rename them for the server. A request that
    continues a call after `input_required` may omit the arguments.
    """
    check, request, shape = call.route.check, call.request, call.route.shape
    if check is None and shape is None:
        return None
    given = request.params.get("arguments")
    if given is None and request.continued:
        return None
    if check is not None:
        checker = check.of_arguments
        wrong = check.arguments(given) if checker is None else checker.argument_errors(given)
        if wrong is not None:
            return refusals.invalid_arguments(wrong)
    return None if shape is None else _translate_arguments(call, shape, given)


def _translate_arguments(call: ToolCall, shape: CallShape, given: Raw | None) -> Refusal | None:
    """Replace the arguments by the server's. Policies, cache and audit log read these too."""
    request = call.request
    if shape.lacking is not None:
        why = f"the gateway does not have the secret value of the argument '{shape.lacking}' of {call.route.name}"
        return Refusal(CONNECTION_LOST, why)
    try:
        arguments = shape.to_server(given)
    except MisnamedArgument as error:
        return refusals.invalid_arguments(str(error))
    except jsonrpc.UNREADABLE:
        return refusals.invalid_arguments("the arguments are not a JSON object")
    request.client_arguments = Raw(b"{}") if given is None else given
    request.params = {**request.params, "arguments": arguments}
    if shape.param_headers:
        call.param_lines = param_headers.lines(arguments, shape.param_headers)
    return None


def check_constraint(call: ToolCall) -> Refusal | None:
    """Refuse arguments that a policy does not allow."""
    bound = call.route.constraint
    if bound is None:
        return None
    refusal = bound.refusal(call.request.params.get("arguments"))
    if refusal is not None:
        call.denied = bound.by
    return refusal


def set_result_limit(call: ToolCall) -> Refusal | None:
    """Set the limit on the result's tokens: the smallest that the tool, the policies or the request set."""
    request, route = call.request, call.route
    bound = route.result_tokens if route.quota is None else route.most_tokens
    header, limit = call.exchange.headers.get(HEADER_LIMIT), request.meta.result_tokens
    if header is not None or limit is not None or request.result_tokens is not None:
        if header is not None:
            limit = smaller(limit, tokens_in(header.decode("latin-1")) or 0)
        if limit == 0:
            bounds = f"a number of tokens, {LEAST_TOKENS} to {MOST_TOKENS}"
            return Refusal(INVALID_ARGUMENTS, f"{META_LIMIT} and the header Fairlead-Result-Tokens take {bounds}")
        bound = smaller(bound, smaller(limit, request.result_tokens))
    call.most_tokens = request.default_tokens if bound is None else bound
    return None


def check_online(call: ToolCall) -> Refusal | None:
    """Refuse calls to offline servers. Runs before `check_limits`, so that these calls use up no quota."""
    route = call.route
    if not route.offline or route.guard.still_answers():
        return None
    return Refusal(
        CONNECTION_LOST, f"the server {route.server.key} is offline: `fairlead servers {route.server.key}` says why"
    )


def check_limits(call: ToolCall) -> Refusal | None:
    """Refuse tool calls beyond the quotas of the agent, of policies and of the tool."""
    limiter, route = call.context.limiter, call.route
    if limiter is None or route.tool is None or not (limiter.counts_all or route.counted):
        return None
    admission = limiter.admit(call.agent, route.quota, route.id, route.caps)
    if isinstance(admission, Limited):
        call.limit = admission.scope
        return refusals.limit_refusal(admission.message, admission.retry_after)
    call.lease = admission
    return None


def use_cache(call: ToolCall) -> Refusal | None:
    """Answer from the cache, or wait for an equal call in progress."""
    route, context = call.route, call.context
    if not route.cacheable_seconds or not context.cache.enabled or call.request.continued:
        return None
    of_scope = route.cache_scope
    if route.per_client:
        session = call.own_session
        if session is None:
            return None
        of_scope = scope(of_scope, session)
    credentials = route.binding.credentials
    if credentials is not None:
        whose = credentials.result_scope(call.exchange.identity)
        if whose is None:
            return None
        of_scope = scope(of_scope, whose)
    params = call.request.params
    key = key_of(of_scope, params.get("arguments"), params.get("_meta"))
    if key is not None:
        call.look_up(key)
    return None


STAGES: Final[tuple[Stage, ...]] = (
    check_availability,
    check_arguments,
    check_constraint,
    set_result_limit,
    check_online,
    check_limits,
    use_cache,
)
