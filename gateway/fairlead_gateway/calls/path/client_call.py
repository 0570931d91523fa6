"""A client's request to a server: its data, its checks, and the translation into the upstream request.

The checks run in the order of the table in docs/reference/calls.md. Each check, called a stage, returns a refusal, or
None if the call may proceed. `upstream_request` then translates the request to the server's era and names, and sets
trace context, progress token, `requestState` and capabilities. `calls.path.call` executes the request.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from msgspec import Raw

from fairlead_gateway.calls.path.attempts import Attempts
from fairlead_gateway.calls.path.context import CallContext
from fairlead_gateway.calls.questions.message_relay import MessageRelay
from fairlead_gateway.calls.questions.server_requests import requested_level
from fairlead_gateway.calls.results.cache import key_of, scope
from fairlead_gateway.calls.routes import param_headers
from fairlead_gateway.calls.routes.targets import SUBSCRIPTIONS
from fairlead_gateway.calls.sealed.client_capabilities import features_of
from fairlead_gateway.calls.tasks.client_tasks import with_tasks_extension
from fairlead_gateway.calls.translation import translate
from fairlead_gateway.core.call_shape import CallShape, MisnamedArgument
from fairlead_gateway.core.client_message import Rejection
from fairlead_gateway.core.client_peer import ClientPeer
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.core.long_results import HEADER_LIMIT, LEAST_TOKENS, META_LIMIT, MOST_TOKENS, tokens_in
from fairlead_gateway.core.request import Exchange, McpRequest, agent_of
from fairlead_gateway.core.route import Route, smaller
from fairlead_gateway.core.upstream_request import UpstreamRequest
from fairlead_gateway.limits.limiter import NO_LEASE, Lease, LimitRefusal
from fairlead_gateway.tracing.trace import TRACEPARENT, pass_on
from fairlead_gateway.upstream import affinity
from fairlead_gateway.upstream.log_levels import DEFAULT_LEVEL
from fairlead_mcp import eras, jsonrpc
from fairlead_mcp.capabilities import for_method
from fairlead_mcp.errors import RpcError
from fairlead_mcp.jsonrpc import RawObject
from fairlead_mcp.messages import ResultMembers
from fairlead_mcp.methods import EXTENSION_METHODS
from fairlead_mcp.via import VIA, make_via_line
from fairlead_tools import refusals
from fairlead_tools.refusal import CONNECTION_LOST, INVALID_ARGUMENTS, Refusal

NOT_REPEATED: Final = -1
"""`ClientCall.repeats` of a call that does not repeat another call."""
NO_FEATURES: Final = b"{}"
"""Client capabilities of a client that declared none, raw JSON."""
T = TypeVar("T")


class ClientCall:
    """A client's request to a server: its route, the values that checks before sending have set, and its `attempts`."""

    __slots__ = (
        "attempts",
        "cache_key",
        "context",
        "continued",
        "denying_rules",
        "dialogs",
        "exchange",
        "features",
        "has_awaited_sign_in",
        "lease",
        "level",
        "limit",
        "max_result_tokens",
        "param_lines",
        "part_is_selected",
        "refusal",
        "repeats",
        "request",
        "rounds",
        "route",
    )

    def __init__(
        self,
        context: CallContext,
        exchange: Exchange,
        route: Route,
        request: McpRequest,
        attempts: Attempts,
        param_lines: bytes,
    ) -> None:
        self.context = context
        self.exchange = exchange
        self.route = route
        self.request = request
        self.attempts = attempts
        self.param_lines = param_lines
        """`Mcp-Param-*` headers, as lines of an HTTP head."""
        self.lease: Lease = NO_LEASE
        """Quotas that count the call as running until it ends."""
        self.max_result_tokens: int | None = None
        """Limit on the tokens of the result; None for no limit."""
        self.cache_key: bytes | None = None
        """Cache key of the result; None if it is neither taken from the cache nor stored there."""
        self.features: bytes | None = None
        """Capabilities of a modern client, read before its params are translated for a legacy server; otherwise None.
        """
        self.level: str | None = None
        """Lowest severity of log messages that the client asked for; None for no log messages."""
        self.continued = False
        """Whether the request continues a call that was answered with `input_required` (SEP-2322)."""
        self.rounds = 0
        """Number of times that a modern server has asked this legacy client for input (`input_required`)."""
        self.repeats = NOT_REPEATED
        """How often a repeated call was sent again because the user had not finished a page; NOT_REPEATED if the client
        does not repeat a call.
        """
        self.dialogs = 0
        """How often a modern client was asked to open pages before it repeated the call."""
        self.part_is_selected = False
        """Whether the part of the result that clients get has been selected already (`CallShape.selection`)."""
        self.has_awaited_sign_in = False
        """Whether the call has waited for its user to sign in."""
        self.refusal = ""
        """Message of the gateway's refusal, as sent to the client; empty if the call was not refused."""
        self.denying_rules = ""
        """Names of the policy rules that forbid the arguments; empty if none does."""
        self.limit = ""
        """Name of the limit on calls that refused the call; empty if none did."""

    @property
    def agent(self) -> str:
        """Agent that the request is counted for."""
        return agent_of(self.exchange)

    @property
    def identity(self) -> Identity:
        return self.exchange.identity

    @property
    def done(self) -> bool:
        """Whether the call was answered or abandoned."""
        return self.attempts.done

    @property
    def own_session(self) -> bytes | None:
        """Id of the client's session, if its signature was verified; an unverified id may belong to another client."""
        request = self.request
        return request.session if request.legacy_session is not None else None

    def capabilities(self) -> bytes | None:
        """Client capabilities as normalized raw JSON, or None."""
        request = self.request
        if request.modern:
            return features_of(request) if self.features is None else self.features
        peer = None if request.legacy_session is None else request.legacy_session.peer
        return None if peer is None else peer.features

    def choose_session(self) -> None:
        """Set the client whose own session with the server is used, and the level of log messages that it gets."""
        request = self.request
        if request.modern:
            self.level = requested_level(request) if request.meta.has_log_level else None
        else:
            self.level = None if request.session is None else self.context.levels.get(request.session)
            legacy_session = request.legacy_session
            if legacy_session is not None:
                self.attempts.client = legacy_session.peer
        if self.route.tool is None and request.method in SUBSCRIPTIONS and self.attempts.client is None:
            if request.session is None or request.legacy_session is None:
                raise RpcError(
                    jsonrpc.METHOD_NOT_FOUND,
                    "Subscriptions to resources need a session: open one with initialize",
                    None,
                )
            self.attempts.client = ClientPeer(request.session, NO_FEATURES)
        if self.continued:
            self.attempts.idempotent = False


