"""Loop of one request: calls the model, runs the calls that the model makes of the gateway's tools, and calls the model
again, until the model answers or calls tools of the client.

`llm_endpoint` reads the request and writes the response. Tool calls take the same path as calls over MCP (`run_calls`).
The loop works for every wire format, because it uses formats only through their protocols.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec

from fairlead_formats.messages.call import MAX_CALLS, InvalidCall, ModelCall
from fairlead_formats.registry import message_format
from fairlead_formats.wire.call_ids import with_provider_ids
from fairlead_formats.wire.errors import LlmError
from fairlead_formats.wire.protocol import BadRequest, CallKey, FinishedCall, InnerCall, ModelRound, RunningCall
from fairlead_llm.preparation import ModelRequest, PreparedRequest, RequestPreparation
from fairlead_llm.refused_thoughts import LOST_THOUGHTS, remove_thoughts, reports_refused_thoughts
from fairlead_llm.response_reports import MAX_NAMED_TOOLS, CallReport, PendingCall, RequestReport
from fairlead_llm.services import ModelServices
from fairlead_llm.stored_turns import NOT_KEPT
from fairlead_models.errors import NO_RETRY, budget_error, closed_error
from fairlead_models.model_breakers import ModelAttempt, ModelClosed
from fairlead_models.next_model import asks_next
from fairlead_models.provider_requests import ProviderAnswer, ProviderRequest, ProviderUnavailable
from fairlead_models.providers import ModelTarget
from fairlead_models.request_record import OK, PENDING, STOPPED, RequestRecord
from fairlead_offers.documents import encode
from fairlead_offers.offer.offered_calls import OfferContext, all_repeatable, manual_inner_calls, run_offered
from fairlead_offers.offer.offers import ToolOffer
from fairlead_offers.workers.heavy_work import never_refuse

END_OF_STREAM_S: Final = 30.0
"""Maximum number of seconds that a client has to receive the end of a stream after the request's time limit."""
ERROR_ROUNDS: Final = 2
"""Number of consecutive rounds in which all calls failed, after which the model has to answer without tools."""
LOSSES: Final = "x-fairlead-losses"
"""Response header with loss codes: what the provider's format does not support, and other losses."""
REPEATS_IDS: Final = frozenset({"openai-chat", "gemini"})
"""Wire formats whose requests may repeat the id of a call in several turns, because some servers number the calls of
each answer from zero.
"""


class RoundCalls(msgspec.Struct, frozen=True):
    """Calls in one message of the model."""

    gateway_calls: Sequence[ModelCall]
    """Calls that the gateway runs."""
    client_calls: Sequence[CallKey]
    """Calls that the client receives: calls of the client's own tools, and calls that need its approval."""
    inner_calls: Mapping[str, InnerCall] = {}
    """Maps the id of a call of `execute_tool` to the inner call that the client receives in its place."""
    dropped_calls: Sequence[ModelCall] = ()
    """Calls of the client's tools that the client does not receive, because its API allows one call per message. The
    model repeats them.
    """


class RoundResults(msgspec.Struct, frozen=True):
    """Results of the calls that the gateway ran in one round."""

    messages: list[bytes]
    """Messages with the results, for the model."""
    finished_calls: list[FinishedCall]


NO_RESULTS: Final = RoundResults([], [])
"""Results of a round in which the gateway ran no calls."""


def running_call(call: ModelCall) -> RunningCall:
    """A call in the form for clients with `show_calls`; unreadable arguments become `{}`."""
    arguments = b"{}" if isinstance(call.arguments, InvalidCall) else encode(call.arguments)
    return RunningCall(call.id, call.wire_name, arguments)


