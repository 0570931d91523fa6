"""Spans of requests to endpoints in front of models: one trace holds the request, its rounds and its calls of tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairlead_app.metrics.exposition import expose_metrics
from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from llmworld import llm_world
from otlpreceiver import Receiver, attributes, otlp_receiver

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CALLER = "00f067aa0ba902b7"
PARENT = {"traceparent": f"00-{TRACE}-{CALLER}-01"}
ADD = ScriptedCall("demo__add", {"a": 2, "b": 40})
ERROR = 2


def numbers(span: Any) -> dict[str, int]:
    """Attributes of a span that are whole numbers."""
    return {
        attribute.key: attribute.value.int_value
        for attribute in span.attributes
        if attribute.value.HasField("int_value")
    }


def by_time(receiver: Receiver) -> list[Any]:
    return sorted(receiver.spans, key=lambda span: int(span.start_time_unix_nano))


@pytest.mark.parametrize("stream", [False, True])
async def test_a_request_its_rounds_and_its_calls_are_one_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    with otlp_receiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{receiver.url}/v1/traces")
        async with llm_world(tmp_path, ScriptedTurn("", [ADD]), ScriptedTurn("It is 42.")) as world:
            answer = await world.chat("What is s3cret?", stream=stream, headers=PARENT)
            assert answer.status == 200
            told = [headers["traceparent"] for headers in world.model.headers]
            tool_told = world.called[0]["_meta"]["traceparent"]
            page = (await expose_metrics(world.gateway.metrics, "application/openmetrics-text"))[0].decode()
        request, first, call, attempt, second = spans = by_time(receiver)
    assert [span.name for span in spans] == [
        "POST /v1/chat/completions",
        "chat scripted",
        "tools/call add",
        "tools/call add",
        "chat scripted",
    ]
    assert {span.trace_id.hex() for span in spans} == {TRACE}
    assert request.parent_span_id.hex() == CALLER
    assert {span.parent_span_id for span in (first, call, second)} == {request.span_id}
    assert attempt.parent_span_id == call.span_id
    assert told == [f"00-{TRACE}-{span.span_id.hex()}-01" for span in (first, second)]
    assert tool_told == f"00-{TRACE}-{attempt.span_id.hex()}-01"
    named_attributes = attributes(first)
    assert (named_attributes["gen_ai.operation.name"], named_attributes["gen_ai.provider.name"]) == ("chat", "script0")
    assert named_attributes["gen_ai.request.model"] == "scripted"
    assert numbers(first) == {"gen_ai.usage.input_tokens": 100, "gen_ai.usage.output_tokens": 20}
    assert attributes(request)["http.route"] == "/v1/chat/completions"
    assert "s3cret" not in str(receiver.spans)
    examples = [line.split("_seconds")[0] for line in page.splitlines() if request.span_id.hex() in line]
    first_token = ["gen_ai_server_time_to_first_token"] if stream else []
    assert sorted(examples) == ["gen_ai_server_request_duration", *first_token]


async def test_a_provider_that_fails_is_an_error_of_the_round_and_of_the_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with otlp_receiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{receiver.url}/v1/traces")
        async with llm_world(tmp_path, ScriptedTurn("", status=429)) as world:
            answer = await world.chat("Hello")
            assert answer.status == 429
        request, chat = by_time(receiver)
    assert attributes(chat)["error.type"] == attributes(request)["error.type"] == "429"
    assert request.status.code == chat.status.code == ERROR
