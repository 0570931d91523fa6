"""The audit log: what lines contain and omit, and how they are written, rotated and lost."""

from __future__ import annotations

import json
import resource
import threading
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from msgspec import Raw

from fairlead_api.meta import ServerKey
from fairlead_gateway.audit.arguments import REDACTED, BadPath, argument_renderer, read_path, redact
from fairlead_gateway.audit.auditor import Auditor
from fairlead_gateway.audit.entry import ALLOWED, AuditedCall, AuditEntry, ModelUse
from fairlead_gateway.audit.lines import line_of
from fairlead_gateway.audit.sink import File
from fairlead_gateway.audit.writer import Writer
from fairlead_gateway.core.identity import ANONYMOUS, Identity

KEY = ServerKey("team", "demo")
PARENT = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def entry(**members: Any) -> AuditEntry:
    defaults: dict[str, Any] = {"at": 1.5, "decision": ALLOWED, "identity": ANONYMOUS, "address": "10.0.0.1"}
    return AuditEntry(**{**defaults, "method": "tools/call", **members})


def decode_line(given: AuditEntry, mode: Any = "none", *paths: str) -> dict[str, Any]:
    line = line_of(given, argument_renderer(mode, b"key", [read_path(path) for path in paths]))
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    return dict(json.loads(line))


def plain(given: AuditEntry) -> bytes:
    return line_of(given, lambda raw: {})


def test_a_line_says_who_called_what_and_what_came_of_it() -> None:
    ada = Identity(kind="apiKey", principal="key:ada", agent="ada")
    given = entry(
        identity=ada,
        tool="add",
        server=KEY,
        outcome="TIMEOUT",
        seconds=0.0123,
        result_bytes=7,
        arguments_bytes=9,
        traceparent=PARENT,
    )
    assert decode_line(given) == {
        "time": "1970-01-01T00:00:01.500Z",
        "event": "call",
        "decision": "allowed",
        "principal": "key:ada",
        "agent": "ada",
        "kind": "apiKey",
        "client": "10.0.0.1",
        "method": "tools/call",
        "tool": "mcp.demo.add",
        "server": "team/demo",
        "outcome": "TIMEOUT",
        "durationMs": 12.3,
        "argumentsBytes": 9,
        "resultBytes": 7,
        "traceId": "4bf92f3577b34da6a3ce929d0e0e4736",
    }


@pytest.mark.parametrize(
    ("at", "told"),
    [
        (1_796_000_000.123, "2026-11-30T00:53:20.123Z"),
        (1_796_000_000.0, "2026-11-30T00:53:20.000Z"),
        (1_796_000_000.9994, "2026-11-30T00:53:20.999Z"),
        (1_795_996_799.9999999, "2026-11-30T00:00:00.000Z"),
    ],
)
def test_the_time_of_a_line_has_milliseconds_whatever_second_the_line_before_was_of(at: float, told: str) -> None:
    times = [decode_line(entry(at=each))["time"] for each in (0.5, at, 1_796_000_001.25, at)]
    assert (times[1], times[3]) == (told, told)


def test_a_line_has_no_member_without_a_value_and_zeros_where_nothing_came_back() -> None:
    assert plain(entry(tool="add", server=KEY)) == (
        b'{"time":"1970-01-01T00:00:01.500Z","event":"call","decision":"allowed","principal":"anonymous",'
        b'"kind":"anonymous","client":"10.0.0.1","method":"tools/call","tool":"mcp.demo.add","server":"team/demo",'
        b'"outcome":"ok","durationMs":0.0,"argumentsBytes":0,"resultBytes":0}\n'
    )


def test_the_line_of_a_model_request_has_its_use_between_the_path_and_the_outcome() -> None:
    use = ModelUse(
        provider="", model="m" * 300, rounds=2, input_tokens=3, output_tokens=4, cached_tokens=0, tools=("t",)
    )
    members = decode_line(entry(method="/v1/responses", outcome="TIMEOUT", model=use))
    names = ["method", "model", "rounds", "inputTokens", "outputTokens", "cachedTokens", "tools", "outcome"]
    assert list(members)[6:14] == names
    assert (members["model"], members["tools"]) == ("m" * 256, ["t"])


