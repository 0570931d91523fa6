"""Repeated denials: few audit lines, however many denials there are, and repetition by one caller hides no other
caller's."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from msgspec import Raw

from fairlead_api.meta import ServerKey
from fairlead_gateway.audit.entry import AuditEntry
from fairlead_gateway.audit.lines import line_of
from fairlead_gateway.audit.repeats import LINES, LINES_OF_TOOL, MAX_CALLERS, MAX_TOOLS, WINDOW_S, RepeatedDenials
from fairlead_gateway.audit.writer import Writer
from fairlead_gateway.core.identity import Identity

KEY = ServerKey("team", "shop")
MALLORY = Identity(kind="apiKey", principal="key:mallory", agent="mallory")
ALICE = Identity(kind="apiKey", principal="key:alice", agent="alice")


def denial(**members: Any) -> AuditEntry:
    usual: dict[str, Any] = {
        "at": 1.0,
        "decision": "denied",
        "identity": MALLORY,
        "address": "10.0.0.1",
        "method": "tools/call",
        "tool": "pay",
        "server": KEY,
        "outcome": "-32602",
        "reason": "rule 0 of policy default/p denies the tool",
    }
    return AuditEntry(**{**usual, **members})


class Lines:
    """Sink that decodes the lines."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def write(self, lines: bytes) -> None:
        self.lines += [json.loads(line) for line in lines.splitlines()]

    def close(self) -> None: ...


def log_lines(*entries: AuditEntry) -> list[dict[str, Any]]:
    """Lines of a log that gets all entries within one time window."""
    sink = Lines()
    writer = Writer(sink, lambda entry: line_of(entry, lambda raw: {}), lambda: 1.0)
    for entry in entries:
        writer.put(entry)
    writer.close()
    assert writer.overflowed == 0
    return sink.lines


def test_a_crowd_of_denials_is_ten_lines_and_one_that_says_how_many_more() -> None:
    *singles, total = log_lines(*(denial(arguments_bytes=5) for _ in range(38_000)))
    assert [line["argumentsBytes"] for line in singles] == [5] * LINES_OF_TOOL
    assert total == {
        "time": "1970-01-01T00:00:01.000Z",
        "event": "call",
        "decision": "denied",
        "principal": "key:mallory",
        "agent": "mallory",
        "kind": "apiKey",
        "client": "10.0.0.1",
        "method": "tools/call",
        "tool": "mcp.shop.pay",
        "server": "team/shop",
        "outcome": "-32602",
        "reason": "rule 0 of policy default/p denies the tool",
        "times": 38_000 - LINES_OF_TOOL,
    }


def test_a_crowd_of_denials_of_one_tool_hides_no_other_tool_and_no_other_agent() -> None:
    crowd = [denial() for _ in range(5_000)]
    lines = log_lines(*crowd, denial(tool="secret"), denial(identity=ALICE), denial(outcome="403"))
    assert [line["tool"] for line in lines].count("mcp.shop.secret") == 1
    assert [line["principal"] for line in lines].count("key:alice") == 1
    assert [line["outcome"] for line in lines].count("403") == 1


def test_denials_of_many_tools_are_lines_and_sums_of_a_number_that_is_bounded_and_lose_none() -> None:
    lines = log_lines(*(denial(tool=f"t{number}") for number in range(5_000)))
    assert len(lines) == LINES + MAX_TOOLS + 1
    assert sum(line.get("times", 1) for line in lines) == 5_000
    assert [line["times"] for line in lines if "tool" not in line] == [5_000 - LINES - MAX_TOOLS]


def test_names_that_no_tool_has_count_as_one_tool() -> None:
    lines = log_lines(*(denial(tool=f"made up {number}", server=None) for number in range(1_000)))
    assert [line.get("tool") for line in lines] == [*(f"made up {n}" for n in range(LINES_OF_TOOL)), None]


