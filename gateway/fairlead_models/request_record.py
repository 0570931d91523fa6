"""Records of requests to models: tokens as the provider states them or estimated, cost, tools called and outcome, for
metrics, the audit log and the quotas of tokens a day.

Pure recording; `fairlead_app.metrics.models` shows the metrics. A model has series of its own after its first answer:
clients can make names up.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
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
from fairlead_gateway.telemetry import OTHER, Histogram
from fairlead_gateway.tracing.spans import ModelSpan, SpanIds, Spans
from fairlead_gateway.tracing.trace import TRACEPARENT, TRACESTATE
from fairlead_models.providers import ModelTarget

MAX_TOKENS: Final = 10**12
"""Largest number of tokens that is taken from a provider."""
BLOB_BYTES: Final = 4096
"""Bytes from which on a JSON text without a space counts as a file in base64."""
BLOB_TOKENS: Final = 1000
"""Estimated tokens of a file, whatever its size."""
_Figures = Mapping[str, Any]
MAX_MODELS: Final = 200
MAX_TOOLS: Final = 500
MAX_PRINCIPALS: Final = 500
TOKEN_BOUNDS: Final = tuple(4**power for power in range(12))
"""Upper bounds in tokens of `gen_ai.client.token.usage` (OpenTelemetry semantic conventions for generative AI)."""
DEFINITION, RESULT = "definition", "result"
LONG_BODY: Final = 256 << 10
"""Bytes of a request from which on tokens are estimated only where that is needed."""
OK: Final = "ok"
STOPPED: Final = "stopped"
"""The last round was asked with `tool_choice: none`, as a limit was reached."""
PENDING: Final = "pending"
"""The answer has calls that policies let only the caller run."""
CLIENT_CLOSED: Final = "client_closed"
"""The client was gone before the answer was whole."""
_WELL: Final = frozenset({OK, STOPPED, PENDING})


class TokenUsage(msgspec.Struct, frozen=True):
    """Tokens that a model has read and written."""

    input: int = 0
    """All tokens of the input, also those read from or written to the cache."""
    output: int = 0
    """Tokens of the output, reasoning included."""
    cached: int = 0
    """Tokens of the input that were read from the provider's cache."""
    written: int = 0
    """Tokens of the input that were written to the cache."""

    @property
    def total(self) -> int:
        return self.input + self.output

    def __add__(self, other: TokenUsage) -> TokenUsage:
        return TokenUsage(*(mine + theirs for mine, theirs in zip(_tuple(self), _tuple(other), strict=True)))

    def __sub__(self, other: TokenUsage) -> TokenUsage:
        return TokenUsage(*(max(mine - theirs, 0) for mine, theirs in zip(_tuple(self), _tuple(other), strict=True)))


def token_usage(usage: _Figures) -> TokenUsage:
    """Tokens of a usage object of OpenAI's Chat, Responses or Realtime, of Anthropic's Messages, or of Gemini and its
    Live API; zero where it has none. Anthropic counts cached input apart, all others within the input.
    """
    if "promptTokenCount" in usage or "candidatesTokenCount" in usage:
        return TokenUsage(
            _figure(usage, "promptTokenCount") + _figure(usage, "toolUsePromptTokenCount"),
            _figure(usage, "candidatesTokenCount")
            + _figure(usage, "responseTokenCount")  # of Live
            + _figure(usage, "thoughtsTokenCount"),
            _figure(usage, "cachedContentTokenCount"),
        )
    if "prompt_tokens" in usage or "completion_tokens" in usage:
        cached = _detail(usage, "prompt_tokens_details") or _figure(usage, "prompt_cache_hit_tokens")
        return TokenUsage(_figure(usage, "prompt_tokens"), _figure(usage, "completion_tokens"), cached)
    read, written = _figure(usage, "cache_read_input_tokens"), _figure(usage, "cache_creation_input_tokens")
    cached = read or _detail(usage, "input_tokens_details") or _detail(usage, "input_token_details")
    return TokenUsage(_figure(usage, "input_tokens") + read + written, _figure(usage, "output_tokens"), cached, written)


def estimate_tokens(body: bytes) -> int:
    """Estimated tokens of a request: one per four bytes, and BLOB_TOKENS for each file in base64."""
    blobs = [text for text in body.split(b'"') if len(text) >= BLOB_BYTES and b" " not in text and text.isascii()]
    return (len(body) - sum(map(len, blobs)) + 3) // 4 + BLOB_TOKENS * len(blobs)


