"""Backoff between starts of a process that fails."""

from __future__ import annotations

from fairlead_client.restart_backoff import RestartBackoff
from fairlead_mcp.errors import ConnectFailed, ConnectionLost


class Life:
    """A process, and a clock that only the test moves."""

    def __init__(self) -> None:
        self.now = 100.0
        self.restarts = RestartBackoff(lambda: self.now, lambda: 0.0)

    def fails(self) -> float:
        """Let the process fail. Returns the seconds until the next start."""
        self.restarts.note_failure(ConnectFailed("it exited with code 1", reason="StartFailed"))
        return self.seconds_left()

    def lives(self, seconds: float) -> float:
        self.restarts.note_start()
        self.now += seconds
        self.restarts.note_loss(ConnectionLost("it exited", sent=False))
        return self.seconds_left()

    def seconds_left(self) -> float:
        refusal = self.restarts.refusal
        return 0.0 if refusal is None else refusal.retry_after


def test_the_delay_doubles_with_each_start_that_fails_up_to_a_minute() -> None:
    life = Life()
    assert [life.fails() for _ in range(8)] == [1, 2, 4, 8, 16, 32, 60, 60]


def test_an_error_that_is_told_twice_counts_once() -> None:
    life = Life()
    error = ConnectFailed("it exited with code 1")
    life.restarts.note_failure(error)
    life.restarts.note_failure(error)
    assert life.seconds_left() == 1


def test_a_process_that_came_up_is_restarted_at_once_and_then_less_and_less_often() -> None:
    life = Life()
    assert [life.lives(1) for _ in range(4)] == [0, 2, 4, 8]
    assert [life.lives(10), life.lives(3600), life.lives(1)] == [0, 0, 2]


def test_a_caller_during_a_restart_pause_is_told_why_how_often_and_when() -> None:
    life = Life()
    life.fails()
    life.now += 0.5
    life.fails()
    refusal = life.restarts.refusal
    assert refusal is not None
    assert (refusal.reason, refusal.retry_after) == ("StartFailed", 2)
    assert str(refusal) == (
        "it exited with code 1 (the server failed 2 times in a row; the first use after 2 s restarts it, "
        "and refresh_cache() restarts it now)"
    )
    life.now += 2
    assert life.restarts.refusal is None
    life.fails()
    life.restarts.end_delay()
    assert life.restarts.refusal is None
