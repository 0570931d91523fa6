"""Records of requests to models: tokens as the provider states them, cost, tools called and outcome, for metrics, the
audit log and the quotas of tokens a day.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from fairlead_formats.tokens.prices import ModelPrice
from fairlead_gateway.audit.auditor import Auditor
from fairlead_gateway.audit.entry import ModelUse
from fairlead_gateway.calls.path.direct import Origin
from fairlead_gateway.core.quota import Quota
from fairlead_gateway.core.request import agent_name
from fairlead_gateway.limits.limiter import NO_BUDGET, Limited, TokenLimiter
from fairlead_gateway.tracing.spans import ModelSpan, SpanIds, Spans
from fairlead_gateway.tracing.trace import TRACEPARENT, TRACESTATE
from fairlead_models.model_metrics import DEFINITION, RESULT, ModelMetrics
from fairlead_models.providers import ModelTarget
from fairlead_models.token_usage import TokenUsage, estimated, token_usage

LONG_BODY: Final = 256 << 10
"""Bytes of a request from which on tokens are estimated only where that is needed."""
OK: Final = "ok"
STOPPED: Final = "stopped"
"""The last round was asked with `tool_choice: none`, as a limit was reached."""
PENDING: Final = "pending"
"""Calls came back that policies let nobody run but the caller."""
CLIENT_CLOSED: Final = "client_closed"
"""The client was gone before the answer was whole."""
_WELL: Final = frozenset({OK, STOPPED, PENDING})


class RequestRecords:
    """Opens the records of requests. One per gateway."""

    def __init__(
        self,
        metrics: ModelMetrics,
        auditor: Auditor | None,
        tokens: TokenLimiter,
        prices: Callable[[], Mapping[str, ModelPrice]],
        clock: Callable[[], float] = time.monotonic,
        spans: Spans | None = None,
    ) -> None:
        """`prices` as they are now, by the name of the model at its provider, or by `PROVIDER/MODEL`."""
        self.metrics = metrics
        self.auditor = auditor
        self.tokens = tokens
        self._prices = prices
        self.clock = clock
        self.spans = spans

    def open(self, origin: Origin, path: str) -> RequestRecord:
        """The record of a request that has come. `end` it."""
        return RequestRecord(self, origin, path)

    def price(self, target: ModelTarget) -> ModelPrice | None:
        """Price of a model; None where the installation states none."""
        prices = self._prices()
        return prices.get(f"{target.provider}/{target.model}") or prices.get(target.model)


class RequestRecord:
    """Record of one request: its model, rounds, tokens and outcome."""

    def __init__(self, records: RequestRecords, origin: Origin, path: str) -> None:
        self._records = records
        self._path = path
        self._span: ModelSpan | None = None
        if records.spans is not None:
            headers, principal = origin.headers, origin.identity.principal
            span = self._span = records.spans.begin_model(
                headers.get(TRACEPARENT), headers.get(TRACESTATE), path, principal
            )
            origin = msgspec.structs.replace(origin, headers={**headers, TRACEPARENT: span.traceparent})
        self.origin = origin
        """Sender of the request; calls of tools for it belong to the request's span where it has one."""
        self._began = records.clock()
        self._budget = NO_BUDGET
        self._target: ModelTarget | None = None
        self._open_round: bytes | int | None = None
        """Request that is not accounted for yet: its estimated tokens, or its body where an estimate would take long
        and may not be needed.
        """
        self._heard = 0
        self._stated = TokenUsage()
        """By the provider, over all rounds."""
        self._first_token_seen = False
        self._ended = False
        self.used = TokenUsage()
        """All rounds so far."""
        self.rounds = 0
        self._definitions: Mapping[str, int] = {}
        self._tools: list[str] = []
        records.metrics.in_flight += 1

    def open_budget(self, target: ModelTarget, quotas: Iterable[Quota]) -> None:
        """Set the model, and the budget that is charged: the agent's tokens a day, and those of these quotas."""
        self._target = target
        agent = agent_name(self.origin.identity, self.origin.address)
        self._budget = self._records.tokens.budget(agent, quotas)

    def refusal(self) -> Limited | None:
        """Why the agent's tokens of the day allow no further request; None: they do."""
        return self._budget.refusal()

    def spent(self) -> Limited | None:
        """The limit that the agent's tokens of the day have reached, as far as is known here; None: they have not."""
        return self._budget.reached_limit()

    def round_sent(self, target: ModelTarget, body: bytes, definitions: Mapping[str, int]) -> Mapping[str, str]:
        """Begin a round: its body goes to a model; headers for the provider, which name the round's span.
        `definitions`: tokens of tool definitions, by tool.
        """
        self._target = target
        self._open_round = body if len(body) > LONG_BODY else estimated(body)
        self._heard = 0
        self._definitions = definitions
        if self._span is None:
            return {}
        return {"traceparent": self._span.round_began(target.provider, target.model)}

    def round_failed(self, error_type: str) -> None:
        """Drop the round, which the provider failed or refused: it is not charged. The record stays open. `error_type`:
        status of the answer, or class of what went wrong.
        """
        self._open_round = None
        if self._span is not None:
            self._span.round_ended(error_type)

    def round_answered(self) -> None:
        """The model begins to answer."""
        if self._target is not None:
            self._records.metrics.answered(self._target)

    def add_answer_tokens(self, tokens: int) -> None:
        """So many tokens of the answer have come, by an estimate that counts where the provider states no usage."""
        self._heard += tokens

    def first_token(self) -> None:
        """The client gets the first part of a streamed answer."""
        if not self._first_token_seen and self._target is not None:
            self._first_token_seen = True
            seconds = self._records.clock() - self._began
            self._records.metrics.first_token(self._target, seconds, self._span_ids)

    def round_finished(self, usage: Mapping[str, Any]) -> None:
        """A round is over. `usage` is the provider's, summed over all rounds."""
        total = token_usage(usage)
        own, self._stated = total - self._stated, total
        if self._span is not None:
            self._span.round_ended("", own.input, own.output)
        self._count(own)

    def response_used(self, usage: Mapping[str, Any]) -> None:
        """An answer of a session is over, that no request of its own began. `usage` is the provider's, for it alone."""
        self._open_round = 0
        self._heard = 0
        self._count(token_usage(usage))

    def tool_called(self, tool: str, result_tokens: int) -> None:
        """A tool was called here; its result has about so many tokens."""
        self._tools.append(tool)
        self._records.metrics.tools(RESULT, {tool: result_tokens})

    def end(self, outcome: str) -> None:
        """The request is over; later ends change nothing. `outcome` is one of the constants here, the code of an error,
        or the status of a provider's refusal.
        """
        if self._ended:
            return
        self._ended = True
        self._count(TokenUsage())
        records, seconds = self._records, self._records.clock() - self._began
        records.metrics.in_flight -= 1
        if self._span is not None:
            self._span.end("" if outcome in _WELL else outcome)
        records.metrics.ended(self._target, outcome, "" if outcome in _WELL else outcome, seconds, self._span_ids)
        if records.auditor is not None:
            records.auditor.record_model_request(
                self.origin, self._path, "" if outcome == OK else outcome, seconds, self._use()
            )

    def _count(self, usage: TokenUsage) -> None:
        """Account for the round that is open, by an estimate where nothing was stated."""
        body, self._open_round = self._open_round, None
        target = self._target
        if body is None or target is None:
            return
        if not usage.total:
            usage = TokenUsage(body if isinstance(body, int) else estimated(body), self._heard)
        self.used += usage
        self.rounds += 1
        self._budget.charge(usage.total)
        price, dollars = self._records.price(target), 0.0
        if price is not None:
            dollars = price.dollars(target.model, usage.input, usage.output, usage.cached, usage.written)
        self._records.metrics.round(self.origin.identity.principal, target, usage, dollars)
        self._records.metrics.tools(DEFINITION, self._definitions)

    @property
    def _span_ids(self) -> SpanIds | None:
        return None if self._span is None else self._span.ids

    def _use(self) -> ModelUse:
        target, used = self._target, self.used
        return ModelUse(
            "" if target is None else target.provider,
            "" if target is None else target.model,
            self.rounds,
            used.input,
            used.output,
            used.cached,
            tuple(self._tools),
        )
