"""The trace that a request belongs to, and the trace headers that its server gets."""

from __future__ import annotations

import json

import pytest
from msgspec import Raw

from fairlead_gateway.tracing.trace import CallerSpan, Trace, add_trace, caller_span, read_trace, with_trace
from fairlead_mcp import jsonrpc

PARENT = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
OTHER = "00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-bbbbbbbbbbbbbbbb-00"


def test_the_meta_of_a_message_counts_before_the_headers_of_its_request() -> None:
    meta = Raw(json.dumps({"traceparent": OTHER, "tracestate": "a=b"}).encode())
    assert read_trace(PARENT, b"x=y", None) == Trace(PARENT, b"x=y")
    assert read_trace(PARENT, b"x=y", Raw(b'{"progressToken":1}')) == Trace(PARENT, b"x=y")
    assert read_trace(PARENT, b"x=y", meta) == Trace(OTHER.encode(), b"a=b")
    assert caller_span(PARENT, meta) == CallerSpan("a" * 32, "b" * 16, sampled=False)
    assert caller_span(PARENT, None) == CallerSpan(PARENT[3:35].decode(), PARENT[36:52].decode(), sampled=True)
    assert caller_span(b"", None) is None
    assert read_trace(None, None, None) is None


@pytest.mark.parametrize(
    "parent",
    [
        "",
        "nonsense",
        "00-" + "0" * 32 + "-bbbbbbbbbbbbbbbb-01",
        "00-" + "a" * 32 + "-0000000000000000-01",
        "ff-" + "a" * 32 + "-bbbbbbbbbbbbbbbb-01",
        "00-" + "A" * 32 + "-bbbbbbbbbbbbbbbb-01",
        OTHER + "\r\nEvil: 1",
        OTHER + "\n",
    ],
)
def test_an_invalid_traceparent_is_not_passed_on(parent: str) -> None:
    assert read_trace(parent.encode(), None, None) is None
    assert read_trace(None, None, Raw(json.dumps({"traceparent": parent}).encode())) is None


@pytest.mark.parametrize("state", [b"a=b\r\nEvil: 1", b"x" * 513, "ä=b".encode()])
def test_a_tracestate_that_is_none_is_left_out(state: bytes) -> None:
    assert read_trace(PARENT, state, None) == Trace(PARENT)


def test_a_trace_is_written_as_lines_of_a_head_and_into_the_meta_of_params() -> None:
    assert Trace(PARENT, b"x=y").lines == b"traceparent: %b\r\ntracestate: x=y\r\n" % PARENT
    assert Trace(PARENT).lines == b"traceparent: %b\r\n" % PARENT
    params = {"name": Raw(b'"t"'), "_meta": Raw(b'{"tracestate":"old=1","k":[1]}')}
    assert json.loads(bytes(with_trace(params, Trace(PARENT))["_meta"])) == {"k": [1], "traceparent": PARENT.decode()}
    meta = json.loads(bytes(with_trace({}, Trace(PARENT, b"q=1"))["_meta"]))
    assert meta == {"traceparent": PARENT.decode(), "tracestate": "q=1"}


@pytest.mark.parametrize(
    "params",
    [
        b"{}",
        b'{"name":"add"}',
        b'{"name":"add","arguments":{"_meta":{"traceparent":"x"}}}',
        b'{"name":"add","_meta":{"progressToken":1,"traceparent":"x","tracestate":"y=1"},"arguments":{}}',
    ],
)
@pytest.mark.parametrize("state", [b"", b'a=1,b="2"'])
def test_a_trace_is_added_to_encoded_params_as_to_decoded_ones(params: bytes, state: bytes) -> None:
    trace = Trace(PARENT, state)
    assert add_trace(params, trace) == jsonrpc.encode(with_trace(jsonrpc.decode_object(params), trace))
