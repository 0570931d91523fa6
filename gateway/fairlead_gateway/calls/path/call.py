"""One request of a client to a server, from its checks to the recorded answer: a tool call, a prompt, a resource.

Progress, log messages and questions to the client pass through it as the sink of the request; a task waits only while a
client is asked. It ends exactly once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final, TypeVar

from msgspec import Raw

from fairlead_api.reports import NEUTRAL, OK
from fairlead_gateway.calls.path.attempts import ClientCall
from fairlead_gateway.calls.path.bridged_call import BridgedCall
from fairlead_gateway.calls.path.context import CallContext
from fairlead_gateway.calls.path.outgoing import upstream_request
from fairlead_gateway.calls.path.record import Body, log_defect, record
from fairlead_gateway.calls.questions import round_trips
from fairlead_gateway.calls.questions.message_relay import MessageRelay
from fairlead_gateway.calls.questions.server_requests import level_asked_for
from fairlead_gateway.calls.results.cache import META_CACHE, Kept
from fairlead_gateway.calls.results.outputs import CACHEABLE, present, with_cache_hints
from fairlead_gateway.calls.routes.targets import SUBSCRIPTIONS
from fairlead_gateway.calls.sealed.client_capabilities import features_of
from fairlead_gateway.calls.subscriptions import legacy_subscriptions
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
from fairlead_gateway.core.request import Exchange, McpRequest, agent_of
from fairlead_gateway.core.route import Route
from fairlead_gateway.core.upstream_request import UpstreamRequest
from fairlead_gateway.limits.limiter import NO_LEASE, Lease
from fairlead_gateway.recent.phases import CACHE, CLIENT, NEVER, TASK
from fairlead_gateway.reports.outcomes import outcome_of_refusal
from fairlead_gateway.telemetry import TOOL_ERROR
from fairlead_gateway.upstream.server_session import SUBSCRIBE
from fairlead_mcp import eras, jsonrpc, methods, server_tasks
from fairlead_mcp.errors import McpError, NotMcp, RpcError, Timeout
from fairlead_mcp.escaping import escape
from fairlead_mcp.messages import Message, ResultMembers
from fairlead_tools import refusals
from fairlead_tools.refusal import CANCELLED, Refusal

NO_FEATURES: Final = b"{}"
T = TypeVar("T")


class ToolCall(ClientCall):
    """A request from its checks to the recorded answer. `attempts` get it to its server, in whose place a call that
    bridges the eras has its own; a relay takes what the server says meanwhile to the client.
    """

    __slots__ = (
        "_bridged",
        "_declaration",
        "_following",
        "_key",
        "_members",
        "_modern",
        "_ours",
        "_peer",
        "_relay",
        "lease",
        "most_tokens",
        "waiter",
    )

    def __init__(
        self, context: CallContext, exchange: Exchange, route: Route, request: McpRequest, param_lines: bytes = b""
    ) -> None:
        super().__init__(context, exchange, route, request, param_lines)
        self.lease: Lease = NO_LEASE
        """Accounts that it is counted in until it ends."""
        self.waiter: asyncio.Future[None] | None = None
        """Resolved at its end, for a caller within the gateway."""
        self.most_tokens: int | None = None
        """Tokens that the result may have; None for any number."""
        self._key: bytes | None = None
        """Key under which the result is to be kept."""
        self._following: bytes | None = None
        """Key of the equal call whose result it waits for."""
        self._relay: MessageRelay | None = None
        self._ours = b""
        """Token that its server was asked for progress with: the id of its first attempt, also in those after it."""
        self._modern = False
        """Era of the server that it was sent to."""
        self._members: jsonrpc.RawObject | None = None
        """Params as they were, for further rounds with a modern server."""
        self._bridged: BridgedCall | None = None
        self._peer: ClientPeer | None = None
        """Client to be asked what a task asks, which is not created in its session."""
        self._declaration = client_tasks.NOT_DECLARED
        """State of its declaration of tasks to the server (`calls.tasks.client_tasks`)."""

    @property
    def agent(self) -> str:
        return agent_of(self.exchange)

    def capabilities(self) -> bytes | None:
        """Client capabilities, normalized raw JSON; None for none."""
        request = self.request
        if request.modern:
            return features_of(request)
        peer = None if request.opened is None else request.opened.peer
        return None if peer is None else peer.features

    def run(self, stages: tuple[Callable[[ToolCall], Refusal | None], ...]) -> None:
        """Check and make the call; it may be answered before this returns. Raises nothing."""
        self.context.begin(self)
        if self.context.spans is not None:
            self.attempts.span = self.context.spans.begin(
                self.exchange, self.request, self.route.name, self.route.server.key
            )
        try:
            for stage in stages:
                refusal = stage(self)
                if refusal is not None:
                    self.refuse(refusal)
                    return
            if self._following is None and not self.attempts.done:
                self.send()
        except Exception as error:  # noqa: BLE001  # the edge of the request; `give_up` logs all but errors of the wire
            self.give_up(error)

    # For the cache

    def look_up(self, key: bytes) -> None:
        """Answer with a kept result, or wait for that of an equal call; otherwise its own will be kept."""
        cache = self.context.cache
        cached = cache.get(key)
        if cached is not None:
            self.attempts.enter_phase(CACHE)
            self.take_result(cached)
        elif self.route.caller_deadline:
            return  # it may end before those who wait for it want it to
        elif cache.follow(key, self):
            self._following = key
            self.attempts.enter_phase(CACHE)
        else:
            self._key = key

    def take_result(self, cached: Kept) -> None:
        route, cache = self.route, self.context.cache
        self._following = None
        try:
            outcome = translate.answer(route, self.request, cached.result, from_modern=cached.modern)
            outcome = present(route, self.request.method, outcome)
            result = translate.with_meta(outcome.result, META_CACHE, b'{"ageMs":%d}' % round(cache.age(cached) * 1000))
            self._present(TranslatedResult(result, outcome.is_error))
        except ANSWER_ERRORS as error:
            self.reject_answer(error)

    def become_leader(self, key: bytes) -> None:
        self._key = key
        self.send()

    def send(self) -> None:
        """Send it. Raises nothing."""
        self._following = None
        try:
            if not self._bridge():
                self._choose_session()
                self.attempts.begin()
        except Exception as error:  # noqa: BLE001  # it may be called from another call's end; `give_up` logs defects
            self.give_up(error)

    # Its request

    def build_request(self, modern: bool) -> UpstreamRequest | None:
        request, route = self.request, self.route
        if modern and route.tool is None and request.method in SUBSCRIPTIONS:
            self._watch()
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
        tasks = self._declaration in client_tasks.MAY_BECOME
        client = self._peer or self.attempts.client
        made = upstream_request(self, self.attempts, members, client, modern=modern, tasks=tasks)
        self._ours = made.id
        if self._relay is not None:
            self._relay.follow(made.id)
        return made

    # The server's answer, and its messages until then

    def relay(self, message: Message) -> bool:
        request = self.request
        if self._relay is None and request.modern and request.token is None and self.level is None:
            return False  # it asked for none
        return self._open_relay().notify(message)

    def ask(self, message: Message, answer: AnswerServer) -> None:
        self.attempts.idempotent = False  # nobody is asked the same twice
        self._unshare()
        self._open_relay().on_request(message, answer)

    def pause(self) -> None:
        self.exchange.pause()

    @property
    def congested(self) -> bool:
        return self.exchange.congested

    def when_writable(self, go_on: round_trips.GoOn) -> None:
        self.exchange.when_writable(go_on)

    def accept_result(self, result: Raw, members: ResultMembers | None) -> None:
        try:
            if self._modern and not self.request.modern:
                if self._declaration == client_tasks.WAITED_FOR and server_tasks.is_first_answer(result):
                    self.attempts.measure(NEUTRAL)
                    self._wait_for(result)
                    return
                asking = round_trips.asking_in(result)
                if asking is not None:
                    self.attempts.measure(OK)
                    self._ask_client(asking)
                    return
            self.finish(result, members, from_modern=self._modern)
        except ANSWER_ERRORS as error:
            self.reject_answer(error)

    def finish(self, result: Raw, members: ResultMembers | None = None, *, from_modern: bool) -> None:
        if self.attempts.answered_at < 0:  # of a bridged call
            self.attempts.answered_at = self.context.clock()
        route, request = self.route, self.request
        outcome = translate.answer(route, request, result, members, from_modern=from_modern)
        self.attempts.measure(NEUTRAL if outcome.is_error or outcome.is_task else OK)
        if outcome.mended:
            self.context.mended.tell(route.server.key, route.name, outcome.mended)
        if outcome.needs_input:
            asking = Raw(round_trips.well_formed(outcome.result))
            marked = self.context.state_signer.sign(asking, route.server.key, self.exchange.identity)
            outcome = TranslatedResult(marked, outcome.is_error, outcome.needs_input)
        elif outcome.is_task:
            outcome = self._hand_over(outcome)
        elif route.task is not None:
            about = self.context.tasks.translate_answer(self.exchange, route, outcome, request.method)
            outcome = TranslatedResult(about, outcome.is_error)
        elif request.modern and request.method in CACHEABLE:
            outcome = TranslatedResult(with_cache_hints(outcome.result), outcome.is_error)
        if route.uris is not None or route.verify is not None or route.checks_output:
            outcome = present(route, request.method, outcome)
        if self._key is not None and not outcome.is_error and not outcome.needs_input and not outcome.is_task:
            key, self._key = self._key, None
            self.context.cache.store(key, result, modern=from_modern, seconds=route.cacheable_seconds)
        self._present(outcome)

    def _present(self, outcome: TranslatedResult) -> None:
        """Answer with a result, of which the client gets what it may; before that it is kept where that is wanted."""
        error_type, most = TOOL_ERROR if outcome.is_error else "", self.most_tokens
        work = None
        if (most is not None or self.request.recording is not None) and self.context.keeper is not None:
            work = self.context.keeper.work(self.exchange.identity, self.request, self.route, most, outcome)
        if work is None:
            self.end(error_type, result=outcome.result)
        else:
            self._later(work, partial(self._show, error_type), "keep a result")

    def _show(self, error_type: str, shown: bytes | Raw) -> None:
        # a method, as a function within `_present` would cost each call an object for what it holds on to
        self.end(error_type, result=shown)

    def give_up(self, error: Exception) -> None:
        if isinstance(error, RpcError) and not self.attempts.done:
            if self.route.task is not None:
                error = client_tasks.under_client_id(error, self.route)
            elif self.route.upstream.modern and server_tasks.requires_tasks(error):
                waits = self._declaration == client_tasks.NOT_DECLARED and not self.request.modern
                limited = waits or self._declaration == client_tasks.WITHHELD
                refusal = None
                if limited:
                    refusal = self.context.tasks.over_limit_refusal(self.route, self.agent, waits=waits)
                if refusal is not None:
                    self.limit = client_tasks.LIMIT_NAME
                    self.refuse(refusal)
                    return
                if waits:
                    self._declaration = client_tasks.WAITED_FOR
                    self._peer = self.attempts.client
                    self.attempts.client = None  # sessions are of the era without tasks
                    self.attempts.begin_again()
                    return
        self._answer_error(error)

    def _answer_error(self, error: Exception) -> None:
        """Answer with an error of the server or of the gateway, in the terms of the client's era."""
        request, route = self.request, self.route
        if isinstance(error, Timeout) and error.sent and route.tool is not None:
            timed = self.attempts if self._bridged is None else self._bridged.attempts
            error = Timeout(timed.timeout_message(), sent=True)
        if not isinstance(error, McpError):
            log_defect(self.attempts, request, error)
            body = jsonrpc.error(request.id, jsonrpc.INTERNAL_ERROR, "Internal error")
            self.end(str(jsonrpc.INTERNAL_ERROR), 200, (body,))
        elif route.tool is None or is_for_the_client(request, error):
            self.limit = refusals.limit_of(error)
            rejection = rejection_for(request, error)
            # recorded in the same word for clients of both eras
            self._reject(str(rejection.code) if route.tool is None else refusals.refusal_for(error).code, rejection)
        else:
            self.limit = refusals.limit_of(error)
            self.refuse(refusals.refusal_for(error))

    def reject_answer(self, error: Exception) -> None:
        self.attempts.measure(outcome_of_refusal(error))
        # the context, as mypyc drops the cause of a `raise … from`
        if isinstance(error, RecursionError) or isinstance(error.__context__, RecursionError):
            error = NotMcp(TOO_DEEP)
        self.give_up(error)

    def refuse(self, refusal: Refusal) -> None:
        """Answer with a refusal: of a tool call as a result, which the model reads, of anything else as an error."""
        request = self.request
        self.refusal = refusal.message
        if self.route.tool is None:
            self._reject(refusal.code, rejection_of(request, refusal))
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

    def answer_with_questions(self, questions: bytes) -> None:
        self.attempts.answered_at = self.context.clock()
        outcome = translate.result(questions, from_modern=True, to_modern=True, server_info=self.route.server_info)
        self.end("", result=outcome.result)

    # For the client

    def end(self, error_type: str, status: int = 0, body: Body = (), *, result: bytes | Raw | None = None) -> None:
        """Answer with a result, or with a body of that status, unless the client is gone; and record. No-op when it has
        ended.
        """
        attempts = self.attempts
        if attempts.done:
            return
        attempts.release(listens=self.request.method == SUBSCRIBE)
        for account in self.lease:
            account.leave()
        self._bridged = None
        if self._key is not None:
            self.context.cache.fail(self._key)
        if self._relay is not None:
            self._relay.close()
        if attempts.span is not None:
            attempts.span.end(error_type)
        if self.route.escapes:
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
            record(self, error_type, body)
            if self.waiter is not None and not self.waiter.done():
                self.waiter.set_result(None)

    def cancel(self) -> None:
        if self.attempts.done:
            return
        if self._key is not None:
            key, self._key = self._key, None
            self.context.cache.abandon(key)
        elif self._following is not None:
            self.context.cache.unfollow(self._following, self)
        bridged, self._bridged = self._bridged, None
        gone = self.exchange.gone
        self.attempts.stop()
        if gone:
            self.end(CANCELLED)
        else:
            what = "call" if self.route.tool is not None else "request"
            self.refuse(Refusal(CANCELLED, f"The {what} was cancelled"))
        if bridged is not None:
            bridged.cancel()

    # Inside

    def _open_relay(self) -> MessageRelay:
        """The relay of its server's messages, made with the first: most calls have none."""
        relay = self._relay
        if relay is None:
            relay = self._relay = MessageRelay(
                self.context.server_requests,
                self.exchange,
                self.request,
                self._peer or self.attempts.client,
                self.level,
                self.route,
            )
            relay.follow(self._ours)
        return relay

    def _choose_session(self) -> None:
        """The client's own session with the server, where it offers something or subscribes; its level of messages."""
        request = self.request
        if request.modern:
            self.level = level_asked_for(request) if request.meta.log_level else None
        else:
            self.level = None if request.session is None else self.context.levels.get(request.session)
            opened = request.opened
            if opened is not None:
                self.attempts.client = opened.peer
        if self.route.tool is None and request.method in SUBSCRIPTIONS and self.attempts.client is None:
            if request.session is None or request.opened is None:
                raise RpcError(jsonrpc.METHOD_NOT_FOUND, "Subscriptions need a session", None)
            self.attempts.client = ClientPeer(request.session, NO_FEATURES)
        if request.continued:
            self.continued = True
            self.attempts.idempotent = False

    def _bridge(self) -> bool:
        """Whether it goes over a call that may ask: that of a modern client with capabilities at a legacy server."""
        request, route = self.request, self.route
        if not request.modern or route.upstream.modern_for(None) or request.method not in methods.MCP_NAME_MEMBER:
            return False
        bridge = self.context.bridge
        of = (self.exchange.identity.principal, route.server.key, request.method, route.name)
        call = bridge.resume(request, of)
        if call is None:
            features = features_of(request)
            if features is None:
                return False
            call = BridgedCall(self.context, route, self.agent, of, self.attempts.started, bridge.lease(features))
        self.level = level_asked_for(request) if request.meta.log_level else None
        self.continued = request.continued
        relay = self._open_relay()
        self._bridged = call
        self.attempts.sent_at = self.context.clock()
        self.attempts.answered_at = NEVER
        call.attach(self, relay)
        return True

    def _watch(self) -> None:
        """A legacy client's subscription at a modern server."""
        context, session, begins = self.context, self.request.session or b"", self.request.method == SUBSCRIBE
        legacy_subscriptions.change(
            context.subscriptions, context.server_requests, self.route, session, self.agent, begins=begins
        )
        self._modern = False
        self.attempts.take_result(Raw(b"{}"))

    def _ask_client(self, asking: round_trips.InputRequired) -> None:
        self.rounds += 1
        if self.rounds > round_trips.MAX_ROUNDS:
            raise NotMcp(f"the tool asked more than {round_trips.MAX_ROUNDS} times")
        self._unshare()
        left = self.attempts.deadline - self.context.clock()
        self.attempts.enter_phase(CLIENT)
        self._later(round_trips.answers(self._open_relay(), asking, left), self._again, "ask a client")

    def _unshare(self) -> None:
        """Keep the result for this client, on whose answers it depends; callers that wait for it call themselves."""
        if self._key is not None:
            key, self._key = self._key, None
            self.context.cache.fail(key)

    def _again(self, more: jsonrpc.RawObject) -> None:
        """Send it once more, with what its client answered."""
        self._members = {**(self._members or {}), **more}
        self.attempts.idempotent = False
        self.continued = True
        self.attempts.begin_again()

    def _hand_over(self, outcome: TranslatedResult) -> TranslatedResult:
        """Hand a task over to its client. Raises NotMcp where it has asked for none, and cancels the task."""
        if self._declaration == client_tasks.DECLARED:
            sealed = self.context.tasks.hand_over(self.exchange, self.route, outcome.result)
            return TranslatedResult(sealed, is_error=False, is_task=True)
        task_wait.cancel_soon(self.context.tasks, self.route, outcome.result)
        raise NotMcp("the server made a task of a call that did not declare tasks")

    def _wait_for(self, created: Raw) -> None:
        """Answer a legacy client with what a task ends with."""
        relay = self._open_relay()
        tell = task_wait.progress(self.exchange, self.request.token, escapes=self.route.escapes)
        features = None if self._peer is None else self._peer.features
        self.attempts.enter_phase(TASK)
        task = task_wait.ServerTask.of(self.route, created, features)
        tasks, deadline = self.context.tasks, self.attempts.deadline
        wait = task_wait.TaskWait(tasks, task, relay, tell, deadline, asks=self._unshare)
        self._later(wait.outcome(created), partial(self.finish, from_modern=True), "wait for a task")

    def _later(self, work: Coroutine[Any, Any, T], then: Callable[[T], None], name: str) -> None:
        """Go on with what the coroutine returns."""
        task = asyncio.get_running_loop().create_task(self._go_on(work, then), name=name)
        self.attempts.pending = task
        self.context.own(task)

    async def _go_on(self, work: Coroutine[Any, Any, T], then: Callable[[T], None]) -> None:
        try:
            outcome = await work
            self.attempts.pending = None
            then(outcome)
        except asyncio.CancelledError:
            self.cancel()
            raise
        except Exception as error:  # noqa: BLE001  # the edge of the task; `give_up` logs all but errors of the wire
            self.reject_answer(error)

    def _reject(self, error_type: str, rejection: Rejection) -> None:
        body = jsonrpc.error(self.request.id, rejection.code, rejection.message, rejection.data)
        self.end(error_type, rejection.status, (body,))
