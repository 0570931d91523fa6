"""The loop of one request: ask the model, run the gateway's tools that it calls, and ask again, until it answers or
calls tools of the caller.

`llm_endpoint` reads the request and writes the answer; each call goes the way of every call (`run_calls`). Wire formats
are known by their protocol alone.
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
from fairlead_llm.refused_thoughts import LOST_THOUGHTS, tells_of_thoughts, without_thoughts
from fairlead_llm.response_reports import MOST_NAMED, CallReport, PendingCall, RequestReport
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

LAST_WORDS: Final = 30.0
"""Most seconds in which a client may take the end of a stream after the request's time is over."""
ERROR_ROUNDS: Final = 2
"""Rounds in a row whose calls all failed, after which the model has to answer without tools."""
LOSSES: Final = "x-fairlead-losses"
"""Header of an answer: codes of what the provider's format could not say, and other losses."""


class RoundCalls(msgspec.Struct, frozen=True):
    """Calls of one message of the model."""

    gateway_calls: Sequence[ModelCall]
    """Calls that the gateway runs."""
    client_calls: Sequence[CallKey]
    """Calls that the caller gets: of its own tools, and those that wait for its approval."""
    unwrapped: Mapping[str, InnerCall] = {}
    """Inner calls of `execute_tool` among those of the caller, by id."""


class RoundResults(msgspec.Struct, frozen=True):
    """Results of the calls of one round that the gateway ran."""

    messages: list[bytes]
    """Messages with the results, as the model gets them."""
    finished: list[FinishedCall]


NO_RESULTS: Final = RoundResults([], [])
"""Results of a round without calls for the gateway."""


def running_call(call: ModelCall) -> RunningCall:
    """A call as clients with `show_calls` see it; arguments that cannot be parsed become `{}`."""
    arguments = b"{}" if isinstance(call.arguments, InvalidCall) else encode(call.arguments)
    return RunningCall(call.id, call.wire_name, arguments)


