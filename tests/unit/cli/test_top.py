"""Rates, order and columns of `fairlead top`, in virtual time and without a gateway."""

from __future__ import annotations

from itertools import count

import pytest

from fairlead_cli.failure import Failure
from fairlead_cli.top.columns import GAP, SERVER_COLUMNS, TOOL_COLUMNS, layout_of, per_minute, shorten
from fairlead_cli.top.details import figure_lines
from fairlead_cli.top.feed import outcome_of
from fairlead_cli.top.reading import CountedCalls, GatewayReading, MeasuredTool, WatchedServer
from fairlead_cli.top.rows import CallStatistics, WatchedRows, rows_of
from fairlead_cli.top.sort_key import SortKey
from fairlead_tools.call_rates import MOST_ORIGINS, CallRate, CallRates

Counts = dict[str, tuple[int, int] | None]


def tool(name: str, counted: tuple[int, int] | None = None, p95: float | None = None) -> MeasuredTool:
    basis = "unknown" if p95 is None else "measured"
    counts = None if counted is None else CountedCalls(*counted)
    half = None if p95 is None else p95 / 2
    return MeasuredTool(name, f"default/{name[0]}", basis, half, p95, "fast", counts)


def gateway_reading(at: float, counts: Counts, origin: str = "one") -> GatewayReading:
    return GatewayReading(at, origin, (), tuple(tool(name, counted) for name, counted in counts.items()), {})


def test_a_single_reading_has_no_rates() -> None:
    assert CallRates().take(gateway_reading(10, {"a": (7, 1)})) == {}


def test_a_rate_is_what_two_readings_differ_by() -> None:
    rates = CallRates()
    rates.take(gateway_reading(10, {"a": (7, 1), "b": (0, 0)}))
    assert rates.take(gateway_reading(20, {"a": (12, 2), "b": (0, 0)})) == {"a": CallRate(30, 6), "b": CallRate(0, 0)}


def test_a_burst_leaves_the_rate_after_a_minute() -> None:
    rates = CallRates()
    series = [rates.take(gateway_reading(at, {"a": (0 if at < 4 else 10, 0)})).get("a") for at in range(0, 90, 2)]
    assert series[30] == CallRate(10, 0)
    assert series[-1] == CallRate(0, 0)


def test_readings_in_quick_succession_are_counted_all_the_same() -> None:
    rates = CallRates()
    series = [rates.take(gateway_reading(at / 10, {"a": (at, 0)})) for at in range(1, 601)]
    assert series[-1]["a"].calls == pytest.approx(600)


def test_readings_rarer_than_a_minute_are_held_against_the_one_before() -> None:
    rates = CallRates()
    for at, calls in ((0, 0), (300, 5)):
        rates.take(gateway_reading(at, {"a": (calls, 0)}))
    assert rates.take(gateway_reading(600, {"a": (25, 0)})) == {"a": CallRate(4, 0)}


def test_a_tool_that_appears_brings_no_calls_of_before() -> None:
    rates = CallRates()
    rates.take(gateway_reading(0, {}))
    assert rates.take(gateway_reading(30, {"a": (1000, 0)})) == {}
    assert rates.take(gateway_reading(60, {"a": (1001, 0)})) == {"a": CallRate(2, 0)}


def test_a_tool_that_is_not_counted_has_no_rate() -> None:
    rates = CallRates()
    rates.take(gateway_reading(0, {"a": None}))
    assert rates.take(gateway_reading(30, {"a": None})) == {}


def test_a_gateway_that_was_started_again_makes_no_negative_rate() -> None:
    rates = CallRates()
    rates.take(gateway_reading(0, {"a": (1000, 50)}))
    rates.take(gateway_reading(10, {"a": (1001, 50)}))
    again = rates.take(gateway_reading(20, {"a": (0, 0)}, "two"))
    assert again["a"].calls >= 0
    assert rates.take(gateway_reading(80, {"a": (3, 0)}, "two")) == {"a": CallRate(3, 0)}