class CallControl(Protocol):
    """Operations of a `ToolCall` for the steps that interrupt it: to ask its user, or to select a part of its result.

    Calls without such a step never use this Protocol, which is slow in compiled code.
    """

    call: ClientCall

    def send(self) -> None:
        """Send the call to its server, or send it again. Raises nothing."""
        ...

    def continue_after(self, work: Coroutine[Any, Any, T], then: Callable[[T], None], name: str) -> None:
        """Run the coroutine in a task, then call `then` with its value."""
        ...

    def finish(self, result: Raw, members: ResultMembers | None = None, *, from_modern: bool) -> None:
        """Answer the client with a server's result. Raises ANSWER_ERRORS if the result is invalid.

        `members` are the result's parsed members, or None; `from_modern` tells the era of the server.
        """
        ...

    def answer_with_questions(self, questions: bytes, error_type: str = "") -> None:
        """Answer a modern client with `questions`, an `input_required` result; `error_type` is the code that is
        recorded. Raises ANSWER_ERRORS.
        """
        ...

    def answer_with_error(self, error_type: str, rejection: Rejection) -> None:
        """Answer with a JSON-RPC error; `error_type` is the code that is recorded."""
        ...

    def refuse(self, refusal: Refusal) -> None:
        """Answer with a refusal: a tool call gets it as a result, which the model reads, other requests as an error."""
        ...

    def give_up(self, error: Exception) -> None:
        """Fail the call with an error of the server or of the gateway."""
        ...

    def reject_answer(self, error: Exception) -> None:
        """Fail the call because the server's answer is invalid."""
        ...

    def open_relay(self) -> MessageRelay:
        """The call's message relay, created on first use: most servers send no messages during a call."""
        ...

    @property
    def congested(self) -> bool:
        """Whether the client's connection has a full write buffer."""
        ...

    def when_writable(self, resume: Callable[[], None]) -> None:
        """Call `resume` once, when the client reads again or has disconnected."""
        ...


Stage: TypeAlias = Callable[[ClientCall], Refusal | None]


