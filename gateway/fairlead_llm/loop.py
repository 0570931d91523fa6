"""The loop of one request: ask the model, run what it calls of ours, ask again, until it answers or the caller's own
tools are called.

`llm_endpoint` reads the request and writes the answer; each call goes the way of every call (`tool_runs`). Nothing
here knows a wire format but by its protocol.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Final

from fairlead_formats.messages.call import MAX_CALLS, ModelCall
from fairlead_formats.registry import message_format
from fairlead_formats.wire.call_ids import with_provider_ids
from fairlead_formats.wire.errors import LlmError
from fairlead_formats.wire.protocol import BadRequest, CallKey, FinishedCall, InnerCall, ModelRound
from fairlead_gateway.calls.path.direct import Origin
from fairlead_llm.preparation import PreparedRequest
from fairlead_llm.refused_thoughts import LOST_THOUGHTS, tells_of_thoughts, without_thoughts
from fairlead_llm.reports import MOST_NAMED, CallReport, PendingCall, RequestReport
from fairlead_llm.round_calls import RoundCalls, RoundResults, running_call
from fairlead_llm.turns import NOT_KEPT
from fairlead_models.breakers import ModelAttempt, ModelBreakers, ModelClosed, asks_next
from fairlead_models.errors import NO_RETRY, over_budget, unavailable
from fairlead_models.providers import ModelTarget, Providers
from fairlead_models.request_record import OK, PENDING, STOPPED, RequestRecord
from fairlead_models.settings import LlmSettings
from fairlead_models.upstream import KeyedClient, ProviderAnswer, ProviderUnavailable
from fairlead_offers.catalogs.subject_catalog import SubjectCatalog
from fairlead_offers.documents import encode
from fairlead_offers.offer.offered_calls import held_inside
from fairlead_offers.offer.offered_runs import all_repeatable, run_offered
from fairlead_offers.offer.offers import OfferWishes, ToolOffer
from fairlead_offers.services import ToolServices
from fairlead_offers.workers.worker import in_turn

LAST_WORDS: Final = 30.0
"""Seconds at most for a client to take the end of a stream whose time is over."""
ERROR_ROUNDS: Final = 2
"""Rounds of nothing but failed calls after which the model gets no further one."""
LOSSES: Final = "x-fairlead-losses"
"""Header of an answer: codes of what was lost, such as on the way to a provider of another family."""
Prepare = Callable[[Sequence[ModelTarget]], Awaitable[PreparedRequest]]


class ToolLoop:
    """One request, its rounds so far, and what was done."""

    def __init__(
        self,
        tools: ToolServices,
        client: KeyedClient,
        providers: Providers,
        get_catalog: Callable[[], SubjectCatalog],
        origin: Origin,
        prepared: PreparedRequest,
        prepare: Prepare,
        wishes: OfferWishes,
        limits: LlmSettings,
        breakers: ModelBreakers,
        record: RequestRecord,
    ) -> None:
        """`prepare` makes the request anew for the models that are left when one fails before it said anything."""
        self._tools = tools
        self._client = client
        self._providers = providers
        self._get_catalog = get_catalog
        self._origin = origin
        self.prepared = prepared
        self._prepare = prepare
        self._wishes = wishes
        self._limits = limits
        self._breakers = breakers
        self._attempt: ModelAttempt | None = None
        self.long = prepared.long
        """Whether the request or an answer is long, and read and written beside the event loop."""
        self.record = record
        self._end = time.monotonic() + limits.seconds
        self._more: list[bytes] = []
        self._failed_rounds = 0
        self._rounds = 0
        self.tools_disabled = False
        """Whether the model was told to call no tool in the current round (`tool_choice: none`)."""
        self.calls: list[CallReport] = []
        self._pending: Sequence[PendingCall] = ()
        self._has_run = False
        self._must_answer = False
        """Whether the model has to tell the caller what was run: with a call of the caller's in between, it would know
        nothing of that, and order it again."""
        self._repeated = False
        self._without_thoughts = False
        """Whether the model gets no thoughts that others sealed."""

    @property
    def offer(self) -> ToolOffer | None:
        """Tools that the model got; None where none were to be injected."""
        return self.prepared.offer

    @property
    def theirs(self) -> Collection[str] | None:
        """Names of tools whose calls the caller gets: its own, and those that run only after it approves them or that
        policies do not let run by themselves. None: nothing is run here.
        """
        offer = self.offer
        if offer is None or not offer.definitions:
            return None
        own = self.prepared.request.tool_names
        return offer.client_run.union(own) if offer.client_run else own

    @property
    def before(self) -> Sequence[bytes]:
        """Messages of the rounds so far, which the caller has not seen."""
        return self._more

    @property
    def target(self) -> ModelTarget:
        """The model that answers."""
        return self.prepared.targets[0]

    @property
    def limits_reached(self) -> bool:
        """Whether a limit is reached, of rounds, failed rounds or tokens, so that the model must call no more tools."""
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
        """How the request ended, if it ends now and well."""
        return PENDING if self._pending else STOPPED if self.tools_disabled else OK

    async def ask(self) -> ProviderAnswer:
        """The answer of the next round. Before anything was said, the next model is asked where one fails. Raises
        LlmError where none can be reached.
        """
        while True:
            self.tools_disabled = self.limits_reached
            # another model's request is read anew, without the results of calls that ran: it would order them again
            spare = len(self.prepared.targets) > 1 and not self._rounds and not self._has_run
            answer, failure = None, None
            try:
                answer = await self._attempted()
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
            following = await self._following(answer)
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
        """Whether the model refuses thoughts that another one sealed, so that it is to be asked without them: a
        conversation may have been another model's before.
        """
        if answer.status != 400 or self._rounds or self._without_thoughts:
            return False
        try:
            self._without_thoughts = tells_of_thoughts(await answer.whole())
        except ProviderUnavailable:
            return False  # reading it again says so
        return self._without_thoughts

    async def _following(self, held: ProviderAnswer | None) -> PreparedRequest | None:
        """The request for the models that are left; None where it holds something that none of their APIs has. The
        answer that is held meanwhile is closed where it cannot be prepared for another reason.
        """
        try:
            return await self._prepare(self.prepared.targets[1:])
        except BadRequest:
            return None
        except BaseException:
            if held is not None:
                held.close()
            raise

    def _open_budget(self) -> None:
        """Have the tools of another offer bound by the limits of their own namespaces. Raises LlmError."""
        self.record.open_budget(self.target, () if self.offer is None else self.offer.quotas)
        refused = self.record.refusal()
        if refused is not None:
            raise over_budget(refused)

    async def _attempted(self) -> ProviderAnswer:
        """The answer of the model whose turn it is, unless its breaker is open. Raises LlmError."""
        try:
            attempt = self._attempt = self._breakers.attempt(self.target)
        except ModelClosed as closed:
            raise unavailable(closed, self.no_retry) from closed
        try:
            async with asyncio.timeout_at(asyncio.get_running_loop().time() + self.seconds_left()):
                answer = await self._sent()
        except (ProviderUnavailable, TimeoutError) as error:
            self.record.round_failed(type(error).__name__)
            if not self.seconds_left():
                attempt.given_up()
                raise self.over() from error
            attempt.failed(error)
            raise LlmError(
                502, f"{self.target.provider}: {error}", "provider_unavailable", headers=self.no_retry
            ) from error
        except BaseException:
            attempt.given_up()
            raise
        # a limit of one caller's own key says nothing of the requests of others
        attempt.answered(answer.status, None if self._client.keyed else answer.retry_after)
        if answer.status == 200:
            self.record.round_answered()
        else:
            self.record.round_failed(str(answer.status))
        return answer

    def round_finished(self, usage: Mapping[str, Any]) -> None:
        """A round was read to its end. `usage` is the provider's, summed over all rounds."""
        self.record.round_finished(usage)
        if self._attempt is not None:
            self._attempt.over()

    def round_broken(self, error: Exception) -> None:
        """The provider's answer has no end, or none that can be read."""
        if self._attempt is not None:
            self._attempt.failed(error)

    async def _sent(self) -> ProviderAnswer:
        prepared, provider = self.prepared, self._providers.by_name[self.target.provider]
        injected = self.offer.definitions if self.offer is not None else ()
        counts = self.theirs is not None or prepared.request.losses is not None
        asked = ModelRound(
            self.target.model,
            self._more,
            injected,
            usage=provider.stream_usage and counts,
            first=not self._more,
            last=self.tools_disabled,
        )
        body = await self._tools.work.reading(lambda: self._written(asked), long=self.long)
        traced = self.record.round_sent(self.target, body, self.offer.tokens if self.offer is not None else {})
        path = prepared.wire.path(self.target.model, stream=prepared.request.stream)
        headers = {**prepared.headers, **traced}
        return await self._client.send(provider, path, body, headers, prepared.wire.answer_headers)

    def _written(self, asked: ModelRound) -> bytes:
        """The body of the next round's request."""
        prepared = self.prepared
        body = with_provider_ids(prepared.request.body(asked))
        unsealed = without_thoughts(prepared.wire, body, len(self._more)) if self._without_thoughts else None
        if unsealed is not None:
            prepared.losses.add(LOST_THOUGHTS)
        return unsealed or body

    @property
    def last_words_s(self) -> float:
        """Seconds for a client to take the end of a stream whose time is over."""
        return min(self._limits.seconds, LAST_WORDS)

    def seconds_left(self) -> float:
        """Seconds until the time for all of it is over."""
        return max(self._end - time.monotonic(), 0.0)

    @property
    def no_retry(self) -> Mapping[str, str]:
        """Headers of an error: a request that has run tools is not to be repeated by an SDK."""
        return NO_RETRY if self._has_run else {}

    @property
    def _loss_header(self) -> Mapping[str, str]:
        losses = ", ".join(self.prepared.losses)
        return {LOSSES: losses} if losses else {}

    def over(self) -> LlmError:
        """The error for a request whose time is over."""
        return LlmError(504, "the time for this request is over", "timeout", headers=self.no_retry)

    async def split(self, message: Mapping[str, Any]) -> RoundCalls:
        """Calls of a message, by who runs them. Raises LlmError where they are more than `MAX_CALLS`."""
        return await self._tools.work.reading(lambda: self._split(message), long=self.long)

    def _split(self, message: Mapping[str, Any]) -> RoundCalls:
        calls = message_format(self.prepared.wire.name).parse_calls(message)
        names = self.theirs
        if names is not None and len(calls) > MAX_CALLS:
            said = f"the provider's answer has more than {MAX_CALLS} calls"
            raise LlmError(502, said, "bad_answer", headers=self.no_retry)
        inner = held_inside(self.offer or ToolOffer(0), calls, self.prepared.request.tool_names)
        calls = [inner.get(call.id, call) for call in calls]
        ours: list[ModelCall] = []
        theirs: list[ModelCall] = []
        for call in calls:
            (theirs if names is None or call.wire_name in names else ours).append(call)
        manual = self.offer.manual if self.offer is not None else {}
        self._pending = [
            PendingCall(call.id, call.wire_name[:128], manual[call.wire_name])
            for call in theirs[:MOST_NAMED]
            if call.wire_name in manual
        ]
        shown = [CallKey(call.id, call.wire_name) for call in theirs]
        unwrapped = {ident: InnerCall(call.name, encode(call.arguments)) for ident, call in inner.items()}
        return RoundCalls(ours, shown, unwrapped)

    async def run(self, calls: Sequence[ModelCall], *, approved: bool = False) -> RoundResults:
        """Run calls here. `approved`: the client said so, and they do not run by themselves. Raises Problem."""
        format_name = self.prepared.wire.name
        offer = self.offer or ToolOffer(0)
        most, before = self._wishes.max_calls, len(self.calls)
        self._has_run = True
        with in_turn():
            runs = await run_offered(
                self._tools,
                self._origin,
                self._get_catalog,
                self._wishes,
                offer,
                format_name,
                calls,
                approved=approved,
                room=None if most is None else max(most - before, 0),
                why=f"The call was not run: this request may run {most} calls (max_tool_calls)",
            )
        finished = []
        for call, run in zip(calls, runs, strict=True):
            self.calls.append(CallReport(run.plan.call.wire_name[:128], round(run.seconds * 1000, 1), run.failed))
            if run.tool is not None:
                self.record.tool_called(run.tool, run.result_tokens)
            begun = running_call(call)
            finished.append(FinishedCall(begun.id, begun.name, begun.arguments, run.result or {}, run.seconds))
        if self.theirs and not self.prepared.keeps_turns and not approved and not all(run.repeatable for run in runs):
            self._must_answer = True
            self.prepared.losses.add(NOT_KEPT)
        if runs:
            self._failed_rounds = self._failed_rounds + 1 if all(run.failed for run in runs) else 0
        written = message_format(format_name).write_results([*calls], [run.result for run in runs])
        return RoundResults([encode(each) for each in written.messages], finished)

    async def all_repeatable(self, calls: Sequence[ModelCall]) -> bool:
        """Whether all these calls could be made twice without harm. Raises Problem."""
        offer, format_name = self.offer or ToolOffer(0), self.prepared.wire.name
        with in_turn():
            return await all_repeatable(self._tools, self._get_catalog, self._wishes, offer, format_name, calls)

    def repeats(self, malformed_call: bool) -> bool:
        """Whether a round is to be asked anew: where it is malformed_call, and was not asked anew already."""
        self._repeated = malformed_call and not self._repeated and self.theirs is not None and not self.tools_disabled
        return self._repeated

    def go_on(self, messages: Sequence[bytes], results: Sequence[bytes]) -> None:
        """Have the next round begin behind the model's messages and the results of their calls."""
        self._more += [*messages, *results]

    @property
    def _report(self) -> RequestReport:
        return RequestReport(self.target, self.offer, self.prepared.tier_rule)

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers that tell of model, tier and tools, all that is known before the answer, and what
        the provider's format lacks of the request."""
        return {**self._report.headers(), **self._loss_header}

    def report(self) -> dict[str, Any]:
        """Model, rounds, tools and calls, for the member `fairlead` of the answer."""
        said = self._report.member(self._rounds, self.calls, self._pending, stopped=self.tools_disabled)
        losses = [*self.prepared.losses]
        return {**said, "losses": losses} if losses else said
