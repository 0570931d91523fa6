"""Encoded attributes of spans that are kept for the next call of the same tool or caller."""

from __future__ import annotations

import tracemalloc

import msgspec
import pytest

from fairlead_api.meta import ServerKey
from fairlead_gateway.core.identity import ANONYMOUS
from fairlead_gateway.core.request import Exchange, McpRequest
from fairlead_gateway.tracing.exporting import MAX_CACHED, OtelSpans
from fairlead_otel.pipelines import SpanPipeline
from fairlead_otel.sampling import sampling_of

SERVER = ServerKey("default", "demo")


class LocalExchange(Exchange):
    """Request of a client of this machine."""

    @property
    def address(self) -> str:
        return "127.0.0.1"


def end_a_call(spans: OtelSpans, tool: str, principal: str) -> None:
    exchange = LocalExchange({}, msgspec.structs.replace(ANONYMOUS, principal=principal))
    spans.begin(exchange, McpRequest(True, "tools/call", b"1", {}, None), tool, SERVER).end("")


@pytest.mark.parametrize("length", [10, 20_000])
def test_encoded_attributes_of_many_tools_and_callers_are_bounded(length: int) -> None:
    spans = OtelSpans(SpanPipeline(lambda span: None, sampling_of({}), None))
    tracemalloc.start()
    try:
        for number in range(MAX_CACHED + 100):
            text = f"{number:08}" + "x" * length
            end_a_call(spans, text, text)
        retained = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert retained < 2 * MAX_CACHED * 1200


def test_a_value_of_an_attribute_is_as_long_as_the_environment_lets_it_be() -> None:
    put: list[bytes] = []
    end_a_call(OtelSpans(SpanPipeline(put.append, sampling_of({}), 12)), "add", "p" * 12 + "rest")
    (span,) = put
    assert b"p" * 12 in span
    assert b"rest" not in span
