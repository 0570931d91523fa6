"""Times at which a pod is pinged, avoided and tried again."""

from __future__ import annotations

import pytest

from fairlead_gateway.upstream.pod_health import MAX_PATIENCE, MAX_PAUSE, PodHealth, PodHealthTable


def test_pings_of_a_pod_that_was_left_have_growing_pauses_with_a_bound() -> None:
    health = PodHealth()
    now = 100.0
    pauses = []
    for _ in range(8):
        health.eject(now, now, 0.0)
        pauses.append(health.next_ping_at - now)
        assert not health.ping_due(health.next_ping_at - 0.01, now, now)
        now = health.next_ping_at
        assert health.ping_due(now, now, now)
    assert pauses == [1, 2, 4, 8, 16, MAX_PAUSE, MAX_PAUSE, MAX_PAUSE]


def test_pauses_are_cut_at_random() -> None:
    health = PodHealth()
    health.eject(100.0, 99.0, 0.5)
    assert health.next_ping_at == pytest.approx(100.9)


@pytest.mark.parametrize(("steady", "pause"), [(10.0, 2.0), (61.0, 1.0)])
def test_a_pod_that_is_soon_left_again_has_its_longer_pause(steady: float, pause: float) -> None:
    health = PodHealth()
    health.eject(100.0, 99.0, 0.0)
    health.readmit(101.0)
    health.eject(101.0 + steady, 101.0, 0.0)
    assert health.next_ping_at == 101.0 + steady + pause


def test_a_pod_is_pinged_beside_a_call_that_waits_over_a_second_and_rarely_while_it_answers() -> None:
    health = PodHealth()
    pings = []
    for tick in range(1, 121):
        now = 100.0 + tick / 4
        if health.ping_due(now, 100.0, 99.0):
            pings.append(now - 100.0)
            health.record_answer(now)
    assert pings == [1.0, 2.0, 4.0, 8.0, 13.0, 18.0, 23.0, 28.0]


def test_an_answer_is_a_sign_of_life_and_needs_no_ping() -> None:
    health = PodHealth()
    assert not health.ping_due(110.0, 100.0, 109.5)
    assert health.ping_due(110.5, 100.0, 109.5)


def test_patience_follows_the_longest_silence_of_a_pod_that_was_at_work() -> None:
    table = PodHealthTable(lambda: 0.0)
    assert table.patience == 1.0
    table.learn_patience(3.0)
    table.learn_patience(2.0)
    assert table.patience == 6.0
    table.learn_patience(300.0)
    assert table.patience == MAX_PATIENCE
    table.concurrent = True
    assert table.patience == 1.0


def test_addresses_that_never_answered_are_not_counted() -> None:
    table = PodHealthTable(lambda: 0.0)
    unreachable, frozen, well = (table.of(("10.0.0.1", port)) for port in range(3))
    unreachable.eject(1.0, 1.0, 0.0)
    frozen.has_answered = well.has_answered = True
    frozen.eject(1.0, 1.0, 0.0)
    assert table.counts() == (1, 1)
