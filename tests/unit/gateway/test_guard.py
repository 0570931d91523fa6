"""Admission of calls to a server: concurrency, queue, rate and circuit breaker, in virtual time."""

from __future__ import annotations

import pytest

from fairlead_gateway.core.ports import CLOSED, HALF_OPEN, OPEN
from fairlead_gateway.upstream.breaker import MAX_FAILURES, MAX_SECONDS
from fairlead_gateway.upstream.guard import FRESH_SECONDS, PLAIN, QUEUED, TRIAL, Guard, Timing
from fairlead_gateway.upstream.server_facts import AdmissionLimits
from fairlead_mcp.errors import (
    BadHttp,
    ConnectFailed,
    HttpRefused,
    McpError,
    NotMcp,
    PoolFull,
    RpcError,
    Timeout,
    TooLarge,
)
from fairlead_tools.refusal import AdmissionRefused
from guard_in_virtual_time import LOST, World


def code(error: BaseException | None) -> str:
    assert isinstance(error, AdmissionRefused)
    return error.code


def test_no_more_calls_at_once_than_the_limit_and_the_rest_in_their_order() -> None:
    world = World()
    guard = world.guard
    assert guard.enter_now()
    assert guard.enter_now()
    assert not guard.enter_now()
    first = world.caller()
    second = world.caller()
    assert guard.enter(first) == guard.enter(second) == QUEUED
    guard.leave_after_success()
    assert (first.ticket, second.ticket, guard.busy) == (PLAIN, QUEUED, 2)
    guard.leave(PLAIN, None, 0)
    assert (second.ticket, guard.busy, guard.waiting) == (PLAIN, 2, 0)


def test_callers_do_not_overtake_those_who_wait() -> None:
    world = World(limit=1)
    assert world.guard.enter_now()
    waiting = world.caller()
    world.guard.enter(waiting)
    world.guard.busy -= 1
    assert not world.guard.enter_now()
    assert world.guard.enter(world.caller()) == QUEUED


def test_a_full_queue_refuses_at_once() -> None:
    world = World(limit=1, waiting=1)
    assert world.guard.enter_now()
    world.guard.enter(world.caller())
    with pytest.raises(AdmissionRefused) as caught:
        world.guard.enter(world.caller())
    assert code(caught.value) == "RATE_LIMITED"
    assert caught.value.retry_after > 0


def test_agents_that_wait_get_in_by_turns_however_many_calls_each_has() -> None:
    world = World(limit=1)
    assert world.guard.enter_now()
    greedy = [world.caller(agent="greedy") for _ in range(50)]
    for caller in greedy:
        world.guard.enter(caller)
    polite = [world.caller(agent=name) for name in ("b", "c")]
    for caller in polite:
        world.guard.enter(caller)
    for _ in range(3):
        world.guard.leave_after_success()
    assert [caller.ticket for caller in polite] == [PLAIN, PLAIN]
    assert [caller.ticket for caller in greedy] == [PLAIN] + [QUEUED] * 49


def test_a_full_queue_drops_a_call_of_the_agent_with_most() -> None:
    world = World(limit=1, waiting=3)
    assert world.guard.enter_now()
    greedy = [world.caller(agent="greedy") for _ in range(3)]
    for caller in greedy:
        world.guard.enter(caller)
    with pytest.raises(AdmissionRefused):
        world.guard.enter(world.caller(agent="greedy"))
    polite = world.caller(agent="polite")
    assert world.guard.enter(polite) == QUEUED
    assert [caller.error is None for caller in greedy] == [True, True, False]
    assert code(greedy[2].error) == "RATE_LIMITED"
    with pytest.raises(AdmissionRefused):  # dropping another call of `greedy` would leave `polite` with more calls
        world.guard.enter(world.caller(agent="polite"))
    assert world.guard.waiting == 3