class ToolLoop:
    """State of one request: rounds so far, and calls that the gateway ran."""

    def __init__(
        self,
        services: ModelServices,
        preparation: RequestPreparation,
        client_request: ModelRequest,
        prepared_request: PreparedRequest,
        record: RequestRecord,
    ) -> None:
        """`preparation` prepares the request for the next model if a model fails before its answer has begun."""
        self._tools = services.tools
        self._client = services.client.keyed_client(client_request.caller_key)
        self._limits = services.limits
        self._breakers = services.breakers
        self._preparation = preparation
        self._client_request = client_request
        self.prepared_request = prepared_request
        self._attempt: ModelAttempt | None = None
        """Request to the current model, as its circuit breaker counts it."""
        self.long = prepared_request.long
        """Whether the request or an answer is long, so that both are parsed and written in the worker thread."""
        self.record = record
        self._end = time.monotonic() + services.limits.seconds
        self._appended_messages: list[bytes] = []
        """Messages of the rounds so far: the model's messages, and the results of their calls."""
        self._failed_rounds = 0
        """Number of consecutive rounds in which all calls failed."""
        self._rounds = 0
        self.tools_disabled = False
        """Whether the model must not call tools in the current round (`tool_choice: none`)."""
        self.calls: list[CallReport] = []
        self._pending: Sequence[PendingCall] = ()
        """Calls of the last round that policies do not allow to run automatically."""
        self._has_run = False
        """Whether the gateway has run any call of this request."""
        self._must_answer = False
        """Whether the model has to answer without further calls, because its turn cannot be stored: after a call of a
        client's tool, the model would not see which calls the gateway ran, and would repeat them.
        """
        self._repeated = False
        """Whether the last round is repeated because its call was unreadable."""
        self._without_thoughts = False
        """Whether requests leave out reasoning that another model encrypted or signed."""

    @property
    def offer(self) -> ToolOffer | None:
        """The injected tools; None if none were to be injected."""
        return self.prepared_request.offer

    @property
    def client_tools(self) -> Collection[str] | None:
        """Names of the tools whose calls the client receives: the client's own tools, and tools that need the client's
        approval or that policies do not allow to run automatically. None: the gateway runs no calls of this request.
        """
        offer = self.offer
        if offer is None or not offer.definitions:
            return None
        client_tool_names = self.prepared_request.request.tool_names
        return offer.client_run.union(client_tool_names) if offer.client_run else client_tool_names

    @property
    def _offer_context(self) -> OfferContext:
        return OfferContext(self.offer or ToolOffer(0), self._client_request.wishes, self.prepared_request.wire.name)

    @property
    def earlier_messages(self) -> Sequence[bytes]:
        """Messages of earlier rounds, which the client does not receive."""
        return self._appended_messages

    @property
    def target(self) -> ModelTarget:
        """The current model."""
        return self.prepared_request.targets[0]

    @property
    def limits_reached(self) -> bool:
        """Whether the model must not call more tools, because a limit of rounds, failed rounds or tokens is reached."""
        return (
            self._rounds >= self._limits.rounds
            or self._failed_rounds >= ERROR_ROUNDS
            or self._must_answer
            or self._over_budget
        )

    @property
    def _over_budget(self) -> bool:
        token_limit = self._limits.tokens
        return bool(self._rounds) and (0 < token_limit <= self.record.used.total or self.record.refusal() is not None)

    @property
    def outcome(self) -> str:
        """Outcome of the request if it ends now without an error."""
        return PENDING if self._pending else STOPPED if self.tools_disabled else OK

    async def next_answer(self) -> ProviderAnswer:
        """The provider's answer in the next round. In the first round, if a model fails, the next model of the route is
        called. Raises LlmError if no model can be reached.
        """
        while True:
            self.tools_disabled = self.limits_reached
            # another model gets the original request, without results of calls that ran, and would repeat those calls
            can_try_next = len(self.prepared_request.targets) > 1 and not self._rounds and not self._has_run
            answer, failure = None, None
            try:
                answer = await self._attempt_model()
            except LlmError as error:
                if not can_try_next or not self.seconds_left():
                    raise
                failure = error
            if answer is not None and await self._refuses_thoughts(answer):
                answer.close()
                continue
            if answer is not None and not (can_try_next and asks_next(answer.status)):
                self._rounds += answer.status == 200
                return answer
            next_request = await self._prepare_next(answer)
            if next_request is not None:
                self.prepared_request = next_request
                self._without_thoughts = False
                if answer is not None:
                    answer.close()
                self._open_budget()
            elif answer is not None:
                return answer
            elif failure is not None:
                raise failure

    async def _refuses_thoughts(self, answer: ProviderAnswer) -> bool:
        """Whether the model refuses the request because the conversation has reasoning of another model. If so, the
        request is sent again without that reasoning.
        """
        if answer.status != 400 or self._rounds or self._without_thoughts:
            return False
        try:
            self._without_thoughts = reports_refused_thoughts(await answer.read_whole())
        except ProviderUnavailable:
            return False  # the caller reads the answer again and gets the error
        return self._without_thoughts

    async def _prepare_next(self, previous_answer: ProviderAnswer | None) -> PreparedRequest | None:
        """The request, prepared for the remaining models; None if none of their APIs supports it. Any other failure
        closes `previous_answer`, the previous model's answer.
        """
        try:
            return await self._preparation.prepare(self._client_request, self.prepared_request.targets[1:])
        except BadRequest:
            return None
        except BaseException:
            if previous_answer is not None:
                previous_answer.close()
            raise

    def _open_budget(self) -> None:
        """Charge the quotas of the namespaces whose tools the next model gets. Raises LlmError if one of the quotas is
        used up.
        """
        self.record.open_budget(self.target, () if self.offer is None else self.offer.quotas)
        quota_refusal = self.record.refusal()
        if quota_refusal is not None:
            raise budget_error(quota_refusal)

    async def _attempt_model(self) -> ProviderAnswer:
        """The answer of the current model, unless its circuit breaker is open. Raises LlmError."""
        try:
            attempt = self._attempt = self._breakers.attempt(self.target)
        except ModelClosed as closed_model:
            raise closed_error(closed_model, self.no_retry) from closed_model
        try:
            async with asyncio.timeout_at(asyncio.get_running_loop().time() + self.seconds_left()):
                answer = await self._send_round()
        except (ProviderUnavailable, TimeoutError) as error:
            self.record.fail_round(type(error).__name__)
            if not self.seconds_left():
                attempt.abandon()
                raise self.timeout_error() from error
            attempt.record_failure(error)
            raise LlmError(
                502, f"{self.target.provider}: {error}", "provider_unavailable", headers=self.no_retry
            ) from error
        except BaseException:
            attempt.abandon()
            raise
        # a limit on one client's key does not apply to requests with other keys
        attempt.record_answer(answer.status, None if self._client.keyed else answer.retry_after)
        if answer.status == 200:
            self.record.begin_answer()
        else:
            self.record.fail_round(str(answer.status))
        return answer

    def finish_round(self, usage: Mapping[str, Any]) -> None:
        """Record that a round was read to its end. `usage` is the provider's usage object, summed over all rounds."""
        self.record.finish_round(usage)
        if self._attempt is not None:
            self._attempt.record_success()

    def fail_round(self, error: Exception) -> None:
        """Record that the provider's answer was truncated or cannot be parsed."""
        if self._attempt is not None:
            self._attempt.record_failure(error)

    async def _send_round(self) -> ProviderAnswer:
        prepared_request, provider = self.prepared_request, self._preparation.providers.by_name[self.target.provider]
        injected_tools = self.offer.definitions if self.offer is not None else ()
        needs_usage = self.client_tools is not None or prepared_request.request.losses is not None
        model_round = ModelRound(
            self.target.model,
            self._appended_messages,
            injected_tools,
            requests_usage=provider.stream_usage and needs_usage,
            sends_forced_choice=not self._appended_messages,
            forbids_calls=self.tools_disabled,
        )
        body = await self._tools.work.process_document(lambda: self._write_body(model_round), long=self.long)
        trace_headers = self.record.begin_round(self.target, body, self.offer.tokens if self.offer is not None else {})
        path = prepared_request.wire.path(self.target.model, stream=prepared_request.request.stream)
        headers = {**prepared_request.headers, **trace_headers}
        request = ProviderRequest(path, body, headers, prepared_request.wire.answer_headers)
        return await self._client.send(provider, request)

    def _write_body(self, model_round: ModelRound) -> bytes:
        """Body of the next round's request."""
        prepared_request = self.prepared_request
        body = with_provider_ids(
            prepared_request.request.body(model_round), unique=prepared_request.wire.name not in REPEATS_IDS
        )
        stripped_body = (
            remove_thoughts(prepared_request.wire, body, len(self._appended_messages))
            if self._without_thoughts
            else None
        )
        if stripped_body is not None:
            prepared_request.losses.add(LOST_THOUGHTS)
        return stripped_body or body

    @property
    def end_of_stream_s(self) -> float:
        """Seconds for a client to receive the end of a stream after the request's time limit."""
        return min(self._limits.seconds, END_OF_STREAM_S)

    def seconds_left(self) -> float:
        """Remaining seconds of the request's time limit."""
        return max(self._end - time.monotonic(), 0.0)

    @property
    def no_retry(self) -> Mapping[str, str]:
        """Headers of an error response that keep SDKs from repeating a request which has run tools."""
        return NO_RETRY if self._has_run else {}

    @property
    def _loss_header(self) -> Mapping[str, str]:
        losses = ", ".join(self.prepared_request.losses)
        return {LOSSES: losses} if losses else {}

    def timeout_error(self) -> LlmError:
        """The error (504) for a request that exceeds its time limit."""
        message = f"the request exceeded its time limit of {self._limits.seconds:g} s"
        return LlmError(504, message, "timeout", headers=self.no_retry)

    async def split_calls(self, message: Mapping[str, Any]) -> RoundCalls:
        """Divide the calls of a message into the gateway's calls and the client's calls. Raises LlmError for more than
        `MAX_CALLS` calls.
        """
        return await self._tools.work.process_document(lambda: self._split(message), long=self.long)

    def _split(self, message: Mapping[str, Any]) -> RoundCalls:
        calls = message_format(self.prepared_request.wire.name).parse_calls(message)
        names = self.client_tools
        if names is not None and len(calls) > MAX_CALLS:
            too_many = f"the provider's answer has more than {MAX_CALLS} calls"
            raise LlmError(502, too_many, "bad_answer", headers=self.no_retry)
        inner_calls = manual_inner_calls(self.offer or ToolOffer(0), calls, self.prepared_request.request.tool_names)
        calls = [inner_calls.get(call.id, call) for call in calls]
        gateway_calls: list[ModelCall] = []
        client_calls: list[ModelCall] = []
        for call in calls:
            (client_calls if names is None or call.wire_name in names else gateway_calls).append(call)
        dropped_calls: list[ModelCall] = []
        if self.prepared_request.request.single_call:
            client_calls.sort(key=lambda call: call.id in inner_calls)  # a stream writes these calls last
            client_calls, dropped_calls = client_calls[:1], client_calls[1:]
        manual_reasons = self.offer.manual_reasons if self.offer is not None else {}
        self._pending = [
            PendingCall(call.id, call.wire_name[:128], manual_reasons[call.wire_name])
            for call in client_calls[:MAX_NAMED_TOOLS]
            if call.wire_name in manual_reasons
        ]
        client_keys = [CallKey(call.id, call.wire_name) for call in client_calls]
        inner_calls_by_id = {ident: InnerCall(call.name, encode(call.arguments)) for ident, call in inner_calls.items()}
        return RoundCalls(gateway_calls, client_keys, inner_calls_by_id, dropped_calls)

    async def run(self, calls: Sequence[ModelCall], *, approved: bool = False) -> RoundResults:
        """Run calls of the gateway's tools. `approved`: the client has approved them. Raises Problem."""
        self._has_run = True
        with never_refuse():
            runs = await run_offered(
                self._tools,
                self.record.origin,
                self._offer_context,
                calls,
                already_run=len(self.calls),
                approved=approved,
            )
        finished_calls = []
        for call, run in zip(calls, runs, strict=True):
            self.calls.append(CallReport(run.plan.call.wire_name[:128], round(run.seconds * 1000, 1), run.failed))
            if run.tool is not None:
                self.record.record_tool_call(run.tool, run.result_tokens)
            running = running_call(call)
            finished_calls.append(
                FinishedCall(running.id, running.name, running.arguments, run.result or {}, run.seconds)
            )
        if (
            self.client_tools
            and not self.prepared_request.keeps_turns
            and not approved
            and not all(run.repeatable for run in runs)
        ):
            self._must_answer = True
            self.prepared_request.losses.add(NOT_KEPT)
        if runs:
            self._failed_rounds = self._failed_rounds + 1 if all(run.failed for run in runs) else 0
        result_messages = message_format(self.prepared_request.wire.name).write_results(
            [*calls], [run.result for run in runs]
        )
        return RoundResults([encode(message) for message in result_messages.messages], finished_calls)

    async def all_repeatable(self, calls: Sequence[ModelCall]) -> bool:
        """Whether all these calls can be repeated without harm. Raises Problem."""
        with never_refuse():
            return await all_repeatable(self._tools, self.record.origin.identity, self._offer_context, calls)

    def should_repeat(self, malformed_call: bool) -> bool:
        """Whether to repeat a round because its call is unreadable (`malformed_call`); never twice in a row."""
        self._repeated = (
            malformed_call and not self._repeated and self.client_tools is not None and not self.tools_disabled
        )
        return self._repeated

    def append_results(self, messages: Sequence[bytes], results: Sequence[bytes]) -> None:
        """Append the model's messages and the results of their calls to the next round's request."""
        self._appended_messages += [*messages, *results]

    @property
    def _report(self) -> RequestReport:
        return RequestReport(self.target, self.offer, self.prepared_request.tier_rule)

    @property
    def headers(self) -> Mapping[str, str]:
        """Response headers with model, tier, tools and losses, as far as they are known before the answer."""
        return {**self._report.headers(), **self._loss_header}

    def report(self) -> dict[str, Any]:
        """The member `fairlead` of the response: model, rounds, tools, calls and losses."""
        member = self._report.member(self._rounds, self.calls, self._pending, stopped=self.tools_disabled)
        losses = [*self.prepared_request.losses]
        return {**member, "losses": losses} if losses else member
