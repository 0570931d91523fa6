"""Goals that `hack/bench sign_ins` computes from windows of measurements."""

from __future__ import annotations

from access.bench_sign_ins import Figures, Window, goals, rows


def figures() -> Figures:
    """Two rounds, the second of which ran on a slower machine."""
    made = Figures(bytes_each=1500.0)
    for number, slower in enumerate((1, 2)):
        made.windows[0, "nowhere"][number] = Window(core=0.03, stop_ms=0.5)
        made.windows[0, "here"][number] = Window(core=0.03 + 0.05 * slower, stop_ms=2.0 * slower)
        for connections in (8, 64):
            made.windows[connections, "nowhere"][number] = Window(core=1.0, stop_ms=1.0, p99=200.0 * slower)
            made.windows[connections, "elsewhere"][number] = Window(core=1.0, stop_ms=1.0, p99=240.0 * slower)
            made.windows[connections, "here"][number] = Window(core=1.0, stop_ms=3.0, p99=300.0 * slower)
    return made


def test_sign_ins_are_charged_with_what_an_idle_gateway_does_not_take() -> None:
    share, stop, *_ = goals("folder", figures().windows)
    assert (share.name, round(share.value or 0, 6), share.met) == ("share of a core, folder", 0.075, True)
    assert (stop.value, stop.met) == (3.0, True)


def test_p99_of_calls_is_compared_within_each_round() -> None:
    moved = [goal for goal in goals("folder", figures().windows) if goal.unit == "× alone"]
    assert [(goal.value, goal.met) for goal in moved] == [(1.5, False), (1.5, False)]


def test_p99_of_calls_is_compared_with_that_beside_sign_ins_elsewhere_too() -> None:
    told = [row["× elsewhere"] for row in rows("folder", figures())]
    assert [getattr(each, "median", None) for each in told] == [None, 1.25, 1.25]


def test_memory_of_a_session_is_told_once() -> None:
    assert [row["KB a session"] for row in rows("folder", figures())] == [1.5, None, None]