def test_a_made_up_name_can_neither_break_a_line_nor_fill_the_log() -> None:
    line = decode_line(entry(decision="denied", tool='x"}\n{"decision":"allowed"}' + "y" * 10_000))
    assert line["decision"] == "denied"
    assert len(line["tool"]) == 256


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("none", {}),
        ("redact", {"arguments": {"user": {"name": "ada", "password": REDACTED}, "n": 1}}),
        ("full", {"arguments": {"user": {"name": "ada", "password": "s3cret"}, "n": 1}}),
    ],
)
def test_arguments_are_told_as_the_mode_says(mode: str, expected: dict[str, Any]) -> None:
    raw = Raw(b'{"user":{"name":"ada","password":"s3cret"},"n":1}')
    line = decode_line(entry(arguments=raw), mode, "user.password")
    assert {name: line[name] for name in line if name.startswith("arguments") and name != "argumentsBytes"} == expected


def test_equal_arguments_have_one_hash_however_they_are_written_and_another_with_another_key() -> None:
    def hash_of(raw: bytes, key: bytes = b"key") -> str:
        return str(argument_renderer("hash", key, ())(Raw(raw))["argumentsHash"])

    assert hash_of(b'{"a":1,"b":2}') == hash_of(b'{ "b": 2, "a": 1 }')
    assert hash_of(b'{"a":1,"b":2}') != hash_of(b'{"a":1,"b":3}')
    assert hash_of(b'{"a":1}') != hash_of(b'{"a":1}', b"other")


@pytest.mark.parametrize(
    ("path", "left"),
    [
        ("a", {"a": REDACTED, "l": [{"t": 2, "u": {"t": 3}}], "t": 4}),
        ("$.a.t", {"a": {"t": REDACTED}, "l": [{"t": 2, "u": {"t": 3}}], "t": 4}),
        ("*.t", {"a": {"t": REDACTED}, "l": [{"t": 2, "u": {"t": 3}}], "t": 4}),
        ("l.*.t", {"a": {"t": 1}, "l": [{"t": REDACTED, "u": {"t": 3}}], "t": 4}),
        ("**.T", {"a": {"t": REDACTED}, "l": [{"t": REDACTED, "u": {"t": REDACTED}}], "t": REDACTED}),
        ("l.**.t", {"a": {"t": 1}, "l": [{"t": REDACTED, "u": {"t": REDACTED}}], "t": 4}),
        ("x.y", {"a": {"t": 1}, "l": [{"t": 2, "u": {"t": 3}}], "t": 4}),
    ],
)
def test_paths_redact_what_they_lead_to_and_nothing_else(path: str, left: Any) -> None:
    value = {"a": {"t": 1}, "l": [{"t": 2, "u": {"t": 3}}], "t": 4}
    assert redact(value, [read_path(path)]) == left


@pytest.mark.parametrize("text", ["", "$", "a..b", "a.**"])
def test_a_path_that_cannot_be_read_is_an_error(text: str) -> None:
    with pytest.raises(BadPath):
        read_path(text)


def test_large_arguments_and_nonsense_are_left_out_with_a_word() -> None:
    assert "more than" in decode_line(entry(arguments=Raw(b'"' + b"x" * 20_000 + b'"')), "full")["argumentsLeftOut"]
    assert (
        decode_line(entry(arguments=Raw(b'{"a":')), "redact", "a")["argumentsLeftOut"]
        == "the arguments are not valid JSON, or nested too deeply"
    )