def test_rates_of_replicas_are_added_up_while_they_answer() -> None:
    rates = CallRates()
    both = {}
    for at in (0, 30):
        rates.take(gateway_reading(at, {"a": (at, 0)}, "one"))
        both = rates.take(gateway_reading(at + 1, {"a": (at // 2, 0)}, "two"))
    assert (both["a"], rates.replicas) == (CallRate(90, 0), 2)
    later = rates.take(gateway_reading(100, {"a": (30, 0)}, "two"))
    assert (rates.replicas, later["a"].calls < 30) == (1, True)


def test_ids_of_processes_are_bounded() -> None:
    rates = CallRates()
    numbers = count()
    for number in range(MOST_ORIGINS * 3):
        rates.take(gateway_reading(number / 10, {"a": (next(numbers), 0)}, f"process {number}"))
    assert rates.replicas == MOST_ORIGINS


def watched_rows() -> WatchedRows:
    tools = (
        tool("a__slow", (100, 0), 900.0),
        tool("b__broken", (50, 40), 10.0),
        tool("a__quick", (70, 1), 20.0),
        tool("b__never", (0, 0)),
        tool("b__uncounted"),
    )
    servers = (
        WatchedServer("default/a", "ready", 2),
        WatchedServer("default/b", "ready", 3, restarts=1),
        WatchedServer("default/gone", "failed", cause="CommandNotFound"),
    )
    reading_now = GatewayReading(0, "one", servers, tools, {})
    return rows_of(reading_now, {"a__quick": CallRate(9, 0), "a__slow": CallRate(2, 0), "b__broken": CallRate(3, 3)})


@pytest.mark.parametrize(
    ("key", "order"),
    [
        (SortKey.calls, ["a__quick", "b__broken", "a__slow", "b__never", "b__uncounted"]),
        (SortKey.errors, ["b__broken", "a__quick", "a__slow", "b__never", "b__uncounted"]),
        (SortKey.latency, ["a__slow", "a__quick", "b__broken", "b__never", "b__uncounted"]),
        (SortKey.name, ["a__quick", "a__slow", "b__broken", "b__never", "b__uncounted"]),
    ],
)
def test_rows_are_in_the_order_of_a_key_and_unknown_ones_last(key: SortKey, order: list[str]) -> None:
    assert [row.name for row in watched_rows().arrange(key).tools] == order


def test_a_server_has_the_calls_of_its_tools_and_the_latency_of_the_slowest() -> None:
    first, second, gone = watched_rows().arrange(SortKey.name).servers
    figures = first.figures
    assert (figures.calls, figures.calls_per_minute, figures.p95_ms) == (170, 11, 900.0)
    assert (second.figures.errors, second.restarts) == (40, 1)
    assert (gone.figures.calls, gone.cause) == (None, "CommandNotFound")


@pytest.mark.parametrize(
    ("words", "servers", "tools"),
    [
        ("QUICK", ["default/a"], ["a__quick"]),
        ("failed", ["default/gone"], []),
        ("t/b", ["default/b"], ["b__broken", "b__never", "b__uncounted"]),
        ("nothing", [], []),
    ],
)
def test_a_filter_goes_by_names_and_states(words: str, servers: list[str], tools: list[str]) -> None:
    rows = watched_rows().arrange(SortKey.name, words)
    assert ([row.name for row in rows.servers], [row.name for row in rows.tools]) == (servers, tools)


@pytest.mark.parametrize("width", [24, 40, 60, 76, 100, 200])
def test_a_row_fits_its_window_with_the_first_columns_kept(width: int) -> None:
    rows = watched_rows()
    for layout in (
        layout_of(SERVER_COLUMNS, width, [row.name for row in rows.servers]),
        layout_of(TOOL_COLUMNS, width, ["a" * 90]),
    ):
        assert layout.name_width + sum(column.width + GAP for column in layout.columns) <= max(width, 27)
        assert {"STATE", "CALLS/MIN"} & {column.heading for column in layout.columns}
    every = layout_of(SERVER_COLUMNS, 200, ["x"])
    assert len(every.cells(rows.servers[0])) == len(SERVER_COLUMNS) + 1


def test_a_long_name_keeps_its_beginning_and_its_end() -> None:
    assert shorten("github__list_pull_requests", 13) == "github…quests"
    assert len(shorten("x" * 99, 5)) == 5


def test_small_rates_have_a_digit_more() -> None:
    assert [per_minute(rate) for rate in (None, 0, 0.5, 12.4, 4000)] == ["-", "0", "0.5", "12", "4,000"]


@pytest.mark.parametrize(("number", "words"), [(1, "1 call, 1 error"), (2, "2 calls, 2 errors"), (None, "- calls")])
def test_figure_lines_tell_one_call_in_the_singular(number: int | None, words: str) -> None:
    assert words in figure_lines(CallStatistics(calls=number, errors=number))[1]


def test_a_fault_of_a_request_is_shown_instead_of_ending_the_thread_unnoticed() -> None:
    def request() -> int:
        raise KeyError("tiers")

    outcome = outcome_of(request)
    assert isinstance(outcome, Failure)
    assert str(outcome) == "internal error: KeyError: 'tiers'; please report it."