def test_a_wait_in_the_queue_ends_after_its_time_or_with_the_call_itself() -> None:
    world = World(limit=1, queue=5.0)
    assert world.guard.enter_now()
    patient = world.caller(60)
    hasty = world.caller(2)
    gone = world.caller(1)
    for caller in (patient, hasty, gone):
        world.guard.enter(caller)
    world.guard.withdraw(gone)
    world.sleep(2.2)
    assert isinstance(hasty.error, Timeout)
    assert not hasty.error.sent
    assert patient.error is None
    world.sleep(3)
    assert code(patient.error) == "RATE_LIMITED"
    assert gone.error is None
    assert world.guard.waiting == 0


def test_calls_per_second_let_a_burst_through_and_say_when_to_come_again() -> None:
    world = World(limit=99, rate=2.0)
    assert not world.guard.enter_now()
    assert [world.guard.enter(world.caller()) for _ in range(2)] == [PLAIN, PLAIN]
    with pytest.raises(AdmissionRefused) as caught:
        world.guard.enter(world.caller())
    assert (code(caught.value), caught.value.retry_after) == ("RATE_LIMITED", 0.5)
    world.sleep(0.5)
    assert world.guard.enter(world.caller()) == PLAIN
    with pytest.raises(AdmissionRefused):
        world.guard.enter(world.caller())
    assert world.guard.enter(world.caller(), retry=True) == PLAIN


def test_the_breaker_opens_after_failures_in_a_row_and_refuses_at_once() -> None:
    world = World()
    world.fail(MAX_FAILURES - 1)
    assert world.state() == CLOSED
    world.fail()
    assert world.state() == OPEN
    with pytest.raises(AdmissionRefused) as caught:
        world.guard.enter(world.caller())
    assert (code(caught.value), caught.value.retry_after) == ("BREAKER_OPEN", 1.0)
    assert "it hung up" in str(caught.value)


def test_a_breaker_logs_its_opening_and_closing_once_each(caplog: pytest.LogCaptureFixture) -> None:
    world = World(limit=9)
    stragglers = [world.guard.enter_now() for _ in range(3)]
    world.fail(MAX_FAILURES)
    for _ in stragglers:
        world.guard.leave(PLAIN, LOST, 0)
    for _ in range(2):
        world.sleep(9.0)
        assert world.guard.enter(world.caller()) == TRIAL
        world.guard.leave(TRIAL, LOST, 0)
    world.sleep(9.0)
    assert world.guard.enter(world.caller()) == TRIAL
    world.guard.leave_after_success()
    told = [record.getMessage().split(":")[0] for record in caplog.records]
    assert told == ["Server a/x is not called for a while", "Server a/x answers again"]


def test_an_answer_in_between_restarts_the_row_of_failures() -> None:
    world = World()
    world.fail(MAX_FAILURES - 1)
    assert world.guard.enter_now()
    world.guard.leave_after_success()
    world.fail(MAX_FAILURES - 1)
    assert world.state() == CLOSED


@pytest.mark.parametrize(
    ("error", "opens"),
    [
        (LOST, True),
        (ConnectFailed("refused"), True),
        (Timeout("late", sent=True), True),
        (Timeout("no connection free", sent=False), False),
        (PoolFull("full"), False),
        (TooLarge("huge"), False),
        (RpcError(-32603, "oops"), False),
        (HttpRefused("500", status=500), False),
        (NotMcp("html"), False),
        (BadHttp("garbage"), False),
        (ConnectFailed("no credential", reason="NotCallable"), False),
        (ConnectFailed("swapped", reason="Closed"), False),
    ],
)
def test_a_breaker_opens_by_failures_of_transport_alone(error: McpError, opens: bool) -> None:
    world = World()
    world.fail(MAX_FAILURES, error)
    assert (world.state() == OPEN) is opens


def test_a_breaker_that_opens_refuses_waiting_callers_too() -> None:
    world = World(limit=1)
    world.fail(MAX_FAILURES - 1)
    assert world.guard.enter_now()
    waiting = world.caller()
    world.guard.enter(waiting)
    world.guard.leave(PLAIN, LOST, 0)
    assert code(waiting.error) == "BREAKER_OPEN"


