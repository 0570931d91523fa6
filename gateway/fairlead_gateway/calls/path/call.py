"""Executes a client's request to a server, from its checks to the recorded answer.

A `ToolCall` gets everything that the server sends during the call: progress, log messages, requests to the client, and
the answer. It runs in callbacks; an asyncio task exists only while the client is asked something or a server's task
(SEP-2663) is awaited. Every call ends exactly once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from msgspec import Raw

from fairlead_api.reports import NEUTRAL, OK
from fairlead_gateway.calls.path.attempts import AttemptOwner, Attempts
from fairlead_gateway.calls.path.bridged_call import BridgedCall
from fairlead_gateway.calls.path.client_call import ClientCall, upstream_request
from fairlead_gateway.calls.path.context import CallContext
from fairlead_gateway.calls.path.page_answers import take_repeat
from fairlead_gateway.calls.path.record import Body, log_defect, record
from fairlead_gateway.calls.path.reshaped_results import reshape
from fairlead_gateway.calls.path.sign_in_calls import ask_person, close_question
from fairlead_gateway.calls.questions import round_trips
from fairlead_gateway.calls.questions.message_relay import MessageRelay
from fairlead_gateway.calls.questions.server_requests import requested_level
from fairlead_gateway.calls.results.cache import META_CACHE, CachedResult
from fairlead_gateway.calls.results.outputs import CACHEABLE, outcome_for_client, with_cache_hints
from fairlead_gateway.calls.routes.targets import SUBSCRIPTIONS
from fairlead_gateway.calls.subscriptions import legacy_subscriptions
from fairlead_gateway.calls.subscriptions.resource_subscriptions import Subscriber
from fairlead_gateway.calls.tasks import client_tasks, task_wait
from fairlead_gateway.calls.translation import translate
from fairlead_gateway.calls.translation.errors import (
    ANSWER_ERRORS,
    TOO_DEEP,
    is_for_the_client,
    rejection_for,
    rejection_of,
)
from fairlead_gateway.calls.translation.translate import TranslatedResult
from fairlead_gateway.core.client_message import Rejection
from fairlead_gateway.core.client_peer import AnswerServer, ClientPeer
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.core.request import Exchange, McpRequest
from fairlead_gateway.core.route import Route
from fairlead_gateway.core.upstream_request import UpstreamRequest
from fairlead_gateway.recent.phases import CACHE, CLIENT, NEVER, TASK
from fairlead_gateway.reports.outcomes import outcome_of_refusal
from fairlead_gateway.telemetry import TOOL_ERROR
from fairlead_gateway.upstream.server_session import SUBSCRIBE
from fairlead_mcp import eras, jsonrpc, methods, server_tasks, url_elicitation
from fairlead_mcp.errors import HandshakeRefused, McpError, NotMcp, RpcError, Timeout
from fairlead_mcp.escaping import escape
from fairlead_mcp.messages import Message, ResultMembers
from fairlead_mcp.url_elicitation import UrlElicitation
from fairlead_tools import refusals
from fairlead_tools.refusal import CANCELLED, Refusal

T = TypeVar("T")


class ToolCall(AttemptOwner):
    """A client's request from its checks to the recorded answer: a tool call, a prompt, a resource.

    `call` is the client's request with what the checks have set. `attempts` sends it to the server, except that a
    `BridgedCall` sends the requests of modern clients to legacy servers that may ask the client something. A
    `MessageRelay` forwards the server's messages to the client until the answer.
    """

    __slots__ = (
        "_bridged_call",
        "_cache_key",
        "_declaration",
        "_followed_key",
        "_members",
        "_modern",
        "_opened_pages",
        "_peer",
        "_progress_token",
        "_relay",
        "attempts",
        "call",
        "context",
        "exchange",
        "request",
        "route",
        "waiter",
    )

    def __init__(
        self, context: CallContext, exchange: Exchange, route: Route, request: McpRequest, param_lines: bytes = b""
    ) -> None:
        self.context = context
        self.exchange = exchange
        self.route = route
        self.request = request
        self.attempts = Attempts(self, context, route, context.clock())
        self.call = ClientCall(context, exchange, route, request, self.attempts, param_lines)
        self.waiter: asyncio.Future[None] | None = None
        """Future that is resolved when the call ends, for callers within the gateway that await it."""
        self._cache_key: bytes | None = None
        """Cache key under which the result will be stored; None if it will not be stored."""
        self._followed_key: bytes | None = None
        """Cache key of an equal call in progress, whose result this call waits for."""
        self._relay: MessageRelay | None = None
        self._progress_token = b""
        """Progress token sent to the server: the id of the first attempt, also in later attempts."""
        self._modern = False
        """Whether the request was sent to the server as a modern one."""
        self._members: jsonrpc.RawObject | None = None
        """Original params, for further rounds with a modern server."""
        self._opened_pages: round_trips.OpenedPages | None = None
        """Web pages that the user agreed to open; None until a modern server first asks a legacy client."""
        self._bridged_call: BridgedCall | None = None
        """Call of a modern client at a legacy server, which this request starts or continues; None for other eras."""
        self._peer: ClientPeer | None = None
        """Legacy client that gets the questions of the server's task, which is not created in the client's session."""
        self._declaration = client_tasks.NOT_DECLARED
        """Whether and why the tasks extension is declared to the server, a constant of `calls.tasks.client_tasks`."""

    @property
    def agent(self) -> str:
        return self.call.agent

    @property
    def identity(self) -> Identity:
        return self.exchange.identity

    @property
    def done(self) -> bool:
        """Whether the call was answered or abandoned."""
        return self.attempts.done

    def run(self, stages: tuple[Callable[[ClientCall], Refusal | None], ...]) -> None:
        """Check the call with `stages`, then send it; the answer may be sent before this returns. Raises nothing."""
        self.context.begin(self)
        if self.context.spans is not None:
            self.attempts.span = self.context.spans.begin(
                self.exchange, self.request, self.route.name, self.route.server.key
            )
        try:
            if self.request.continued:
                declined = take_repeat(self.call)
                if declined is not None:
                    close_question(self.call)
                    self.refuse(declined)
                    return
                # `take_repeat` has removed the state if the request only repeats a call, which may be retried then
                self.call.continued = self.request.continued
            for stage in stages:
                refusal = stage(self.call)
                if refusal is not None:
                    self.refuse(refusal)
                    return
            if self.call.cache_key is not None:
                self._look_up(self.call.cache_key)
            if self._followed_key is None and not self.attempts.done:
                self.send()
        except Exception as error:  # noqa: BLE001  # the edge of the request; `give_up` logs all but McpErrors
            self.give_up(error)

    # Cache

    def _look_up(self, key: bytes) -> None:
        """Answer from the cache, or wait for the result of an equal call; otherwise mark this call's result for
        caching.
        """
        cache = self.context.cache
        cached = cache.get(key)
        if cached is not None:
            self.attempts.enter_phase(CACHE)
            self.take_result(cached)
        elif self.route.caller_deadline:
            return  # not shared: its deadline may end before those of equal calls, which would wait for its result
        elif cache.follow(key, self):
            self._followed_key = key
            self.attempts.enter_phase(CACHE)
        else:
            self._cache_key = key

    def take_result(self, cached: CachedResult) -> None:
        route, cache = self.route, self.context.cache
        self._followed_key = None
        try:
            outcome = translate.answer(route, self.request, cached.result, from_modern=cached.modern)
            outcome = outcome_for_client(route, self.request.method, outcome)
            result = translate.with_meta(outcome.result, META_CACHE, b'{"ageMs":%d}' % round(cache.age(cached) * 1000))
            self._present(TranslatedResult(result, outcome.is_error))
        except ANSWER_ERRORS as error:
            self.reject_answer(error)

    def become_leader(self, key: bytes) -> None:
        self._cache_key = key
        self.send()

    def send(self) -> None:
        self._followed_key = None
        try:
            if not self._bridge():
                self.call.choose_session()
                self.attempts.begin_again()
        except Exception as error:  # noqa: BLE001  # must not fail the call whose end started this one; `give_up` logs
            self.give_up(error)

    # The upstream request

    def build_request(self, modern: bool) -> UpstreamRequest | None:
        request, route = self.request, self.route
        if modern and route.tool is None and request.method in SUBSCRIPTIONS:
            self._change_subscription()
            return None
        members = request.params
        if self._members is not None:
            members = {**self._members}
        elif not request.modern and route.upstream.modern:
            self._members = {**members}
        if route.tool is not None and (request.meta.extensions or "task" in members or self._declaration):
            self._declaration, members = self.context.tasks.decide_declaration(
                route, request, self.agent, members, self._declaration, modern=modern
            )
        self._modern = modern
        # most calls declare nothing: a look-up of the constant would cost as much as all other lines of this method
        tasks = self._declaration != 0 and self._declaration in client_tasks.TASK_DECLARATIONS
        client = self._peer or self.attempts.client
        outgoing = upstream_request(self.call, self.attempts, members, client, modern=modern, tasks=tasks)
        self._progress_token = outgoing.id
        if self._relay is not None:
            self._relay.follow(outgoing.id)
        return outgoing

    # The server's messages and its answer

    def relay(self, message: Message) -> bool:
        request = self.request
        if self._relay is None and request.modern and request.token is None and self.call.level is None:
            return False  # the client asked for neither progress nor log messages
        return self.open_relay().notify(message)

    def ask(self, message: Message, answer: AnswerServer) -> None:
        self.attempts.idempotent = False  # a retry would ask the client the same question twice
        self._unshare()
        elicitation = url_elicitation.read_request(message.method, message.params)
        if not self.open_relay().on_request(message, answer) and elicitation is not None:
            # not here: the server's connection is still reading the event that contains the question
            asyncio.get_running_loop().call_soon(self._stop_for_page, elicitation)

    def pause(self) -> None:
        self.exchange.pause()

    @property
    def congested(self) -> bool:
        return self.exchange.congested

    def when_writable(self, resume: Callable[[], None]) -> None:
        self.exchange.when_writable(resume)

    def accept_result(self, result: Raw, members: ResultMembers | None) -> None:
        try:
            if self._modern and not self.request.modern:
                if self._declaration == client_tasks.AWAITED and server_tasks.creates_task(result):
                    self.attempts.measure(NEUTRAL)
                    self._wait_for(result)
                    return
                input_required = round_trips.read_questions(result)
                if input_required is not None:
                    self.attempts.measure(OK)
                    self._ask_client(input_required)
                    return
            self.finish(result, members, from_modern=self._modern)
        except ANSWER_ERRORS as error:
            self.reject_answer(error)

    def finish(self, result: Raw, members: ResultMembers | None = None, *, from_modern: bool) -> None:
        if self.attempts.answered_at < 0:  # a bridged call records its own attempts
            self.attempts.answered_at = self.context.clock()
        route, request = self.route, self.request
        if route.shape is not None:
            reshaped = reshape(self, route.shape, result, from_modern=from_modern)
            if reshaped is None:
                return
            members = members if reshaped is result else None
            result = reshaped
        outcome = translate.answer(route, request, result, members, from_modern=from_modern)
        self.attempts.measure(NEUTRAL if outcome.is_error or outcome.is_task else OK)
        if outcome.repaired_defect and (
            route.shape is None or route.shape.selection is None
        ):  # a selected part may be incomplete
            self.context.mended_results.log_once(route.server.key, route.name, outcome.repaired_defect)
        if outcome.needs_input:
            input_required = Raw(round_trips.well_formed(outcome.result))
            round_trips.check_pages(input_required, self.call.capabilities())
            signed = self.context.state_signer.sign(input_required, route.server.key, self.exchange.identity)
            outcome = TranslatedResult(signed, outcome.is_error, outcome.needs_input)
        elif outcome.is_task:
            outcome = self._hand_over(outcome)
        elif route.task is not None:
            translated = self.context.tasks.translate_answer(self.exchange, route, outcome, request.method)
            outcome = TranslatedResult(translated, outcome.is_error)
        elif request.modern and request.method in CACHEABLE:
            outcome = TranslatedResult(with_cache_hints(outcome.result), outcome.is_error)
        if route.uris is not None or route.verify is not None or route.checks_output:
            outcome = outcome_for_client(route, request.method, outcome)
        if self._cache_key is not None and not outcome.is_error and not outcome.needs_input and not outcome.is_task:
            key, self._cache_key = self._cache_key, None
            self.context.cache.store(key, result, modern=from_modern, seconds=route.cacheable_seconds)
        self._present(outcome)

    def _present(self, outcome: TranslatedResult) -> None:
        """Answer with a result. A result that is recorded, or that has too many tokens, is stored first."""
        error_type, max_tokens = TOOL_ERROR if outcome.is_error else "", self.call.max_result_tokens
        work = None
        if (max_tokens is not None or self.request.context_session is not None) and self.context.keeper is not None:
            work = self.context.keeper.prepare(self.exchange.identity, self.request, self.route, max_tokens, outcome)
        if work is None:
            self.end(error_type, result=outcome.result)
        else:
            self.continue_after(work, partial(self._end_with_result, error_type), "keep a result")

    def _end_with_result(self, error_type: str, client_result: bytes | Raw) -> None:
        # a method, because a function within `_present` would allocate a closure per call
        self.end(error_type, result=client_result)

    def give_up(self, error: Exception) -> None:
        if isinstance(error, HandshakeRefused):
            error = error.with_server(str(self.route.server.key))
        if isinstance(error, RpcError) and self.route.shape is not None:
            error = self.route.shape.show_error(error)
        if isinstance(error, RpcError) and not self.attempts.done:
            if self.route.task is not None:
                error = client_tasks.with_sealed_id(error, self.route)
            elif self.route.upstream.modern and server_tasks.requires_tasks(error):
                gateway_waits = self._declaration == client_tasks.NOT_DECLARED and not self.request.modern
                may_be_over_limit = gateway_waits or self._declaration == client_tasks.WITHHELD
                refusal = None
                if may_be_over_limit:
                    refusal = self.context.tasks.over_limit_refusal(self.route, self.agent, gateway_waits=gateway_waits)
                if refusal is not None:
                    self.call.limit = client_tasks.LIMIT_NAME
                    self.refuse(refusal)
                    return
                if gateway_waits:
                    self._declaration = client_tasks.AWAITED
                    self._peer = self.attempts.client
                    self.attempts.client = None  # the tasks extension is modern, and modern requests have no sessions
                    self.attempts.begin_again()
                    return
        self._answer_error(error)

    def _answer_error(self, error: Exception) -> None:
        """Answer with an error of the server or of the gateway, in the form of the client's era."""
        request, route = self.request, self.route
        if isinstance(error, Timeout) and error.sent and route.tool is not None:
            timed_attempts = self.attempts if self._bridged_call is None else self._bridged_call.attempts
            error = Timeout(timed_attempts.timeout_message(), sent=True)
        if not isinstance(error, McpError):
            log_defect(self.attempts, request, error)
            body = jsonrpc.error(request.id, jsonrpc.INTERNAL_ERROR, "Internal error")
            self.end(str(jsonrpc.INTERNAL_ERROR), 200, (body,))
        elif ask_person(self, error):
            pass
        elif route.tool is None or is_for_the_client(request, error):
            self.call.limit = refusals.limit_of(error)
            rejection = rejection_for(request, error)
            # the recorded code is the same for clients of both eras
            self.answer_with_error(
                str(rejection.code) if route.tool is None else refusals.refusal_for(error).code, rejection
            )
        else:
            self.call.limit = refusals.limit_of(error)
            self.refuse(refusals.refusal_for(error))

    def reject_answer(self, error: Exception) -> None:
        self.attempts.measure(outcome_of_refusal(error))
        # checks `__context__`, because mypyc drops the cause of `raise … from`
        if isinstance(error, RecursionError) or isinstance(error.__context__, RecursionError):
            error = NotMcp(TOO_DEEP)
        self.give_up(error)

    def refuse(self, refusal: Refusal) -> None:
        request = self.request
        self.call.refusal = refusal.message
        if self.route.tool is None:
            self.answer_with_error(refusal.code, rejection_of(request, refusal))
            return
        if refusal.required is not None and request.modern:
            code = jsonrpc.MISSING_CLIENT_CAPABILITY
            body = jsonrpc.error(request.id, code, refusal.message, refusal.required)
            self.end(refusal.code, eras.status_for(code), (body,))
            return
        outcome = translate.result(
            refusals.result(refusal), from_modern=False, to_modern=request.modern, server_info=self.context.server_info
        )
        self.end(refusal.code, result=outcome.result)

    def answer_with_questions(self, questions: bytes, error_type: str = "") -> None:
        self.attempts.answered_at = self.context.clock()
        outcome = translate.result(questions, from_modern=True, to_modern=True, server_info=self.route.server_info)
        self.end(error_type, result=outcome.result)

    def answer_with_error(self, error_type: str, rejection: Rejection) -> None:
        body = jsonrpc.error(self.request.id, rejection.code, rejection.message, rejection.data)
        self.end(error_type, rejection.status, (body,))

    # The client's answer

    def end(self, error_type: str, status: int = 0, body: Body = (), *, result: bytes | Raw | None = None) -> None:
        """Answer with `result`, or with `status` and `body`, and record the call.

        Without `result` and `status` nothing is sent, because the client is gone. No-op once the call has ended.
        """
        attempts = self.attempts
        if attempts.done:
            return
        attempts.release(listens=self.request.method == SUBSCRIBE)
        for account in self.call.lease:
            account.leave()
        self._bridged_call = None
        if self._cache_key is not None:
            self.context.cache.fail(self._cache_key)
        if self._relay is not None:
            self._relay.close()
        if attempts.span is not None:
            attempts.span.end(error_type)
        if self.route.must_escape:
            result = None if result is None else escape(result)
            body = tuple(escape(part) for part in body)
        try:
            if result is not None:
                body = (result,)
                self.exchange.succeed(self.request.id, result)
            elif status:
                self.exchange.answer(status, *body)
        finally:
            self.context.end(self)
            record(self.call, error_type, body)
            if self.waiter is not None and not self.waiter.done():
                self.waiter.set_result(None)

    def cancel(self) -> None:
        if self.attempts.done:
            return
        if self._cache_key is not None:
            key, self._cache_key = self._cache_key, None
            self.context.cache.abandon(key)
        elif self._followed_key is not None:
            self.context.cache.unfollow(self._followed_key, self)
        bridged, self._bridged_call = self._bridged_call, None
        client_is_gone = self.exchange.gone
        self.attempts.stop()
        if client_is_gone:
            self.end(CANCELLED)
        else:
            kind = "call" if self.route.tool is not None else "request"
            self.refuse(Refusal(CANCELLED, f"The {kind} was cancelled"))
        if bridged is not None:
            bridged.cancel()

    # Internals

    def continue_after(self, work: Coroutine[Any, Any, T], then: Callable[[T], None], name: str) -> None:
        task = asyncio.get_running_loop().create_task(self._await_then(work, then), name=name)
        self.attempts.pending = task
        self.context.keep_task(task)

    async def _await_then(self, work: Coroutine[Any, Any, T], then: Callable[[T], None]) -> None:
        try:
            outcome = await work
            self.attempts.pending = None
            then(outcome)
        except asyncio.CancelledError:
            self.cancel()
            raise
        except Exception as error:  # noqa: BLE001  # the edge of the task; `give_up` logs all but McpErrors
            self.reject_answer(error)

    def open_relay(self) -> MessageRelay:
        relay = self._relay
        if relay is None:
            relay = self._relay = MessageRelay(
                self.context.server_requests,
                self.exchange,
                self.request,
                self._peer or self.attempts.client,
                self.call.level,
                self.route,
            )
            relay.follow(self._progress_token)
        return relay

    def _bridge(self) -> bool:
        """Send a modern client's call to a legacy server through a `BridgedCall`, which turns the server's questions
        into `input_required` results.

        Returns False and sends nothing if the eras are equal, or if the client supports no questions.
        """
        request, route = self.request, self.route
        if not request.modern or route.upstream.modern_for(None) or request.method not in methods.MCP_NAME_MEMBER:
            return False
        bridge = self.context.bridge
        call_key = (self.exchange.identity.principal, route.server.key, request.method, route.name)
        call = bridge.resume(request, call_key)
        if call is None:
            features = self.call.features = self.call.capabilities()
            if features is None:
                return False
            credentials, identity = route.binding.credentials, self.exchange.identity
            person = b"" if credentials is None else credentials.person(identity)
            peer = bridge.lease(features, person)
            call = BridgedCall(self.context, route, self.agent, call_key, self.attempts.started, peer)
            call.attempts.extended_deadline = self.attempts.extended_deadline
        self.call.level = requested_level(request) if request.meta.has_log_level else None
        self.call.continued = request.continued
        relay = self.open_relay()
        self._bridged_call = call
        self.attempts.sent_at = self.context.clock()
        self.attempts.answered_at = NEVER
        call.attach(self, relay)
        return True

    def _change_subscription(self) -> None:
        """Carry out a legacy client's `resources/subscribe` or `unsubscribe` at a modern server, which has
        `subscriptions/listen` instead.
        """
        context, session, subscribes = self.context, self.request.session or b"", self.request.method == SUBSCRIBE
        legacy_subscriptions.change_subscription(
            context.subscriptions,
            context.server_requests,
            self.route,
            session,
            Subscriber(self.agent, self.identity),
            subscribes=subscribes,
        )
        self._modern = False
        self.attempts.take_result(Raw(b"{}"))

    def _ask_client(self, input_required: round_trips.InputRequired) -> None:
        self.call.rounds += 1
        if self._opened_pages is None:
            self._opened_pages = round_trips.OpenedPages()
        if self.call.rounds > round_trips.MAX_ROUNDS + self._opened_pages.waits:
            raise NotMcp(f"the tool asked the client for input more than {round_trips.MAX_ROUNDS} times")
        self._unshare()
        remaining = self.attempts.deadline - self.context.clock()
        self.attempts.enter_phase(CLIENT)
        self.continue_after(
            round_trips.ask_client(self.open_relay(), input_required, remaining, self._opened_pages),
            self._resend_with_answers,
            "ask a client",
        )

    def _stop_for_page(self, elicitation: UrlElicitation) -> None:
        """End a call whose server waits for the user to open a page, because the client has no stream on which it could
        be asked.
        """
        if not self.attempts.done:
            self.attempts.stop()
            self._answer_error(url_elicitation.required_error((elicitation,)))

    def _unshare(self) -> None:
        """Exclude the result from the cache, as it depends on this client's answers to the server's questions.

        Equal calls that wait for this result are sent to the server themselves.
        """
        if self._cache_key is not None:
            key, self._cache_key = self._cache_key, None
            self.context.cache.fail(key)

    def _resend_with_answers(self, answers: jsonrpc.RawObject) -> None:
        """Send the request again, with the client's answers added to its params."""
        self._members = {**(self._members or {}), **answers}
        self.attempts.idempotent = False
        self.call.continued = True
        self.attempts.begin_again()

    def _hand_over(self, outcome: TranslatedResult) -> TranslatedResult:
        """The result for the client that names the server's new task. Cancels the task and raises NotMcp if the call
        did not declare tasks.
        """
        if self._declaration == client_tasks.DECLARED:
            sealed = self.context.tasks.hand_over(self.exchange, self.route, outcome.result)
            return TranslatedResult(sealed, is_error=False, is_task=True)
        task_wait.cancel_soon(self.context.tasks, self.route, outcome.result, self.identity)
        raise NotMcp("the server created a task although the call did not declare tasks")

    def _wait_for(self, first_answer: Raw) -> None:
        """Wait for the end of the server's task that `first_answer` names, and answer the legacy client with the task's
        result.
        """
        relay = self.open_relay()
        notify = task_wait.progress_reporter(self.exchange, self.request.token, must_escape=self.route.must_escape)
        features = None if self._peer is None else self._peer.features
        self.attempts.enter_phase(TASK)
        task = task_wait.ServerTask.of(self.route, first_answer, features, self.identity)
        tasks, deadline = self.context.tasks, self.attempts.deadline
        wait = task_wait.TaskWait(tasks, task, relay, notify, deadline, on_questions=self._unshare)
        self.continue_after(wait.outcome(first_answer), partial(self.finish, from_modern=True), "wait for a task")
