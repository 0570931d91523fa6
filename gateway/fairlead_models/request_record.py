"""Records of requests to models: tokens (stated by the provider, or estimated), cost, called tools and outcome.

A record is written to metrics, to the audit log and to the quotas of tokens per day. `fairlead_app.metrics.models`
exports the metrics. A model gets its own metric series only after its first answer, because clients can invent names of
models. Does no I/O.
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
from fairlead_gateway.limits.limiter import NO_BUDGET, LimitRefusal, TokenLimiter
from fairlead_gateway.telemetry import OTHER, Histogram
from fairlead_gateway.tracing.spans import ModelSpan, SpanIds, Spans
from fairlead_gateway.tracing.trace import TRACEPARENT, TRACESTATE
from fairlead_models.providers import ModelTarget

MAX_TOKENS: Final = 10**12
"""Maximum number of tokens in a provider's usage. Larger numbers are reduced to this maximum."""
MIN_BLOB_BYTES: Final = 4096
"""Length in bytes from which a JSON string without spaces counts as a file in base64."""
BLOB_TOKENS: Final = 1000
"""Estimated tokens of a file of any size."""
_Usage = Mapping[str, Any]
MAX_MODELS: Final = 200
MAX_TOOLS: Final = 500
MAX_PRINCIPALS: Final = 500
TOKEN_BOUNDS: Final = tuple(4**power for power in range(12))
"""Upper bounds in tokens of `gen_ai.client.token.usage` (OpenTelemetry semantic conventions for generative AI)."""
DEFINITION, RESULT = "definition", "result"
LONG_BODY: Final = 256 << 10
"""Number of bytes of a request above which its tokens are estimated only if the provider states no usage."""
OK: Final = "ok"
STOPPED: Final = "stopped"
"""Outcome of a request that reached a limit, so that its last round was sent with `tool_choice: none`."""
PENDING: Final = "pending"
"""Outcome of a request whose answer has tool calls that policies allow only the caller to run."""
CLIENT_CLOSED: Final = "client_closed"
"""Outcome of a request whose client disconnected before the answer was complete."""
_SUCCESSFUL: Final = frozenset({OK, STOPPED, PENDING})


class TokenUsage(msgspec.Struct, frozen=True):
    """Tokens that a model has processed."""

    input: int = 0
    """Tokens of the input, including those read from or written to the cache."""
    output: int = 0
    """Tokens of the output, including reasoning."""
    cached: int = 0
    """Tokens of the input that were read from the provider's cache."""
    written: int = 0
    """Tokens of the input that were written to the cache."""

    @property
    def total(self) -> int:
        return self.input + self.output

    def __add__(self, other: TokenUsage) -> TokenUsage:
        return TokenUsage(*(left + right for left, right in zip(_tuple(self), _tuple(other), strict=True)))

    def __sub__(self, other: TokenUsage) -> TokenUsage:
        return TokenUsage(*(max(left - right, 0) for left, right in zip(_tuple(self), _tuple(other), strict=True)))


def token_usage(usage: _Usage) -> TokenUsage:
    """Read a usage object of OpenAI Chat, Responses or Realtime, Anthropic Messages, Gemini, Gemini Live or Bedrock
    Converse. Missing members count as zero. Anthropic and Bedrock state cached input separately from other input; all
    others include it in the input.
    """
    if "inputTokens" in usage or "outputTokens" in usage:
        cache_read, cache_written = _count_of(usage, "cacheReadInputTokens"), _count_of(usage, "cacheWriteInputTokens")
        total = _count_of(usage, "inputTokens") + cache_read + cache_written
        return TokenUsage(total, _count_of(usage, "outputTokens"), cache_read, cache_written)
    if "promptTokenCount" in usage or "candidatesTokenCount" in usage:
        return TokenUsage(
            _count_of(usage, "promptTokenCount") + _count_of(usage, "toolUsePromptTokenCount"),
            _count_of(usage, "candidatesTokenCount")
            + _count_of(usage, "responseTokenCount")  # Gemini Live
            + _count_of(usage, "thoughtsTokenCount"),
            _count_of(usage, "cachedContentTokenCount"),
        )
    if "prompt_tokens" in usage or "completion_tokens" in usage:
        cached = _detail(usage, "prompt_tokens_details") or _count_of(usage, "prompt_cache_hit_tokens")
        return TokenUsage(_count_of(usage, "prompt_tokens"), _count_of(usage, "completion_tokens"), cached)
    cache_read, cache_written = (
        _count_of(usage, "cache_read_input_tokens"),
        _count_of(usage, "cache_creation_input_tokens"),
    )
    cached = cache_read or _detail(usage, "input_tokens_details") or _detail(usage, "input_token_details")
    return TokenUsage(
        _count_of(usage, "input_tokens") + cache_read + cache_written,
        _count_of(usage, "output_tokens"),
        cached,
        cache_written,
    )