def test_an_open_breaker_lets_one_call_try_after_a_while() -> None:
    world = World()
    world.fail(MAX_FAILURES)
    world.sleep(1.0)
    assert world.state() == HALF_OPEN
    assert world.guard.enter(world.caller()) == TRIAL
    with pytest.raises(AdmissionRefused):
        world.guard.enter(world.caller())
    world.guard.leave_after_success()
    assert world.state() == CLOSED
    assert world.guard.enter_now()


def test_a_trial_that_fails_doubles_the_pause_up_to_a_bound() -> None:
    world = World()
    world.fail(MAX_FAILURES)
    pauses = []
    for _ in range(8):
        with pytest.raises(AdmissionRefused) as caught:
            world.guard.enter(world.caller())
        pauses.append(caught.value.retry_after)
        world.sleep(pauses[-1])
        assert world.guard.enter(world.caller()) == TRIAL
        world.guard.leave(TRIAL, LOST, world.guard.responses_seen)
    assert pauses == [1, 2, 4, 8, 16, MAX_SECONDS, MAX_SECONDS, MAX_SECONDS]


def test_a_trial_that_was_given_up_leaves_the_next_one_to_try() -> None:
    world = World()
    world.fail(MAX_FAILURES)
    world.sleep(1.0)
    assert world.guard.enter(world.caller()) == TRIAL
    world.guard.leave(TRIAL, None, 0, abandoned=True)
    assert world.guard.enter(world.caller()) == TRIAL


def test_answers_to_earlier_calls_neither_open_the_breaker_again_nor_count() -> None:
    world = World(limit=9)
    assert world.guard.enter_now()
    world.fail(MAX_FAILURES)
    world.sleep(1.0)
    assert world.guard.enter(world.caller()) == TRIAL
    world.guard.leave(PLAIN, LOST, 0)
    world.guard.leave(TRIAL, None, 0)
    assert world.state() == CLOSED


def test_a_slow_tool_among_working_ones_opens_nothing() -> None:
    world = World(limit=9)
    for _ in range(MAX_FAILURES * 2):
        assert world.guard.enter_now()
        responses_seen = world.guard.responses_seen
        assert world.guard.enter_now()
        world.guard.leave(PLAIN, None, responses_seen)
        world.guard.leave(PLAIN, Timeout("late", sent=True), responses_seen)
    assert world.state() == CLOSED


def test_a_caller_who_gives_up_tells_nothing_of_the_server() -> None:
    world = World()
    for _ in range(MAX_FAILURES * 2):
        assert world.guard.enter_now()
        world.guard.leave(PLAIN, Timeout("late", sent=True), world.guard.responses_seen, abandoned=True)
    assert world.state() == CLOSED


def test_custom_tools_have_no_breaker() -> None:
    world = World(breaks=False)
    world.fail(MAX_FAILURES * 2, Timeout("late", sent=True))
    assert world.state() == CLOSED


def test_retries_have_a_budget_that_calls_fill_again() -> None:
    guard = World(limit=99).guard
    granted = sum(guard.may_retry() for _ in range(100))
    assert granted == 10
    for _ in range(11):
        assert guard.enter_now()
        guard.leave(PLAIN, None, guard.responses_seen)
    assert [guard.may_retry(), guard.may_retry()] == [True, False]


def test_calls_are_not_retried_while_the_breaker_is_open() -> None:
    world = World()
    world.fail(MAX_FAILURES)
    assert not world.guard.may_retry()


def test_a_server_still_answers_for_three_seconds_after_its_last_answer_and_until_a_failure() -> None:
    now = 100.0
    guard = Guard("demo", AdmissionLimits(limit=1), Timing(lambda seconds, run: None, lambda: now))
    assert not guard.still_answers(), "it never did"

    def answer_call() -> None:
        assert guard.enter_now()
        guard.leave_after_success()

    answer_call()
    assert guard.still_answers()
    now += FRESH_SECONDS - 0.1
    assert guard.still_answers()
    now += 0.2
    assert not guard.still_answers()
    answer_call()
    assert guard.still_answers()
    assert guard.enter_now()
    guard.leave(PLAIN, LOST, guard.responses_seen)
    assert not guard.still_answers()
