"""The loop of one request: ask the model, run what it calls of ours, ask again, until it answers or the caller's own
tools are called.

`completions` reads the request and writes the answer; each call goes the way of every call (`tool_runs`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

import msgspec

from fairlead_formats.names import did_you_mean
from fairlead_formats.registry import OPENAI_CHAT, message_format
from fairlead_gateway.calls.direct import Origin
from fairlead_llm.chat.calls import TOOL_CALLS, calls_of, is_of
from fairlead_llm.chat.request import ChatRequest
from fairlead_llm.errors import NO_RETRY, LlmError
from fairlead_llm.offers import ToolOffer
from fairlead_llm.providers import ModelTarget, Providers
from fairlead_llm.upstream import KeyedClient, ProviderAnswer, ProviderUnavailable
from fairlead_rest.context import RestContext
from fairlead_rest.requested_calls import Planned, ToolCallsBody, requested
from fairlead_rest.subject_catalog import SubjectCatalog
from fairlead_rest.tool_runs import result_for, run_calls

PATH: Final = "/chat/completions"
AT_ONCE: Final = 32
"""Calls of one message that run at the same time."""
ERROR_ROUNDS: Final = 2
"""Rounds of nothing but failed calls after which the model gets no further one."""
MOST_NAMED: Final = 20
_TRY_NEXT: Final = frozenset({401, 403, 404, 408, 429})
"""Statuses of a model, beside those from 500 on, after which the next one of the route is asked."""
_encode: Final = msgspec.json.Encoder().encode


class LoopLimits(msgspec.Struct, frozen=True):
    """Bounds of one request."""

    rounds: int
    """Answers of the model that may call tools; one more may not."""
    seconds: float
    """For all of it."""


class CallReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """One call that was run here."""

    name: str
    """As the model wrote it."""
    duration_ms: float
    is_error: bool = False


class ToolLoop:
    """One request, its rounds so far, and what was done."""

    def __init__(
        self,
        context: RestContext,
        client: KeyedClient,
        providers: Providers,
        seen: Callable[[], SubjectCatalog],
        origin: Origin,
        chat: ChatRequest,
        targets: Sequence[ModelTarget],
        offer: ToolOffer | None,
        tier: str | None,
        limits: LoopLimits,
    ) -> None:
        self._context = context
        self._client = client
        self._providers = providers
        self._seen = seen
        self._origin = origin
        self._chat = chat
        self._targets = [*targets]
        self._tier = tier
        self._limits = limits
        self._end = time.monotonic() + limits.seconds
        self._more: list[bytes] = []
        self._failed_rounds = 0
        self._rounds = 0
        self.final = False
        """Whether the answer that is read now was to call nothing."""
        self.offer = offer
        self.calls: list[CallReport] = []
        self._has_run = False

    @property
    def theirs(self) -> Collection[str] | None:
        """Names of tools whose calls the caller gets; None: nothing is run here."""
        return None if self.offer is None or not self.offer.definitions else self._chat.tool_names

    @property
    def before(self) -> Sequence[bytes]:
        """Messages of the rounds so far, which the caller has not seen."""
        return self._more

    @property
    def target(self) -> ModelTarget:
        """The model that answers."""
        return self._targets[0]

    @property
    def last(self) -> bool:
        """Whether the next answer may call nothing: the bounds are reached."""
        return self._rounds >= self._limits.rounds or self._failed_rounds >= ERROR_ROUNDS

    async def ask(self) -> ProviderAnswer:
        """The answer of the next round. Before anything was said, the next model is asked where one fails. Raises
        LlmError where none can be reached.
        """
        while True:
            provider = self._providers.by_name[self.target.provider]
            self.final = self.last
            injected = self.offer.definitions if self.offer is not None else ()
            body = self._chat.body(
                self.target.model, self._more, injected,
                usage=provider.stream_usage and self.theirs is not None, first=not self._rounds, last=self.last,
            )  # fmt: skip
            spare = len(self._targets) > 1 and not self._rounds
            try:
                async with asyncio.timeout_at(asyncio.get_running_loop().time() + self.left()):
                    answer = await self._client.send(provider, PATH, body)
            except (ProviderUnavailable, TimeoutError) as error:
                if not self.left():
                    raise self.over() from error
                if not spare:
                    raise LlmError(502, f"{self.target.provider}: {error}", "provider_unavailable",
                                   headers=self.no_retry) from error  # fmt: skip
            else:
                if not spare or (answer.status < 500 and answer.status not in _TRY_NEXT):
                    self._rounds += answer.status == 200
                    return answer
                answer.close()
            self._targets.pop(0)

    def left(self) -> float:
        """Seconds until the time for all of it is over."""
        return max(self._end - time.monotonic(), 0.0)

    @property
    def no_retry(self) -> Mapping[str, str]:
        """Headers of an error: a request that has run tools is not to be repeated by an SDK."""
        return NO_RETRY if self._has_run else {}

    def over(self) -> LlmError:
        """The error for a request whose time is over."""
        return LlmError(504, "the time for this request is over", "timeout", headers=self.no_retry)

    async def run(self, message: Mapping[str, Any]) -> list[bytes]:
        """Run the calls of a message that are not the caller's; the messages that answer them. Raises Problem."""
        mine = [call for call in calls_of(message) if not self.is_theirs(call)]
        asked = ToolCallsBody(OPENAI_CHAT, {"role": "assistant", TOOL_CALLS: mine}, tier=self._tier, tools=[])
        shelf, found = await self._context.worker.do(lambda: requested(self._context, self._seen(), asked))
        planned = [self._offered(plan) for plan in found]
        self._has_run = True
        with self._context.caller.holding(self._origin) as holding:
            outcomes = await run_calls(self._context, self._origin, shelf, planned, holding, at_once=AT_ONCE)
            results = [result_for(plan, outcome) for plan, outcome in zip(planned, outcomes, strict=True)]
        for plan, outcome, result in zip(planned, outcomes, results, strict=True):
            failed = bool(result and result.get("isError"))
            self.calls.append(CallReport(plan.call.wire_name[:128], round(outcome.seconds * 1000, 1), failed))
        if results:
            everything = all(result and result.get("isError") for result in results)
            self._failed_rounds = self._failed_rounds + 1 if everything else 0
        written = message_format(OPENAI_CHAT).write_results([plan.call for plan in planned], results)
        return [_encode(each) for each in written.messages]

    def _offered(self, plan: Planned) -> Planned:
        """The call, of an unknown tool where that was not offered: over budget, or of another server."""
        names = self.offer.names if self.offer is not None else ()
        if plan.call.wire_name in names or plan.entry is None:
            return plan
        return Planned(plan.call, None, near=did_you_mean(plan.call.wire_name, names))

    def go_on(self, message: bytes, results: Sequence[bytes]) -> None:
        """Have the next round begin behind this message and the results of its calls."""
        self._more += [message, *results]

    def is_theirs(self, call: Mapping[str, Any]) -> bool:
        """Whether a call, as it stands in a message, is the caller's to run."""
        return self.theirs is None or is_of(call, self.theirs)

    def split(self, message: Mapping[str, Any]) -> tuple[bool, list[dict[str, Any]]]:
        """Whether a message calls something that is run here, and its calls that are the caller's."""
        calls = calls_of(message)
        theirs = [call for call in calls if self.is_theirs(call)]
        return len(theirs) < len(calls), theirs

    def report(self) -> dict[str, Any]:
        """Model, rounds, tools and calls, for the member `fairlead` of the answer."""
        offer = self.offer
        tools: dict[str, Any] = {"injected": 0 if offer is None else len(offer.definitions)}
        if offer is not None and offer.cut:
            tools["cut"] = len(offer.cut)
            tools["cutTools"] = [cut.name for cut in offer.cut[:MOST_NAMED]]
        if offer is not None and offer.shadowed:
            tools["shadowed"] = list(offer.shadowed[:MOST_NAMED])
        if offer is not None and offer.refused:
            tools["refused"] = offer.refused
        model = f"{self.target.provider}/{self.target.model}"
        return {"model": model, "rounds": self._rounds, "tools": tools, "calls": self.calls, "stopped": self.final}
