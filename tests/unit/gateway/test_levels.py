"""The log level of a legacy session with a server, derived from the levels that its clients request."""

from __future__ import annotations

from fairlead_gateway.upstream.log_levels import CLIENT_LEVEL_SECONDS, MAX_CLIENTS, LogLevels


def test_the_lowest_level_that_somebody_asked_for_of_late_counts() -> None:
    levels = LogLevels(shared=True)
    assert levels.level_to_set(b"a", "debug", 0) == "debug"
    assert levels.level_to_set(b"b", "info", 1) is None
    assert levels.level_to_set(b"a", "debug", 2) is None
    assert levels.level_to_set(b"b", "info", 3 + CLIENT_LEVEL_SECONDS) == "info", "nobody has needed more for long"
    assert levels.level_to_set(b"a", "debug", 4 + CLIENT_LEVEL_SECONDS) == "debug"


def test_a_client_that_wants_less_than_before_counts_with_that() -> None:
    levels = LogLevels(shared=False)
    assert [levels.level_to_set(b"a", level, 0) for level in ("debug", "error", "error")] == ["debug", "error", None]


def test_a_crowd_of_clients_is_not_kept() -> None:
    levels = LogLevels(shared=True)
    levels.level_to_set(b"first", "debug", 0)
    due = [levels.level_to_set(b"%d" % number, "info", 0) for number in range(MAX_CLIENTS)]
    assert due == [None] * (MAX_CLIENTS - 1) + ["info"]