class Slow:
    """A sink that accepts lines only when the test allows it."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.begun = threading.Event()
        self.lines: list[dict[str, Any]] = []

    def write(self, lines: bytes) -> None:
        self.begun.set()
        assert self.go.wait(20)
        self.lines += [json.loads(line) for line in lines.splitlines()]

    def close(self) -> None: ...


def test_audit_entries_do_not_wait_for_a_sink_that_hangs_and_lost_ones_are_counted() -> None:
    sink = Slow()
    writer = Writer(sink, plain, lambda: 0.0, capacity=10)
    writer.put(entry(tool="first"))
    assert sink.begun.wait(20)
    for number in range(25):
        writer.put(entry(tool=f"t{number}"))
    assert (writer.buffered, writer.overflowed) == (10, 15)
    sink.go.set()
    writer.close()
    assert [line.get("tool", line.get("count")) for line in sink.lines] == ["first", 15, *(f"t{n}" for n in range(10))]
    assert writer.written == 11


class Full:
    """A sink on a disk that is full for a while."""

    def __init__(self, failures: int) -> None:
        self.left = failures
        self.tried = threading.Event()
        self.data = b""

    def write(self, lines: bytes) -> None:
        if self.left:
            self.left -= 1
            self.tried.set()
            raise OSError(28, "No space left on device")
        self.data += lines

    def close(self) -> None: ...


def test_a_full_disk_is_survived_and_logged_once_each_way(caplog: pytest.LogCaptureFixture) -> None:
    sink = Full(2)
    writer = Writer(sink, plain, lambda: 0.0)
    for name in ("a", "b", "c"):
        sink.tried.clear()
        writer.put(entry(tool=name))
        if name != "c":
            assert sink.tried.wait(20)
    writer.close()
    assert [json.loads(line).get("tool", json.loads(line).get("count")) for line in sink.data.splitlines()] == [2, "c"]
    assert (writer.failed, writer.written) == (2, 1)
    assert [record.getMessage().partition(",")[0] for record in caplog.records] == [
        (
            "The audit log cannot be written ([Errno 28] No space left on device); its lines are lost until this is "
            "corrected"
        ),
        "The audit log can be written again",
    ]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_device_without_room_costs_lines_and_nothing_else() -> None:
    writer = Writer(File(Path("/dev/full")), plain, lambda: 0.0)
    writer.put(entry())
    writer.close()
    assert (writer.failed, writer.written) == (1, 0)


def test_an_audit_file_that_is_moved_away_is_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    moved = tmp_path / "audit.log.old"
    sink = File(path)
    sink.write(b"1\n")
    path.rename(moved)
    sink.write(b"2\n")
    path.unlink()
    sink.write(b"3\n")
    assert (moved.read_bytes(), path.read_bytes()) == (b"1\n", b"3\n")
    assert path.stat().st_mode & 0o007 == 0
    sink.close()


def test_a_file_that_is_full_makes_room_for_another_and_keeps_one(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    sink = File(path, max_bytes=10)
    for line in (b"1111\n", b"2222\n", b"3333\n", b"4444\n", b"5555\n"):
        sink.write(line)
    assert path.read_bytes() == b"5555\n"
    assert (tmp_path / "audit.log.1").read_bytes() == b"3333\n4444\n"
    sink.close()


def test_a_line_that_was_cut_off_is_not_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    sink = File(path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3, hard))  # as on a disk with three bytes left
    try:
        with pytest.raises(OSError, match="File too large"):
            sink.write(b'{"a":1}\n')
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    sink.write(b'{"b":2}\n')
    assert path.read_bytes() == b'{"a\n{"b":2}\n'
    sink.close()


class Kept:
    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def write(self, lines: bytes) -> None:
        self.lines += [json.loads(line) for line in lines.splitlines()]

    def close(self) -> None: ...


class Someone:
    identity = ANONYMOUS
    address = "::1"
    headers: Mapping[bytes, bytes] = MappingProxyType({})


@pytest.mark.parametrize(
    ("level", "decisions"),
    [("denials", ["denied", "limited", "denied"]), ("all", ["denied", "limited", "allowed", "refused", "denied"])],
)
def test_a_level_says_which_decisions_get_a_line(level: Any, decisions: list[str]) -> None:
    sink = Kept()
    auditor = Auditor(Writer(sink, plain, lambda: 0.0), level, now=lambda: 0.0)
    auditor.record_denial(Someone(), AuditedCall("tools/call", "rm", {}, "-32602"), "unknown")
    auditor.record_call(Someone(), AuditedCall("tools/call", "add", {}, "RATE_LIMITED", KEY, exceeded_limit="agent"))
    auditor.record_call(Someone(), AuditedCall("tools/call", "add", {}, "", KEY, seconds=0.1, size=3))
    auditor.record_call(Someone(), AuditedCall("tools/call", "add", {}, "OVER_BUDGET", KEY, seconds=0.1, size=3))
    auditor.record_rejection(Someone(), 401, "no credential")
    auditor.writer.close()
    assert [line["decision"] for line in sink.lines] == decisions