def estimate_tokens(body: bytes) -> int:
    """Estimate the tokens of a request: one per four bytes, and BLOB_TOKENS for each base64 file."""
    texts = body.split(b'"')
    if max(map(len, texts)) < MIN_BLOB_BYTES:
        return (len(body) + 3) // 4
    blobs = [text for text in texts if len(text) >= MIN_BLOB_BYTES and b" " not in text and text.isascii()]
    return (len(body) - sum(map(len, blobs)) + 3) // 4 + BLOB_TOKENS * len(blobs)


def _detail(usage: _Usage, member: str) -> int:
    details = usage.get(member)
    return _count_of(details, "cached_tokens") if isinstance(details, dict) else 0


def _count_of(usage: _Usage, member: str) -> int:
    value = usage.get(member)
    return min(max(int(value), 0), MAX_TOKENS) if isinstance(value, int) and not isinstance(value, bool) else 0


def _tuple(usage: TokenUsage) -> tuple[int, int, int, int]:
    return usage.input, usage.output, usage.cached, usage.written


def observe(histogram: Histogram, seconds: float, span: SpanIds | None) -> None:
    """Add a duration to a histogram, with the ids of its span as exemplar."""
    nanoseconds = round(seconds * 1e9)
    histogram.observe(nanoseconds)
    if span is not None:
        histogram.set_exemplar(nanoseconds, span.trace_id, span.span_id)


class TokenHistogram:
    """Histogram of numbers of tokens. Each bucket counts only its own observations, not the observations of smaller
    buckets.
    """

    __slots__ = ("buckets", "total")

    def __init__(self) -> None:
        self.buckets = [0] * (len(TOKEN_BOUNDS) + 1)
        self.total = 0

    def observe(self, tokens: int) -> None:
        self.buckets[bisect_left(TOKEN_BOUNDS, tokens)] += 1
        self.total += tokens


class ModelSeries:
    """Metric series of one model."""

    def __init__(self) -> None:
        self.input = TokenHistogram()
        self.output = TokenHistogram()
        self.cached = 0
        """Tokens of the input that were read from the provider's cache."""
        self.written = 0
        """Tokens of the input that were written to the provider's cache."""
        self.dollars = 0.0
        self.rounds = 0
        """Number of answers of the model."""
        self.outcomes: Counter[str] = Counter()
        """Number of requests by outcome."""
        self.durations: dict[str, Histogram] = {}
        """Durations by `error.type`, which is empty for requests without an error."""
        self.first_token = Histogram()
        """Nanoseconds until the first part of a streamed answer."""