def _detail(usage: _Figures, member: str) -> int:
    details = usage.get(member)
    return _figure(details, "cached_tokens") if isinstance(details, dict) else 0


def _figure(usage: _Figures, member: str) -> int:
    value = usage.get(member)
    return min(max(int(value), 0), MAX_TOKENS) if isinstance(value, int) and not isinstance(value, bool) else 0


def _tuple(usage: TokenUsage) -> tuple[int, int, int, int]:
    return usage.input, usage.output, usage.cached, usage.written


def observe(histogram: Histogram, seconds: float, span: SpanIds | None) -> None:
    """Count a duration, with its span as the exemplar of its bucket."""
    nanoseconds = round(seconds * 1e9)
    histogram.observe(nanoseconds)
    if span is not None:
        histogram.exemplify(nanoseconds, span.trace_id, span.span_id)


class TokenHistogram:
    """Sums and buckets (not cumulated) of numbers of tokens."""

    __slots__ = ("buckets", "total")

    def __init__(self) -> None:
        self.buckets = [0] * (len(TOKEN_BOUNDS) + 1)
        self.total = 0

    def observe(self, tokens: int) -> None:
        self.buckets[bisect_left(TOKEN_BOUNDS, tokens)] += 1
        self.total += tokens


class ModelSeries:
    """Figures of one model."""

    def __init__(self) -> None:
        self.input = TokenHistogram()
        self.output = TokenHistogram()
        self.cached = 0
        """Tokens of the input that the provider's cache had."""
        self.written = 0
        """Tokens of the input that were put into the cache."""
        self.dollars = 0.0
        self.rounds = 0
        self.outcomes: Counter[str] = Counter()
        self.durations: dict[str, Histogram] = {}
        """Durations by `error.type`; the empty key is that of requests without an error."""
        self.first_token = Histogram()