def check_availability(call: ClientCall) -> Refusal | None:
    """Refuse tools that are too slow for the view's tier, or that require a capability the client has not declared."""
    route = call.route
    return None if route.unavailable is None or route.available_to(call.capabilities()) else route.unavailable


def check_arguments(call: ClientCall) -> Refusal | None:
    """Refuse arguments that do not match the tool's `inputSchema`, then rename them for the server. A request that
    continues a call after `input_required` may omit the arguments.
    """
    check, request, shape = call.route.check, call.request, call.route.shape
    if check is None and shape is None:
        return None
    arguments = request.params.get("arguments")
    if arguments is None and request.continued:
        return None
    if check is not None:
        checker = check.arguments_checker
        errors = check.arguments(arguments) if checker is None else checker.argument_errors(arguments)
        if errors is not None:
            return refusals.invalid_arguments(errors)
    return None if shape is None else _translate_arguments(call, shape, arguments)


def _translate_arguments(call: ClientCall, shape: CallShape, client_arguments: Raw | None) -> Refusal | None:
    """Replace the client's arguments by those for the server, which policies, cache and audit log read too."""
    request = call.request
    if shape.missing_secret is not None:
        message = (
            f"the gateway does not have the secret value of the argument '{shape.missing_secret}' of {call.route.name}"
        )
        return Refusal(CONNECTION_LOST, message)
    try:
        server_arguments = shape.to_server(client_arguments)
    except MisnamedArgument as error:
        return refusals.invalid_arguments(str(error))
    except jsonrpc.UNREADABLE:
        return refusals.invalid_arguments("the arguments are not a JSON object")
    request.client_arguments = Raw(b"{}") if client_arguments is None else client_arguments
    request.params = {**request.params, "arguments": server_arguments}
    if shape.param_headers:
        call.param_lines = param_headers.lines(server_arguments, shape.param_headers)
    return None


def check_constraint(call: ClientCall) -> Refusal | None:
    """Refuse arguments that a policy does not allow."""
    constraint = call.route.constraint
    if constraint is None:
        return None
    refusal = constraint.refusal(call.request.params.get("arguments"))
    if refusal is not None:
        call.denying_rules = constraint.rule_names
    return refusal


def set_result_limit(call: ClientCall) -> Refusal | None:
    """Set the limit on the result's tokens: the smallest that the tool, the policies or the request set."""
    request, route = call.request, call.route
    max_tokens = route.result_tokens if route.quota is None else route.max_result_tokens
    header, requested_tokens = call.exchange.headers.get(HEADER_LIMIT), request.meta.result_tokens
    if header is not None or requested_tokens is not None or request.result_tokens is not None:
        if header is not None:
            requested_tokens = smaller(requested_tokens, tokens_in(header.decode("latin-1")) or 0)
        if requested_tokens == 0:
            value_range = f"a number of tokens, {LEAST_TOKENS} to {MOST_TOKENS}"
            return Refusal(INVALID_ARGUMENTS, f"{META_LIMIT} and the header Fairlead-Result-Tokens take {value_range}")
        max_tokens = smaller(max_tokens, smaller(requested_tokens, request.result_tokens))
    call.max_result_tokens = request.default_tokens if max_tokens is None else max_tokens
    return None


def check_online(call: ClientCall) -> Refusal | None:
    """Refuse calls to offline servers. Runs before `check_limits`, so that these calls use up no quota."""
    route = call.route
    if not route.offline or route.guard.still_answers():
        return None
    return Refusal(
        CONNECTION_LOST, f"the server {route.server.key} is offline: `fairlead servers {route.server.key}` says why"
    )


def check_limits(call: ClientCall) -> Refusal | None:
    """Refuse tool calls beyond the quotas of the agent, of policies and of the tool."""
    limiter, route = call.context.limiter, call.route
    if limiter is None or route.tool is None or not (limiter.counts_all or route.counted):
        return None
    admission = limiter.admit(call.agent, route.quota, route.id, route.caps)
    if isinstance(admission, LimitRefusal):
        call.limit = admission.scope
        return refusals.limit_refusal(admission.message, admission.retry_after)
    call.lease = admission
    return None


