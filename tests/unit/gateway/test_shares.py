"""Shares of agents: an agent that takes all it can leaves room for others, and returned shares are not counted any
more."""

from __future__ import annotations

import random

import pytest

from fairlead_gateway.calls.questions.server_requests import MAX_LEVELS, ServerRequests
from fairlead_gateway.calls.sealed.sessions import SessionIds
from fairlead_gateway.core.share_counts import ShareCounts
from fairlead_gateway.endpoint.event_store import MAX_STORED_BYTES, STREAM_BYTES, EventStore
from fairlead_gateway.limits.shares import Shares, ShareTaken, oldest_of_largest


def take_outcomes(shares: Shares, agent: str, times: int) -> list[str]:
    """Outcomes of `times` attempts to take a share: empty, or the limit that was reached."""
    outcomes: list[str] = []
    for _ in range(times):
        try:
            shares.take(agent)
        except ShareTaken as reached:
            outcomes.append(reached.bound)
        else:
            outcomes.append("")
    return outcomes


def test_an_agent_at_its_share_is_refused_and_others_are_not() -> None:
    counts = ShareCounts()
    shares = Shares("streams", 8, counts=counts)
    assert take_outcomes(shares, "mallory", 5) == ["", "", "agent", "agent", "agent"]
    assert take_outcomes(shares, "alice", 2) == ["", ""]
    assert take_outcomes(shares, "bob", 2) + take_outcomes(shares, "carol", 2) == [""] * 4
    assert take_outcomes(shares, "dave", 1) == ["gateway"]
    assert take_outcomes(shares, "mallory", 1) == ["agent"], "it has this in its own hand"
    outcomes = {outcome: counts.outcomes["streams", outcome] for outcome in ("agent", "gateway", "gave_way")}
    assert outcomes == {"agent": 4, "gateway": 1, "gave_way": 0}


@pytest.mark.parametrize(
    ("most", "each", "parts", "share"),
    [(8, 0, 4, 2), (9, 0, 4, 3), (1, 0, 4, 1), (9, 0, 2, 5), (8, 5, 4, 5), (8, 9, 4, 8)],
)
def test_a_share_is_a_part_of_all_unless_it_is_set(most: int, each: int, parts: int, share: int) -> None:
    assert Shares("streams", most, each, parts=parts).each == share


def test_the_gateway_itself_has_no_share() -> None:
    assert take_outcomes(Shares("streams", 8), "", 9) == [""] * 8 + ["gateway"]


def test_shares_given_back_can_be_taken_again_and_agents_without_any_are_forgotten() -> None:
    shares = Shares("watched_bytes", 100, 50)
    with shares.hold("alice", 40):
        assert shares.bound("alice", 10) is None
        reached = shares.bound("alice", 11)
        assert reached is not None
        assert (reached.bound, reached.limit) == ("agent", 50)
        assert shares.of("alice") == shares.total == 40
    assert shares.of("alice") == shares.total == 0
    assert not shares._amounts


def test_the_oldest_of_the_agent_with_most_give_way_until_there_is_room() -> None:
    entries = [("a1", "alice", 3), ("m1", "mallory", 4), ("m2", "mallory", 4), ("b1", "bob", 1), ("m3", "mallory", 4)]
    assert oldest_of_largest(entries, 1) == ["m1"]
    assert oldest_of_largest(entries, 8) == ["m1", "m2"]
    assert oldest_of_largest(entries, 9) == ["m1", "m2", "m3"]
    assert oldest_of_largest(entries, 99) == ["m1", "m2", "m3", "a1", "b1"]
    assert oldest_of_largest(entries, 0) == []


def test_an_agent_that_holds_no_more_than_an_equal_part_keeps_it() -> None:
    random_source = random.Random(1)
    for _ in range(200):
        agents = [f"agent {number}" for number in range(random_source.randint(2, 6))]
        entries = [(number, random_source.choice(agents), 1) for number in range(random_source.randint(10, 60))]
        excess = random_source.randint(1, len(entries))
        dropped = set(oldest_of_largest(entries, excess))
        assert len(dropped) == excess
        fair = (len(entries) - excess) // len(agents)
        for agent in agents:
            own = [key for key, of, _ in entries if of == agent]
            left = [key for key in own if key not in dropped]
            assert len(left) >= min(len(own), fair)
            assert left == own[len(own) - len(left) :], "the oldest go first"


class Outlet:
    def write(self, chunk: bytes) -> bool:
        return True

    def end(self, *chunks: bytes) -> None:
        """Do nothing, because nobody reads."""


def test_streams_to_resume_of_an_agent_with_thousands_do_not_push_those_of_others_out() -> None:
    counts = ShareCounts()
    store = EventStore(lambda: 0.0, counts=counts)
    own = store.new(b"session of alice", "alice")
    event = own.prime(Outlet()).partition(b"\r\n")[2].split(b"\n")[0].removeprefix(b"id: ")
    for number in range(2 * MAX_STORED_BYTES // STREAM_BYTES):
        store.new(b"session %d" % number, "mallory").prime(Outlet())
    assert store.find(b"session of alice", event) == (own, 1)
    assert len(store) <= MAX_STORED_BYTES // STREAM_BYTES
    assert counts.outcomes["resumable_streams", "gave_way"] > MAX_STORED_BYTES // STREAM_BYTES // 2


def test_levels_of_an_agent_with_thousands_of_sessions_do_not_push_those_of_others_out() -> None:
    counts = ShareCounts()
    requests = ServerRequests(SessionIds(b"key"), lambda session, params: False, counts=counts)
    requests.set_level(b"session of alice", "debug", "alice")
    for number in range(2 * MAX_LEVELS):
        requests.set_level(b"session %d" % number, "debug", "mallory")
    assert requests.levels[b"session of alice"] == "debug"
    assert len(requests.levels) <= MAX_LEVELS
    assert requests.levels.keys() == requests._agents.keys()
    assert counts.outcomes["log_levels", "gave_way"] >= MAX_LEVELS
