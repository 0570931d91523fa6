"""The audit log as events for a collector: the content of an event, and the effects of failures of a disk or a
collector."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from msgspec import Raw

from fairlead_api.meta import ServerKey
from fairlead_gateway.audit.arguments import argument_renderer, read_path
from fairlead_gateway.audit.entry import ALLOWED, DENIED, LIMITED, REFUSED, AuditEntry, ModelUse
from fairlead_gateway.audit.events import SEQUENCE, event_of
from fairlead_gateway.audit.lines import line_of
from fairlead_gateway.audit.writer import Writer
from fairlead_gateway.core.identity import ANONYMOUS, Identity
from fairlead_gateway.tracing.spans import SpanIds
from fairlead_otel.events import LogEvent

KEY = ServerKey("team", "demo")
ADA = Identity(kind="apiKey", principal="key:ada", agent="ada")
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CALLER = "00f067aa0ba902b7"
OWN = "b9c7c989f97918e1"
PARENT = f"00-{TRACE}-{CALLER}-01".encode()


def entry(**members: Any) -> AuditEntry:
    defaults: dict[str, Any] = {"at": 1.5, "decision": ALLOWED, "identity": ADA, "address": "10.0.0.1"}
    return AuditEntry(**{**defaults, "method": "tools/call", "tool": "add", "server": KEY, **members})


def plain(given: AuditEntry) -> bytes:
    return line_of(given, lambda raw: {})


def make_event(given: AuditEntry, number: int = 1) -> LogEvent:
    return event_of(given, plain(given), number)


def test_an_event_has_the_line_and_attributes_by_the_names_of_spans() -> None:
    event = make_event(entry(outcome="TIMEOUT", traceparent=PARENT), 7)
    assert (event.name, event.at, event.warns) == ("fairlead.audit.call", 1.5, False)
    assert event.body.encode() + b"\n" == plain(entry(outcome="TIMEOUT", traceparent=PARENT))
    assert event.attributes == {
        "fairlead.audit.sequence": 7,
        "fairlead.audit.decision": "allowed",
        "fairlead.principal": "key:ada",
        "fairlead.agent": "ada",
        "client.address": "10.0.0.1",
        "mcp.method.name": "tools/call",
        "gen_ai.tool.name": "add",
        "fairlead.server": "team/demo",
        "error.type": "TIMEOUT",
    }


def test_requests_and_uses_of_models_have_names_and_attributes_of_their_own() -> None:
    away = make_event(
        entry(decision=DENIED, method="", tool="", server=None, status=401, outcome="401", reason="no key")
    )
    assert (away.name, away.warns) == ("fairlead.audit.request", True)
    assert away.attributes["http.response.status_code"] == 401
    assert away.attributes["fairlead.audit.reason"] == "no key"
    assert "error.type" not in away.attributes
    use = ModelUse("openai", "m" * 500, 1, 2, 3, 0)
    event = make_event(entry(method="/v1/chat/completions", tool="", server=None, model=use))
    assert event.name == "fairlead.audit.model"
    assert event.attributes["url.path"] == "/v1/chat/completions"
    assert event.attributes["gen_ai.request.model"] == "m" * 256
    listed = make_event(entry(method="prompts/get", tool="greet"))
    assert listed.attributes["fairlead.name"] == "greet"


@pytest.mark.parametrize("decision", [DENIED, LIMITED, REFUSED])
def test_calls_that_did_not_go_to_their_server_are_warnings(decision: Any) -> None:
    assert make_event(entry(decision=decision)).warns


@pytest.mark.parametrize(
    ("members", "trace_context"),
    [
        ({"traceparent": PARENT, "span": SpanIds("c" * 32, OWN)}, ("c" * 32, OWN, True)),
        ({"traceparent": PARENT}, (TRACE, CALLER, True)),
        ({"traceparent": PARENT[:-1] + b"0"}, (TRACE, CALLER, False)),
        ({"traceparent": b"nonsense"}, ("", "", False)),
    ],
)
def test_an_event_is_at_the_span_of_its_call_or_else_at_the_callers(
    members: dict[str, Any], trace_context: tuple[str, str, bool]
) -> None:
    event = make_event(entry(**members))
    assert (event.trace_id, event.span_id, event.sampled) == trace_context
    assert json.loads(event.body).get("traceId", "") == trace_context[0]


@pytest.mark.parametrize("mode", ["none", "hash", "redact"])
def test_arguments_that_a_line_leaves_out_are_in_no_part_of_an_event(mode: Any) -> None:
    given = entry(arguments=Raw(b'{"user":{"password":"s3cret"}}'), reason="r", outcome="INVALID_ARGUMENTS")
    line = line_of(given, argument_renderer(mode, b"key", [read_path("user.password")]))
    assert "s3cret" not in repr(event_of(given, line, 1))


class Sink:
    """A sink that waits until the test lets it continue, and then fails `failures` times."""

    def __init__(self, failures: int = 0) -> None:
        self.go = threading.Event()
        self.begun = threading.Event()
        self.failures = failures
        self.lines: list[str] = []

    def write(self, lines: bytes) -> None:
        self.begun.set()
        assert self.go.wait(20)
        if self.failures:
            self.failures -= 1
            raise OSError(28, "No space left on device")
        self.lines += [json.loads(line).get("tool", "lost") for line in lines.splitlines()]

    def close(self) -> None: ...


def test_a_disk_that_is_full_costs_no_event() -> None:
    sink = Sink(failures=1)
    events = list[LogEvent]()
    writer = Writer(sink, plain, lambda: 0.0, emit=events.append)
    writer.put(entry())
    assert sink.begun.wait(20)
    sink.go.set()
    writer.close()
    assert (writer.written, writer.failed, len(events)) == (0, 1, 1)


def test_an_event_that_cannot_be_queued_costs_no_line(caplog: pytest.LogCaptureFixture) -> None:
    def raise_defect(event: LogEvent) -> None:
        raise ZeroDivisionError("a defect")

    sink = Sink()
    sink.go.set()
    writer = Writer(sink, plain, lambda: 0.0, emit=raise_defect)
    writer.put(entry())
    writer.close()
    assert sink.lines == ["mcp.demo.add"]
    assert [record.getMessage() for record in caplog.records] == ["A line of the audit log could not be exported"]


def test_numbers_of_events_have_a_gap_for_each_entry_that_there_was_no_room_for() -> None:
    sink = Sink()
    events = list[LogEvent]()
    writer = Writer(sink, plain, lambda: 0.0, capacity=2, emit=events.append)
    writer.put(entry(identity=ANONYMOUS))
    assert sink.begun.wait(20)
    for _ in range(5):  # the writer has room for two of them
        writer.put(entry())
    sink.go.set()
    writer.close()
    assert writer.overflowed == 3
    assert [event.attributes[SEQUENCE] for event in events] == [1, 5, 6]
