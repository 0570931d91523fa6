"""Which traces are sampled, beside the samplers of OpenTelemetry's SDK."""

from __future__ import annotations

import random

import pytest
from opentelemetry.context import Context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from fairlead_otel.sampling import sampling_of

NAMES = ["always_on", "always_off", "traceidratio"]
SAMPLERS = [*NAMES, *(f"parentbased_{name}" for name in NAMES), "", "unknown", "PARENTBASED_ALWAYS_OFF"]
SHARES = ["", "0", "0.3", "1", "1.5", "-1", "nan", "much"]


def sdk_decision(provider: TracerProvider, trace_id: int, parent_sampled: bool | None) -> bool:
    context = Context()
    if parent_sampled is not None:
        flags = TraceFlags(int(parent_sampled))
        context = set_span_in_context(NonRecordingSpan(SpanContext(trace_id, 1, True, flags)), context)
    return provider.sampler.should_sample(context, trace_id, "name").decision is Decision.RECORD_AND_SAMPLE


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("name", SAMPLERS)
def test_a_trace_is_sampled_as_the_sdk_decides(monkeypatch: pytest.MonkeyPatch, name: str, share: str) -> None:
    environ = {"OTEL_TRACES_SAMPLER": name, "OTEL_TRACES_SAMPLER_ARG": share}
    for variable, value in environ.items():
        monkeypatch.setenv(variable, value)
    provider = TracerProvider(shutdown_on_exit=False)
    sampling = sampling_of(environ)
    draw = random.Random(7)
    for _ in range(50):
        trace_id = draw.getrandbits(128) | 1
        for parent_sampled in (None, True, False):
            is_sampled = sampling.samples(trace_id.to_bytes(16, "big"), parent_sampled)
            assert is_sampled == sdk_decision(provider, trace_id, parent_sampled)


def test_traces_are_sampled_unless_a_caller_did_not_sample_its_own() -> None:
    sampling = sampling_of({})
    assert [sampling.samples(bytes(16), parent) for parent in (None, True, False)] == [True, True, False]