class ModelMetrics:
    """Metrics of requests to models of one gateway."""

    def __init__(self) -> None:
        self.models: dict[tuple[str, str], ModelSeries] = {}
        """Series by provider and model."""
        self.tool_tokens: dict[tuple[str, str], int] = {}
        """Tokens by tool, and by DEFINITION or RESULT."""
        self.principal_tokens: dict[str, TokenUsage] = {}
        """Usage by principal."""
        self.overflowed = 0
        """Observations that went under OTHER."""
        self.in_flight = 0
        self._tools: set[str] = set()

    def count_answer(self, target: ModelTarget) -> None:
        """Give a model series of its own."""
        key = (target.provider, target.model)
        if key not in self.models and len(self.models) < MAX_MODELS:
            self.models[key] = ModelSeries()

    def of(self, target: ModelTarget | None) -> ModelSeries:
        """The series of a model; one of the provider's where it has none, and one without a provider for None."""
        if target is None:
            key = ("", "")
        elif (target.provider, target.model) in self.models:
            return self.models[target.provider, target.model]
        else:
            key = (target.provider, OTHER)
            self.overflowed += 1
        return self.models.setdefault(key, ModelSeries())

    def round(self, principal: str, target: ModelTarget, usage: TokenUsage, dollars: float) -> None:
        """Count one answer of a model, to a request of a principal."""
        if principal not in self.principal_tokens and len(self.principal_tokens) >= MAX_PRINCIPALS:
            self.overflowed += 1
            principal = OTHER
        self.principal_tokens[principal] = self.principal_tokens.get(principal, TokenUsage()) + usage
        series = self.of(target)
        series.rounds += 1
        series.input.observe(usage.input)
        series.output.observe(usage.output)
        series.cached += usage.cached
        series.written += usage.written
        series.dollars += dollars

    def count_request(
        self, target: ModelTarget | None, outcome: str, error: str, seconds: float, span: SpanIds | None = None
    ) -> None:
        """Count one request. `outcome` and `error`, empty for none, are from closed sets. `span`: its own, where it has
        one that is exported.
        """
        series = self.of(target)
        series.outcomes[outcome] += 1
        observe(series.durations.setdefault(error, Histogram()), seconds, span)

    def first_token(self, target: ModelTarget, seconds: float, span: SpanIds | None = None) -> None:
        """Count the time to the first part of a streamed answer. `span` as for `count_request`."""
        observe(self.of(target).first_token, seconds, span)

    def tools(self, part: str, tokens: Mapping[str, int]) -> None:
        """Count tokens of definitions or of results, by tool."""
        for tool, count in tokens.items():
            if tool not in self._tools:
                if len(self._tools) >= MAX_TOOLS:
                    self.overflowed += 1
                    tool = OTHER
                self._tools.add(tool)
            key = (tool, part)
            self.tool_tokens[key] = self.tool_tokens.get(key, 0) + count


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
        """Begin the record of a request. `end` it."""
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
        """Request of the round that is not charged yet: its estimated tokens, or its body where an estimate would take
        long and may not be needed.
        """
        self._heard = 0
        self._stated = TokenUsage()
        """Usage that the provider stated, summed over all rounds."""
        self._first_token_seen = False
        self._ended = False
        self.used = TokenUsage()
        """Usage of all rounds so far, estimated where the provider states none."""
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
        """The limit of tokens a day that allows no further request; None: all allow one."""
        return self._budget.refusal()

    def spent(self) -> Limited | None:
        """The limit of tokens a day that is reached by what this gateway has counted; None: no limit is."""
        return self._budget.reached_limit()

    def round_sent(self, target: ModelTarget, body: bytes, definitions: Mapping[str, int]) -> Mapping[str, str]:
        """Record that a round's body is sent to a model. The result are headers for the provider with the round's span.
        `definitions`: tokens of tool definitions, by tool.
        """
        self._target = target
        self._open_round = body if len(body) > LONG_BODY else estimate_tokens(body)
        self._heard = 0
        self._definitions = definitions
        if self._span is None:
            return {}
        return {"traceparent": self._span.start_round(target.provider, target.model)}

    def round_failed(self, error_type: str) -> None:
        """Record that the provider failed or refused a round, which is not charged. `error_type`: status of the answer,
        or class of the error.
        """
        self._open_round = None
        if self._span is not None:
            self._span.end_round(error_type)

    def round_answered(self) -> None:
        """Record that the model begins to answer."""
        if self._target is not None:
            self._records.metrics.count_answer(self._target)

    def add_answer_tokens(self, tokens: int) -> None:
        """Add estimated tokens of the answer, which count where the provider states no usage."""
        self._heard += tokens

    def first_token(self) -> None:
        """Record that the client gets the first part of a streamed answer."""
        if not self._first_token_seen and self._target is not None:
            self._first_token_seen = True
            seconds = self._records.clock() - self._began
            self._records.metrics.first_token(self._target, seconds, self._span_ids)

    def round_finished(self, usage: Mapping[str, Any]) -> None:
        """Record the end of a round. `usage` is the provider's, summed over all rounds."""
        total = token_usage(usage)
        own, self._stated = total - self._stated, total
        if self._span is not None:
            self._span.end_round("", own.input, own.output)
        self._count(own)

    def response_used(self, usage: Mapping[str, Any]) -> None:
        """Record the end of a response in a speech session, which has no request of its own. `usage` is its own."""
        self._open_round = 0
        self._heard = 0
        self._count(token_usage(usage))

    def tool_called(self, tool: str, result_tokens: int) -> None:
        """Record a call of a tool by the gateway, with the estimated tokens of its result."""
        self._tools.append(tool)
        self._records.metrics.tools(RESULT, {tool: result_tokens})

    def end(self, outcome: str) -> None:
        """Record the end of the request; later ends change nothing. `outcome` is one of the constants here, the code of
        an error, or the status of a provider's refusal.
        """
        if self._ended:
            return
        self._ended = True
        self._count(TokenUsage())
        records, seconds = self._records, self._records.clock() - self._began
        records.metrics.in_flight -= 1
        if self._span is not None:
            self._span.end("" if outcome in _WELL else outcome)
        records.metrics.count_request(
            self._target, outcome, "" if outcome in _WELL else outcome, seconds, self._span_ids
        )
        if records.auditor is not None:
            records.auditor.record_model_request(
                self.origin, self._path, "" if outcome == OK else outcome, seconds, self._use()
            )

    def _count(self, usage: TokenUsage) -> None:
        """Charge the open round, by an estimate where the provider stated no usage."""
        body, self._open_round = self._open_round, None
        target = self._target
        if body is None or target is None:
            return
        if not usage.total:
            usage = TokenUsage(body if isinstance(body, int) else estimate_tokens(body), self._heard)
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