def test_requests_that_are_turned_away_in_crowds_are_summed_too_and_other_decisions_never() -> None:
    turned_away = [denial(method="", tool="", server=None, status=401, outcome="401") for _ in range(50)]
    lines = log_lines(*turned_away, *(denial(decision="allowed", outcome="") for _ in range(50)))
    assert [line["decision"] for line in lines].count("allowed") == 50
    assert [line["times"] for line in lines if "times" in line] == [40]
    assert next(line["status"] for line in lines if "times" in line) == 401


def test_a_sum_is_taken_when_its_second_is_over_and_lines_come_again() -> None:
    repeated = RepeatedDenials()
    assert [repeated.absorbs(denial()) for _ in range(12)] == [False] * 10 + [True] * 2
    assert repeated.take(1.0 + WINDOW_S / 2) == []
    assert [entry.times for entry in repeated.take(1.0 + WINDOW_S)] == [2]
    assert not repeated.has_windows
    assert not repeated.absorbs(denial(at=2.0))


def test_sums_that_a_slow_disk_does_not_take_go_on_counting_and_do_not_become_more() -> None:
    repeated = RepeatedDenials()
    for second in range(50):
        for _ in range(20):
            repeated.absorbs(denial(at=float(second), arguments=Raw(b"[]"), traceparent=b"00", meta=Raw(b"{}")))
    (total,) = repeated.take(50.0)
    assert (total.times, total.at) == (50 * 20 - LINES_OF_TOOL, 49.0)
    assert total.weight == len("pay"), "nothing of a request is kept for a sum but the name of a tool"


def test_a_clock_that_is_set_back_ends_a_window() -> None:
    repeated = RepeatedDenials()
    assert [repeated.absorbs(denial(at=9_000.0)) for _ in range(11)][-1]
    assert len(repeated.take(1.0)) == 1


@pytest.mark.parametrize("member", ["identity", "address"])
def test_a_crowd_of_askers_is_remembered_within_a_bound_and_those_beyond_it_are_one(member: str) -> None:
    repeated = RepeatedDenials()
    for number in range(MAX_CALLERS):
        who: Any = Identity(kind="jwt", principal=f"p{number}") if member == "identity" else f"10.0.{number}"
        assert not repeated.absorbs(denial(**{member: who}))
    assert [repeated.absorbs(denial(identity=ALICE)) for _ in range(12)] == [False] * LINES_OF_TOOL + [True] * 2
    bob = Identity(kind="apiKey", principal="key:bob")
    assert repeated.absorbs(denial(identity=bob))
    [total] = repeated.take(1.0 + WINDOW_S)
    assert (total.times, total.identity.principal, total.address) == (3, "others", ""), "it blames nobody for others"


def test_addresses_of_one_ipv6_network_are_one_asker() -> None:
    """A machine can choose any address in its /64 network, so each address would get its own lines."""
    anonymous = Identity(kind="anonymous", principal="anonymous")
    lines = log_lines(*(denial(identity=anonymous, address=f"2001:db8::{number:x}") for number in range(5_000)))
    assert len(lines) == LINES_OF_TOOL + 1
    assert lines[-1]["times"] == 5_000 - LINES_OF_TOOL


def test_a_sum_that_counts_while_another_is_written_is_not_lost_by_a_close_in_between() -> None:
    class ClosingSink(Lines):
        def write(self, lines: bytes) -> None:
            super().write(lines)
            if closer.ident is None and any("times" in line for line in self.lines):
                closer.start()
                closer.join(0.05)
                begun.set()

    sink, clock = ClosingSink(), [1.0]
    writer = Writer(sink, lambda entry: line_of(entry, lambda raw: {}), lambda: clock[0], gather_seconds=0.2)
    closer, begun = threading.Thread(target=writer.close), threading.Event()
    for _ in range(LINES_OF_TOOL + 1):
        writer.put(denial())
    clock[0] += WINDOW_S
    for _ in range(LINES_OF_TOOL + 1):
        writer.put(denial(at=clock[0], identity=ALICE))
    assert begun.wait(30)
    closer.join()
    assert [line["agent"] for line in sink.lines if "times" in line] == ["mallory", "alice"]