class ModelMetrics:
    """Metrics of requests to models of one gateway."""

    def __init__(self) -> None:
        self.models: dict[tuple[str, str], ModelSeries] = {}
        """Series by provider and model."""
        self.tool_tokens: dict[tuple[str, str], int] = {}
        """Tokens by tool and by DEFINITION or RESULT."""
        self.principal_tokens: dict[str, TokenUsage] = {}
        """Usage by principal."""
        self.overflowed = 0
        """Number of observations that were counted under OTHER."""
        self.in_flight = 0
        """Number of requests in progress."""
        self._tools: set[str] = set()

    def count_answer(self, target: ModelTarget) -> None:
        """Create a separate metric series for a model, unless there are already MAX_MODELS."""
        key = (target.provider, target.model)
        if key not in self.models and len(self.models) < MAX_MODELS:
            self.models[key] = ModelSeries()

    def series_of(self, target: ModelTarget | None) -> ModelSeries:
        """Metric series of a model. The models of a provider that have no series of their own share one series. None:
        the series for requests that reached no provider.
        """
        if target is None:
            key = ("", "")
        elif (target.provider, target.model) in self.models:
            return self.models[target.provider, target.model]
        else:
            key = (target.provider, OTHER)
            self.overflowed += 1
        return self.models.setdefault(key, ModelSeries())

    def count_round(self, principal: str, target: ModelTarget, usage: TokenUsage, dollars: float) -> None:
        """Count one answer of a model to a request of a principal."""
        if principal not in self.principal_tokens and len(self.principal_tokens) >= MAX_PRINCIPALS:
            self.overflowed += 1
            principal = OTHER
        self.principal_tokens[principal] = self.principal_tokens.get(principal, TokenUsage()) + usage
        series = self.series_of(target)
        series.rounds += 1
        series.input.observe(usage.input)
        series.output.observe(usage.output)
        series.cached += usage.cached
        series.written += usage.written
        series.dollars += dollars

    def count_request(
        self, target: ModelTarget | None, outcome: str, error: str, seconds: float, span: SpanIds | None = None
    ) -> None:
        """Count one request. `outcome` and `error`: labels with few possible values; empty `error`: no error. `span`:
        ids of the request's span if the span is exported.
        """
        series = self.series_of(target)
        series.outcomes[outcome] += 1
        observe(series.durations.setdefault(error, Histogram()), seconds, span)

    def count_first_token(self, target: ModelTarget, seconds: float, span: SpanIds | None = None) -> None:
        """Count the time to the first part of a streamed answer. `span`: see `count_request`."""
        observe(self.series_of(target).first_token, seconds, span)

    def count_tool_tokens(self, part: str, tokens: Mapping[str, int]) -> None:
        """Count tokens of tool definitions or of tool results (`part`), by tool."""
        for tool, count in tokens.items():
            if tool not in self._tools:
                if len(self._tools) >= MAX_TOOLS:
                    self.overflowed += 1
                    tool = OTHER
                self._tools.add(tool)
            key = (tool, part)
            self.tool_tokens[key] = self.tool_tokens.get(key, 0) + count


class RequestRecords:
    """Opens the records of requests. Each gateway has one instance."""

    def __init__(
        self,
        metrics: ModelMetrics,
        auditor: Auditor | None,
        tokens: TokenLimiter,
        prices: Callable[[], Mapping[str, ModelPrice]],
        clock: Callable[[], float] = time.monotonic,
        spans: Spans | None = None,
    ) -> None:
        """`prices`: returns the current prices of models by the name that the provider uses, or by `PROVIDER/MODEL`."""
        self.metrics = metrics
        self.auditor = auditor
        self.tokens = tokens
        self._prices = prices
        self.clock = clock
        self.spans = spans

    def open(self, origin: Origin, path: str) -> RequestRecord:
        """Begin the record of a request. The caller must call its `end`."""
        return RequestRecord(self, origin, path)

    def price(self, target: ModelTarget) -> ModelPrice | None:
        """Configured price of a model; None if the model has none."""
        prices = self._prices()
        return prices.get(f"{target.provider}/{target.model}") or prices.get(target.model)