class ToolLoop:
    """One request: its rounds so far, and the calls that were run."""

    def __init__(
        self,
        services: ModelServices,
        preparation: RequestPreparation,
        client_request: ModelRequest,
        prepared: PreparedRequest,
        record: RequestRecord,
    ) -> None:
        """`preparation` prepares the request for the remaining models, where one fails before any of its answer has
        come.
        """
        self._tools = services.tools
        self._client = services.client.for_caller(client_request.caller_key)
        self._limits = services.limits
        self._breakers = services.breakers
        self._preparation = preparation
        self._client_request = client_request
        self.prepared = prepared
        self._attempt: ModelAttempt | None = None
        self.long = prepared.long
        """Whether the request or an answer is long, so that it is parsed and written in the thread for heavy work."""
        self.record = record
        self._end = time.monotonic() + services.limits.seconds
        self._appended: list[bytes] = []
        self._failed_rounds = 0
        self._rounds = 0
        self.tools_disabled = False
        """Whether the model was told to call no tool in the current round (`tool_choice: none`)."""
        self.calls: list[CallReport] = []
        self._pending: Sequence[PendingCall] = ()
        self._has_run = False
        self._must_answer = False
        """Whether the model has to answer now: its turn cannot be stored, so that after a call of the caller's it would
        not see what was run, and call it again.
        """
        self._repeated = False
        self._without_thoughts = False
        """Whether requests leave out thoughts that another model sealed."""

    @property
    def offer(self) -> ToolOffer | None:
        """Tools that the model got; None if none were to be injected."""
        return self.prepared.offer

    @property
    def client_run_names(self) -> Collection[str] | None:
        """Names of tools whose calls the caller gets: its own tools, and tools that need its approval or that policies
        do not let run by themselves. None: the gateway runs no calls of this request.
        """
        offer = self.offer
        if offer is None or not offer.definitions:
            return None
        own = self.prepared.request.tool_names
        return offer.client_run.union(own) if offer.client_run else own

    @property
    def _offer_context(self) -> OfferContext:
        return OfferContext(self.offer or ToolOffer(0), self._client_request.wishes, self.prepared.wire.name)

    @property
    def earlier_messages(self) -> Sequence[bytes]:
        """Messages of earlier rounds, which the caller does not see."""
        return self._appended

    @property
    def target(self) -> ModelTarget:
        """The model that answers."""
        return self.prepared.targets[0]

    @property
    def limits_reached(self) -> bool:
        """Whether the model must call no more tools: a limit of rounds, failed rounds or tokens is reached."""
        return (
            self._rounds >= self._limits.rounds
            or self._failed_rounds >= ERROR_ROUNDS
            or self._must_answer
            or self._spent
        )

    @property
    def _spent(self) -> bool:
        most = self._limits.tokens
        return bool(self._rounds) and (0 < most <= self.record.used.total or self.record.refusal() is not None)

    @property
    def outcome(self) -> str:
        """Outcome of the request if it ends now without an error."""
        return PENDING if self._pending else STOPPED if self.tools_disabled else OK

    async def ask(self) -> ProviderAnswer:
        """The provider's answer in the next round. In the first round, the next model is asked where one fails. Raises
        LlmError where no model can be reached.
        """
        while True:
            self.tools_disabled = self.limits_reached
            # another model's request is read again, without results of calls that ran: it would call those tools again
            spare = len(self.prepared.targets) > 1 and not self._rounds and not self._has_run
            answer, failure = None, None
            try:
                answer = await self._attempt_model()
            except LlmError as error:
                if not spare or not self.seconds_left():
                    raise
                failure = error
            if answer is not None and await self._refuses_thoughts(answer):
                answer.close()
                continue
            if answer is not None and not (spare and asks_next(answer.status)):
                self._rounds += answer.status == 200
                return answer
            following = await self._prepare_next(answer)
            if following is not None:
                self.prepared = following
                self._without_thoughts = False
                if answer is not None:
                    answer.close()
                self._open_budget()
            elif answer is not None:
                return answer
            elif failure is not None:
                raise failure

    async def _refuses_thoughts(self, answer: ProviderAnswer) -> bool:
        """Whether the model refuses thoughts that another model sealed: the conversation may have been with that one
        before, and the request is sent again without them.
        """
        if answer.status != 400 or self._rounds or self._without_thoughts:
            return False
        try:
            self._without_thoughts = tells_of_thoughts(await answer.whole())
        except ProviderUnavailable:
            return False  # the caller reads it again, and gets the error
        return self._without_thoughts

    async def _prepare_next(self, held: ProviderAnswer | None) -> PreparedRequest | None:
        """The request prepared for the remaining models; None where none of their APIs can say all of it. Any other
        failure closes `held`, the answer of the model before.
        """
        try:
            return await self._preparation.prepare(self._client_request, self.prepared.targets[1:])
        except BadRequest:
            return None
        except BaseException:
            if held is not None:
                held.close()
            raise

    def _open_budget(self) -> None:
        """Charge the quotas of the namespaces whose tools the next model gets. Raises LlmError where one is spent."""
        self.record.open_budget(self.target, () if self.offer is None else self.offer.quotas)
        refused = self.record.refusal()
        if refused is not None:
            raise budget_error(refused)

    async def _attempt_model(self) -> ProviderAnswer:
        """The answer of the current model, unless its breaker is open. Raises LlmError."""
        try:
            attempt = self._attempt = self._breakers.attempt(self.target)
        except ModelClosed as closed:
            raise closed_error(closed, self.no_retry) from closed
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
        # a limit of one caller's own key says nothing of the requests of others
        attempt.record_answer(answer.status, None if self._client.keyed else answer.retry_after)
        if answer.status == 200:
            self.record.begin_answer()
        else:
            self.record.fail_round(str(answer.status))
        return answer

    def round_finished(self, usage: Mapping[str, Any]) -> None:
        """Record that a round was read to its end. `usage` is the provider's, summed over all rounds."""
        self.record.finish_round(usage)
        if self._attempt is not None:
            self._attempt.record_success()

    def round_broken(self, error: Exception) -> None:
        """Record that the provider's answer broke off, or cannot be parsed."""
        if self._attempt is not None:
            self._attempt.record_failure(error)

    async def _send_round(self) -> ProviderAnswer:
        prepared, provider = self.prepared, self._preparation.providers.by_name[self.target.provider]
        injected = self.offer.definitions if self.offer is not None else ()
        counts = self.client_run_names is not None or prepared.request.losses is not None
        model_round = ModelRound(
            self.target.model,
            self._appended,
            injected,
            usage=provider.stream_usage and counts,
            first=not self._appended,
            last=self.tools_disabled,
        )
        body = await self._tools.work.process_document(lambda: self._write_body(model_round), long=self.long)
        traced = self.record.begin_round(self.target, body, self.offer.tokens if self.offer is not None else {})
        path = prepared.wire.path(self.target.model, stream=prepared.request.stream)
        headers = {**prepared.headers, **traced}
        request = ProviderRequest(path, body, headers, prepared.wire.answer_headers)
        return await self._client.send(provider, request)

    def _write_body(self, model_round: ModelRound) -> bytes:
        """The body of the next round's request."""
        prepared = self.prepared
        body = with_provider_ids(prepared.request.body(model_round))
        unsealed = without_thoughts(prepared.wire, body, len(self._appended)) if self._without_thoughts else None
        if unsealed is not None:
            prepared.losses.add(LOST_THOUGHTS)
        return unsealed or body

    @property
    def last_words_s(self) -> float:
        """Seconds in which a client may take the end of a stream after the request's time is over."""
        return min(self._limits.seconds, LAST_WORDS)

    def seconds_left(self) -> float:
        """Seconds that are left for the request."""
        return max(self._end - time.monotonic(), 0.0)

    @property
    def no_retry(self) -> Mapping[str, str]:
        """Headers of an error: SDKs must not repeat a request that has run tools."""
        return NO_RETRY if self._has_run else {}

    @property
    def _loss_header(self) -> Mapping[str, str]:
        losses = ", ".join(self.prepared.losses)
        return {LOSSES: losses} if losses else {}

    def timeout_error(self) -> LlmError:
        """The error (504) for a request whose time is over."""
        return LlmError(504, "the time for this request is over", "timeout", headers=self.no_retry)

    async def split(self, message: Mapping[str, Any]) -> RoundCalls:
        """Calls of a message: the gateway's and the caller's. Raises LlmError for more than `MAX_CALLS`."""
        return await self._tools.work.process_document(lambda: self._split(message), long=self.long)

    def _split(self, message: Mapping[str, Any]) -> RoundCalls:
        calls = message_format(self.prepared.wire.name).parse_calls(message)
        names = self.client_run_names
        if names is not None and len(calls) > MAX_CALLS:
            too_many = f"the provider's answer has more than {MAX_CALLS} calls"
            raise LlmError(502, too_many, "bad_answer", headers=self.no_retry)
        inner = manual_inner_calls(self.offer or ToolOffer(0), calls, self.prepared.request.tool_names)
        calls = [inner.get(call.id, call) for call in calls]
        gateway_calls: list[ModelCall] = []
        client_calls: list[ModelCall] = []
        for call in calls:
            (client_calls if names is None or call.wire_name in names else gateway_calls).append(call)
        manual = self.offer.manual if self.offer is not None else {}
        self._pending = [
            PendingCall(call.id, call.wire_name[:128], manual[call.wire_name])
            for call in client_calls[:MOST_NAMED]
            if call.wire_name in manual
        ]
        shown = [CallKey(call.id, call.wire_name) for call in client_calls]
        unwrapped = {ident: InnerCall(call.name, encode(call.arguments)) for ident, call in inner.items()}
        return RoundCalls(gateway_calls, shown, unwrapped)

    async def run(self, calls: Sequence[ModelCall], *, approved: bool = False) -> RoundResults:
        """Run calls here. `approved`: by the client, as policies do not let them run by themselves. Raises Problem."""
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
        finished = []
        for call, run in zip(calls, runs, strict=True):
            self.calls.append(CallReport(run.plan.call.wire_name[:128], round(run.seconds * 1000, 1), run.failed))
            if run.tool is not None:
                self.record.record_tool_call(run.tool, run.result_tokens)
            begun = running_call(call)
            finished.append(FinishedCall(begun.id, begun.name, begun.arguments, run.result or {}, run.seconds))
        if (
            self.client_run_names
            and not self.prepared.keeps_turns
            and not approved
            and not all(run.repeatable for run in runs)
        ):
            self._must_answer = True
            self.prepared.losses.add(NOT_KEPT)
        if runs:
            self._failed_rounds = self._failed_rounds + 1 if all(run.failed for run in runs) else 0
        written = message_format(self.prepared.wire.name).write_results([*calls], [run.result for run in runs])
        return RoundResults([encode(each) for each in written.messages], finished)

    async def all_repeatable(self, calls: Sequence[ModelCall]) -> bool:
        """Whether all these calls can be made twice without harm. Raises Problem."""
        with never_refuse():
            return await all_repeatable(self._tools, self.record.origin.identity, self._offer_context, calls)

    def repeats(self, malformed_call: bool) -> bool:
        """Whether to repeat a round because its call cannot be parsed (`malformed_call`); not twice in a row."""
        self._repeated = (
            malformed_call and not self._repeated and self.client_run_names is not None and not self.tools_disabled
        )
        return self._repeated

    def append_results(self, messages: Sequence[bytes], results: Sequence[bytes]) -> None:
        """Append the model's messages and the results of their calls to the next round's request."""
        self._appended += [*messages, *results]

    @property
    def _report(self) -> RequestReport:
        return RequestReport(self.target, self.offer, self.prepared.tier_rule)

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers with model, tier, tools and losses, as far as they are known before the answer."""
        return {**self._report.headers(), **self._loss_header}

    def report(self) -> dict[str, Any]:
        """The member `fairlead` of the answer: model, rounds, tools, calls and losses."""
        member = self._report.member(self._rounds, self.calls, self._pending, stopped=self.tools_disabled)
        losses = [*self.prepared.losses]
        return {**member, "losses": losses} if losses else member