def use_cache(call: ClientCall) -> Refusal | None:
    """Set the key by which the call is answered from the cache, or waits for an equal call in progress."""
    route, context = call.route, call.context
    if not route.cacheable_seconds or not context.cache.enabled or call.request.continued:
        return None
    scope_hash = route.cache_scope
    if route.per_client:
        session = call.own_session
        if session is None:
            return None
        scope_hash = scope(scope_hash, session)
    credentials = route.binding.credentials
    if credentials is not None:
        caller_scope = credentials.result_scope(call.exchange.identity)
        if caller_scope is None:
            return None
        scope_hash = scope(scope_hash, caller_scope)
    params = call.request.params
    call.cache_key = key_of(scope_hash, params.get("arguments"), params.get("_meta"))
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


def upstream_request(
    call: ClientCall,
    attempts: Attempts,
    members: RawObject,
    client: ClientPeer | None,
    *,
    modern: bool,
    tasks: bool = False,
) -> UpstreamRequest:
    """The upstream request of a call, for a modern or a legacy server.

    `attempts` will send the request: the attempts of the call, or of its `BridgedCall`. `members` are the params, which
    this function modifies. `client` is the client whose own session with the server is used, if any. `tasks` tells that
    the client or the gateway declares the tasks extension, so that the answer may be a task (SEP-2663).

    Raises RpcError for a `requestState` of another principal or server, and msgspec.DecodeError if `_meta` is not an
    object.
    """
    route, request, headers = attempts.route, call.request, call.exchange.headers
    tag: bytes | None = None
    if call.continued:
        members, tag = _resume(call, members)
    if route.task is not None:
        tag = route.task.pod  # requests about a task have no `requestState` that could name the pod
    lines = b""
    if attempts.span is None and TRACEPARENT in headers:  # with tracing, each attempt sends its own span instead
        members, lines = pass_on(members, headers)
    if VIA in headers:
        lines += make_via_line(headers[VIA])
    if route.shape is not None:
        members = route.shape.add_secrets(members)
    if route.name_raw is not None:
        members[route.member] = route.name_raw
    request_id = route.upstream.next_id()
    if request.token is None and request.modern == modern:
        params = jsonrpc.encode(members)
    else:
        meta_members = _declare(call, client, tasks=tasks) if modern and not request.modern else None
        params = translate.params(
            members, meta_members, request.token, request_id, from_modern=request.modern, to_modern=modern
        )
    deadline = attempts.deadline if request.token is None else attempts.watch_deadline()
    outgoing = UpstreamRequest(request_id, request.method, params, deadline, route.max_bytes)
    outgoing.name_lines = route.name_lines + call.param_lines if call.param_lines else route.name_lines
    outgoing.header_lines = lines
    outgoing.counter = call.exchange
    outgoing.client = None if tasks else client
    outgoing.session = call.own_session
    outgoing.level = None if modern else call.level
    outgoing.affinity_tag = tag
    # a legacy server may send requests to the client during the call
    may_ask_client = client is not None and not modern
    outgoing.listens = request.token is not None or call.level is not None or may_ask_client or tasks
    outgoing.needs_declaring_session = route.requires != ()
    outgoing.tasks = tasks
    outgoing.idempotent = route.idempotent and not call.continued and not tasks
    return outgoing


def _resume(call: ClientCall, members: RawObject) -> tuple[RawObject, bytes | None]:
    """Params of a request that continues a call after `input_required`, and the tag of the pod that has its state.

    Raises RpcError for a `requestState` of another principal or server.
    """
    request, tag = call.request, None
    if request.modern:
        members = call.context.state_signer.verify(members, call.route.server.key, call.exchange.identity)
    # a legacy client gets no `requestState`, so one that it sends has no tag of the gateway
    if request.modern or call.rounds:
        members, tag = affinity.remove_tag(members)
    return members, tag


def _declare(call: ClientCall, client: ClientPeer | None, *, tasks: bool) -> RawObject:
    """Members of `_meta` for a modern server, on behalf of a legacy client: its capabilities, the extensions that the
    gateway adds, and its log level.
    """
    capabilities = _capabilities(call.request, None if client is None else client.features, tasks=tasks)
    meta_members = eras.meta_members(call.context.client, capabilities or b"{}")
    meta_members[eras.META_LOG_LEVEL] = Raw(b'"%b"' % (call.level or DEFAULT_LEVEL).encode())
    return meta_members


def _capabilities(request: McpRequest, features: bytes | None, *, tasks: bool) -> bytes | None:
    if tasks:
        return with_tasks_extension(features)
    return for_method(features or b"{}", request.method) if request.method in EXTENSION_METHODS else features
