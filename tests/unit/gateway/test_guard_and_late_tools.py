"""Detection whether late calls are the fault of one tool or of its server, in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fairlead_gateway.core.ports import CLOSED, OPEN
from fairlead_gateway.upstream.breaker import MAX_FAILURES
from fairlead_gateway.upstream.guard import PLAIN, TRIAL, Guard, Timing
from fairlead_gateway.upstream.server_facts import AdmissionLimits
from fairlead_mcp.errors import ConnectFailed, RpcError, Timeout
from fairlead_tools.refusal import AdmissionRefused
from guard_in_virtual_time import World


class Pinged(World):
    """A guard that pings its server. The test decides the answer."""

    def __init__(self, **bounds: Any) -> None:
        super().__init__(**bounds)
        self.pings: list[Callable[[Exception | None], None]] = []
        self.guard = Guard(
            "a/x",
            AdmissionLimits(limit=9),
            Timing(self._later, clock=lambda: self.now, random=lambda: 0.0),
            ping=self.pings.append,
        )

    def overrun(self, *tools: str) -> None:
        for tool in tools:
            assert self.guard.enter_now()
            self.guard.leave(PLAIN, Timeout("late", sent=True), self.guard.responses_seen, tool=tool)


def test_a_tool_that_takes_too_long_opens_no_breaker_while_its_server_answers_pings() -> None:
    world = Pinged()
    for _ in range(3):
        world.overrun(*["slow"] * MAX_FAILURES)
        assert world.state() == CLOSED
        world.pings.pop()(None)
        assert (world.state(), world.pings) == (CLOSED, [])
    world.overrun(*["slow"] * MAX_FAILURES)
    world.pings.pop()(RpcError(-32601, "no such method"))
    assert world.state() == CLOSED, "an error is an answer"


def test_an_unanswered_ping_opens_the_breaker(caplog: pytest.LogCaptureFixture) -> None:
    world = Pinged()
    world.overrun(*["slow"] * (MAX_FAILURES + 3))
    assert len(world.pings) == 1, "one at a time"
    world.pings.pop()(Timeout("late", sent=True))
    assert world.state() == OPEN
    assert "did not answer a ping either" in caplog.text


def test_a_ping_that_could_not_be_sent_says_nothing() -> None:
    world = Pinged()
    world.overrun(*["slow"] * MAX_FAILURES)
    world.pings.pop()(Timeout("no connection free", sent=False))
    assert world.state() == CLOSED
    world.overrun("slow")
    assert len(world.pings) == 1, "the next time-out asks again"


def test_time_outs_of_several_tools_open_the_breaker_without_a_ping() -> None:
    world = Pinged()
    world.overrun("slow", "slow", "slow", "slow", "another")
    assert (world.state(), world.pings) == (OPEN, [])


def test_other_failures_and_one_late_tool_are_asked_about() -> None:
    world = Pinged()
    world.fail(MAX_FAILURES - 1)
    world.overrun("slow")
    assert (world.state(), len(world.pings)) == (CLOSED, 1)
    world.fail()
    assert world.state() == OPEN
    world.pings.pop()(Timeout("late", sent=True))
    assert world.guard.breaker.opened_total == 1


@pytest.mark.parametrize(("answer", "after"), [(None, CLOSED), (Timeout("late", sent=True), OPEN)])
def test_a_trial_whose_tool_takes_too_long_ends_with_the_ping(answer: Exception | None, after: str) -> None:
    world = Pinged()
    world.fail(MAX_FAILURES)
    world.sleep(1.0)
    assert world.guard.enter(world.caller()) == TRIAL
    world.guard.leave(TRIAL, Timeout("late", sent=True), world.guard.responses_seen, tool="slow")
    with pytest.raises(AdmissionRefused):
        world.guard.enter(world.caller())
    world.pings.pop()(answer)
    assert world.state() == after


def test_a_refused_call_is_not_told_where_the_server_is() -> None:
    world = World()
    world.fail(MAX_FAILURES, ConnectFailed("10.1.2.3:80 refused the connection", reason="ConnectionRefused"))
    with pytest.raises(AdmissionRefused) as caught:
        world.guard.enter(world.caller())
    assert "the server refuses connections" in str(caught.value)
    assert "10.1.2.3" not in str(caught.value)