class RequestRecord:
    """Record of one request: model, rounds, tokens and outcome. A round is one request to the model and its answer."""

    def __init__(self, records: RequestRecords, origin: Origin, path: str) -> None:
        self._records = records
        self._path = path
        self._span: ModelSpan | None = None
        if records.spans is not None:
            headers, principal = origin.headers, origin.identity.principal
            span = self._span = records.spans.begin_model(
                headers.get(TRACEPARENT), headers.get(TRACESTATE), path, principal
            )
            origin = Origin(origin.address, {**headers, TRACEPARENT: span.traceparent}, origin.identity)
        self.origin = origin
        """Origin of the request. If the request has a span, the trace headers of the origin make tool calls children of
        that span.
        """
        self._begin_time = records.clock()
        self._budget = NO_BUDGET
        self._target: ModelTarget | None = None
        self._open_round: bytes | int | None = None
        """Tokens of the current round's request while the round is not charged: an estimate, or the body of a large
        request, which is estimated only if the provider states no usage. None: all rounds are charged.
        """
        self._answer_tokens = 0
        """Estimated tokens of the current round's answer."""
        self._stated_usage = TokenUsage()
        """Usage that the provider has stated, as the sum of all rounds."""
        self._first_token_recorded = False
        self._has_ended = False
        self.used = TokenUsage()
        """Usage of all rounds so far, estimated for rounds without a stated usage."""
        self.rounds = 0
        self._definitions: Mapping[str, int] = {}
        """Tokens of the tool definitions in the current round's request, by tool."""
        self._tools: list[str] = []
        records.metrics.in_flight += 1

    def open_budget(self, target: ModelTarget, quotas: Iterable[Quota]) -> None:
        """Set the model, and the budget to charge: the agent's tokens per day, and the limits of quotas."""
        self._target = target
        agent = agent_name(self.origin.identity, self.origin.address)
        self._budget = self._records.tokens.budget(agent, quotas)

    def refusal(self) -> LimitRefusal | None:
        """Limit of tokens per day that refuses a further request; None if no limit does."""
        return self._budget.refusal()

    def reached_limit(self) -> LimitRefusal | None:
        """Limit of tokens per day that this gateway's own counts have reached; None if no limit is reached."""
        return self._budget.reached_limit()

    def begin_round(self, target: ModelTarget, body: bytes, definitions: Mapping[str, int]) -> Mapping[str, str]:
        """Record that the request of a round is sent to a model. Returns trace headers for the provider with the
        round's span. `definitions`: tokens of tool definitions, by tool.
        """
        self._target = target
        self._open_round = body if len(body) > LONG_BODY else estimate_tokens(body)
        self._answer_tokens = 0
        self._definitions = definitions
        if self._span is None:
            return {}
        return {"traceparent": self._span.start_round(target.provider, target.model)}

    def fail_round(self, error_type: str) -> None:
        """Record that the provider failed or refused a round. The round is not charged. `error_type`: HTTP status, or
        class of the error.
        """
        self._open_round = None
        if self._span is not None:
            self._span.end_round(error_type)

    def begin_answer(self) -> None:
        """Record that the model begins to answer."""
        if self._target is not None:
            self._records.metrics.count_answer(self._target)

    def add_answer_tokens(self, tokens: int) -> None:
        """Add estimated tokens of the answer, which count if the provider states no usage."""
        self._answer_tokens += tokens

    def record_first_token(self) -> None:
        """Record that the first part of a streamed answer is sent to the client. Later calls are ignored."""
        if not self._first_token_recorded and self._target is not None:
            self._first_token_recorded = True
            seconds = self._records.clock() - self._begin_time
            self._records.metrics.count_first_token(self._target, seconds, self._span_ids)

    def finish_round(self, usage: Mapping[str, Any]) -> None:
        """Record the end of a round. `usage`: the provider's usage object, summed over all rounds."""
        total = token_usage(usage)
        round_usage, self._stated_usage = total - self._stated_usage, total
        if self._span is not None:
            self._span.end_round("", round_usage.input, round_usage.output)
        self._count(round_usage)

    def record_response(self, usage: Mapping[str, Any]) -> None:
        """Record the end of a response in a speech session, where a response has no request of its own. `usage`: usage
        object of only this response.
        """
        self._open_round = 0
        self._answer_tokens = 0
        self._count(token_usage(usage))

    def record_tool_call(self, tool: str, result_tokens: int) -> None:
        """Record a call of a tool by the gateway, with the estimated tokens of its result."""
        self._tools.append(tool)
        self._records.metrics.count_tool_tokens(RESULT, {tool: result_tokens})

    def end(self, outcome: str) -> None:
        """Record the end of the request. Later calls are ignored. `outcome`: a constant of this module, the code of an
        error, or the status of a provider's refusal.
        """
        if self._has_ended:
            return
        self._has_ended = True
        self._count(TokenUsage())
        records, seconds = self._records, self._records.clock() - self._begin_time
        records.metrics.in_flight -= 1
        if self._span is not None:
            self._span.end("" if outcome in _SUCCESSFUL else outcome)
        records.metrics.count_request(
            self._target, outcome, "" if outcome in _SUCCESSFUL else outcome, seconds, self._span_ids
        )
        if records.auditor is not None:
            records.auditor.record_model_request(
                self.origin, self._path, "" if outcome == OK else outcome, seconds, self._use()
            )

    def _count(self, usage: TokenUsage) -> None:
        """Charge the current round: the usage that the provider stated, or else an estimate."""
        body, self._open_round = self._open_round, None
        target = self._target
        if body is None or target is None:
            return
        if not usage.total:
            usage = TokenUsage(body if isinstance(body, int) else estimate_tokens(body), self._answer_tokens)
        self.used += usage
        self.rounds += 1
        self._budget.charge(usage.total)
        price, dollars = self._records.price(target), 0.0
        if price is not None:
            dollars = price.dollars(target.model, usage.input, usage.output, usage.cached, usage.written)
        self._records.metrics.count_round(self.origin.identity.principal, target, usage, dollars)
        self._records.metrics.count_tool_tokens(DEFINITION, self._definitions)

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
