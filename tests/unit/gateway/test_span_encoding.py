"""Spans as OTLP's messages, read by the classes that are generated from its definition."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace.export import SpanExportResult

from fairlead_otel.encoded_spans import EncodedSpan, SpanBatches
from fairlead_otel.grpc_spans import GrpcSpanExporter
from fairlead_otel.http_spans import HttpSpanExporter
from fairlead_otel.span_encoding import (
    CLIENT,
    FAILED,
    SERVER,
    encode_request,
    encode_span,
    name_field,
    number_attribute,
    text_attribute,
)
from otlpreceiver import attributes, otlp_receiver

TRACE_ID = bytes(range(16))
SPAN_ID = b"spanspan"
PARENT_ID = b"parentid"
BATCHES = SpanBatches(Resource({"service.name": "gateway"}), "scope", "1.0")


def read(span: bytes) -> Any:
    """Span of an encoded field."""
    (of_resource,) = ExportTraceServiceRequest.FromString(encode_request(b"", b"", [span])).resource_spans
    (of_scope,) = of_resource.scope_spans
    (decoded,) = of_scope.spans
    return decoded


@pytest.mark.parametrize("length", [0, 1, 127, 128, 16_383, 16_384, 3_000_000])
def test_a_text_of_any_length_is_read_as_it_was(length: int) -> None:
    text = "é" * (length // 2) + "x" * (length % 2)
    span = read(encode_span(TRACE_ID, SPAN_ID, (1, 2), name_field(text) + text_attribute("key", text)))
    assert span.name == text
    assert attributes(span) == {"key": text}


@pytest.mark.parametrize("number", [0, 1, 127, 128, 300, 2**31, 2**63 - 1, -1])
def test_an_integer_of_64_bits_is_read_as_it_was(number: int) -> None:
    span = read(encode_span(TRACE_ID, SPAN_ID, (1, 2), number_attribute("tokens", number)))
    (attribute,) = span.attributes
    assert (attribute.key, attribute.value.int_value) == ("tokens", number)


def test_a_lone_surrogate_is_exported_as_a_question_mark() -> None:
    assert attributes(read(encode_span(TRACE_ID, SPAN_ID, (1, 2), text_attribute("k", "a\ud800b")))) == {"k": "a?b"}


def test_a_span_of_a_remote_parent_is_read_with_all_of_its_fields() -> None:
    fields = SERVER + name_field("tools/call add") + FAILED
    times_ns = (1_700_000_000_000_000_000, 1_700_000_000_000_000_001)
    span = read(encode_span(TRACE_ID, SPAN_ID, times_ns, fields, parent_id=PARENT_ID, state=b"vendor=1", remote=True))
    assert (span.trace_id, span.span_id, span.parent_span_id) == (TRACE_ID, SPAN_ID, PARENT_ID)
    assert (span.start_time_unix_nano, span.end_time_unix_nano) == times_ns
    assert (span.trace_state, span.kind, span.status.code, span.flags) == ("vendor=1", 2, 2, 0x300)


def test_the_root_of_a_trace_has_no_parent_and_no_error() -> None:
    span = read(encode_span(TRACE_ID, SPAN_ID, (1, 2), CLIENT))
    assert (span.parent_span_id, span.trace_state, span.kind, span.status.code, span.flags) == (b"", "", 3, 0, 0x100)


@pytest.mark.parametrize("compression", ["none", "gzip", "deflate"])
def test_encoded_spans_reach_a_collector_by_http_in_the_configured_compression(
    monkeypatch: pytest.MonkeyPatch, compression: str
) -> None:
    with otlp_receiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{receiver.url}/v1/traces")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", compression)
        exporter = HttpSpanExporter(BATCHES)
        spans = [EncodedSpan(encode_span(TRACE_ID, SPAN_ID, (1, 2), name_field(name))) for name in ("first", "second")]
        assert exporter.export(spans) is SpanExportResult.SUCCESS
        assert [span.name for span in receiver.spans] == ["first", "second"]
        assert [each["service.name"] for each in receiver.resources] == ["gateway"]


def test_a_credential_provider_of_the_environment_authorizes_encoded_spans(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "signing.py").write_text(
        "import requests\n\n\ndef session():\n    made = requests.Session()\n"
        "    made.headers['authorization'] = 'Bearer abc'\n    return made\n"
    )
    metadata = tmp_path / "signing-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: signing\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("[opentelemetry_otlp_credential_provider]\nsigning = signing:session\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("OTEL_PYTHON_EXPORTER_OTLP_HTTP_CREDENTIAL_PROVIDER", "signing")
    with otlp_receiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{receiver.url}/v1/traces")
        span = EncodedSpan(encode_span(TRACE_ID, SPAN_ID, (1, 2), name_field("add")))
        assert HttpSpanExporter(BATCHES).export([span]) is SpanExportResult.SUCCESS
        assert [each["authorization"] for each in receiver.headers] == ["Bearer abc"]
        assert [each.name for each in receiver.spans] == ["add"]


def test_spans_of_the_sdk_are_exported_beside_encoded_ones() -> None:
    assert BATCHES.serialize([BATCHES.stand_in]) is None
    assert BATCHES.serialize([EncodedSpan(b"")]) is not None


def test_a_request_by_grpc_holds_the_encoded_spans_with_resource_and_scope(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:1")
    exporter = GrpcSpanExporter(BATCHES)
    try:
        request = exporter._translate_data([EncodedSpan(encode_span(TRACE_ID, SPAN_ID, (1, 2), name_field("add")))])
    finally:
        exporter.shutdown()
    (of_resource,) = request.resource_spans
    (of_scope,) = of_resource.scope_spans
    assert attributes(of_resource.resource) == {"service.name": "gateway"}
    assert (of_scope.scope.name, of_scope.scope.version) == ("scope", "1.0")
    assert [span.name for span in of_scope.spans] == ["add"]
