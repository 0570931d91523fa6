"""Failed grants are remembered for some seconds, only for the users they concern."""

from __future__ import annotations

from fairlead_mcp.oauth.errors import INVALID_CLIENT, INVALID_GRANT, GrantFailed
from fairlead_mcp.oauth.grant_failures import MAX_PER_PERSON, GrantFailures, RequestKey
from fairlead_mcp.oauth.subject import TokenSubject
from virtualtime import HandClock

ALICE, BOB = TokenSubject(b"alice", "a1"), TokenSubject(b"bob", "b1")
OWN = GrantFailed("bad token", cause=INVALID_GRANT, claims="{}")
COMMON = GrantFailed("bad client", cause=INVALID_CLIENT)


def key(subject: TokenSubject, *scopes: str) -> RequestKey:
    return subject.person, frozenset(scopes)


def test_failure_of_a_person_pauses_that_persons_token_alone() -> None:
    failures = GrantFailures(10, HandClock())
    failures.note_failure(key(ALICE), ALICE, OWN)
    raised = failures.find(key(ALICE), ALICE)
    assert raised is not None
    assert raised is not OWN
    assert (str(raised), raised.cause, raised.claims) == ("bad token", INVALID_GRANT, "{}")
    assert failures.find(key(ALICE, "more"), ALICE) is None
    assert failures.find(key(BOB), BOB) is None
    assert failures.find(key(ALICE), TokenSubject(b"alice", "a2")) is None, "a newer token is tried at once"


def test_failure_for_everybody_pauses_all() -> None:
    clock = HandClock()
    failures = GrantFailures(10, clock)
    failures.note_failure(key(ALICE), ALICE, COMMON)
    assert failures.find(key(BOB), BOB) is not None
    assert failures.find(key(ALICE), TokenSubject(b"alice", "a2")) is not None
    clock.now = 1
    assert failures.find(key(BOB), BOB) is None
    failures.note_failure(key(BOB), BOB, COMMON)
    failures.note_success(key(ALICE))
    assert failures.find(key(BOB), BOB) is None


def test_pause_grows_from_one_to_five_seconds_until_another_token_comes() -> None:
    clock = HandClock()
    failures = GrantFailures(10, clock)
    pauses = []
    for _ in range(5):
        failures.note_failure(key(ALICE), ALICE, OWN)
        began = clock.now
        while failures.find(key(ALICE), ALICE):
            clock.now += 0.5
        pauses.append(clock.now - began)
    assert pauses == [1, 2, 4, 5, 5]
    newer = TokenSubject(b"alice", "a2")
    failures.note_failure(key(ALICE), newer, OWN)
    clock.now += 1
    assert failures.find(key(ALICE), newer) is None


def test_failures_are_bounded_and_forgotten_with_their_person() -> None:
    failures = GrantFailures(3, HandClock())
    for number in range(100):
        subject = TokenSubject(b"%d" % number, "x")
        failures.note_failure(key(subject), subject, OWN)
    remembered = [n for n in range(100) if failures.find((b"%d" % n, frozenset()), TokenSubject(b"", "x"))]
    assert remembered == [97, 98, 99]
    failures.forget(b"98")
    assert failures.find((b"98", frozenset()), TokenSubject(b"", "x")) is None


def test_failures_of_one_person_with_many_scopes_push_out_only_that_persons() -> None:
    failures = GrantFailures(3, HandClock())
    failures.note_failure(key(BOB), BOB, OWN)
    for number in range(100):
        failures.note_failure(key(ALICE, f"s{number}"), ALICE, OWN)
    assert failures.find(key(BOB), BOB) is not None
    remembered = [n for n in range(100) if failures.find(key(ALICE, f"s{n}"), ALICE)]
    assert remembered == [*range(100 - MAX_PER_PERSON, 100)]
    failures.note_success(key(ALICE, "s99"))
    assert failures.find(key(ALICE, "s99"), ALICE) is None
    assert failures.find(key(ALICE, "s98"), ALICE) is not None
