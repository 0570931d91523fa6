"""Open sign-ins: bounded, one per person and server, and tied to one browser."""

from __future__ import annotations

import pytest

from fairlead_api.meta import ServerKey
from fairlead_gateway.sign_in.pending import MAX_OPEN, MAX_OPEN_EACH, SIGN_IN_SECONDS, PendingSignIns
from fairlead_mcp.oauth.challenge import Challenge
from fairlead_mcp.oauth.consent import Authorization
from fairlead_mcp.oauth.errors import GrantFailed
from virtualtime import HandClock

LINEAR = ServerKey("default", "linear")


def authorization(state: str) -> Authorization:
    return Authorization("https://issuer/authorize", state, "verifier", "https://issuer", "http://gateway", "client")


def opened(clock: HandClock | None = None) -> PendingSignIns:
    return PendingSignIns(clock or HandClock(0.0))


def test_a_second_call_of_a_person_gets_the_same_link() -> None:
    pending = opened()
    first = pending.open(b"alice", "alice", LINEAR, None)
    again = pending.open(b"alice", "alice", LINEAR, Challenge(scopes=("read",)))
    assert again is first
    assert first.challenge == Challenge(scopes=("read",))
    assert pending.open(b"bob", "bob", LINEAR, None).id != first.id
    assert pending.open(b"alice", "alice", ServerKey("default", "notion"), None).id != first.id
    assert len(pending) == 3


def test_a_link_ends_after_ten_minutes() -> None:
    clock = HandClock(0.0)
    pending = opened(clock)
    first = pending.open(b"alice", "alice", LINEAR, None)
    first.begin(authorization("state"))
    clock.now = SIGN_IN_SECONDS - 1
    assert pending.find(first.id) is first
    clock.now = SIGN_IN_SECONDS
    assert pending.find(first.id) is None
    assert pending.of_state("state") is None
    assert first.ended.is_set()
    assert pending.open(b"alice", "alice", LINEAR, None) is not first
    assert len(pending) == 1


def test_a_person_cannot_take_the_links_of_others() -> None:
    pending = opened()
    first = [pending.open(b"alice", "alice", ServerKey("n", str(number)), None) for number in range(MAX_OPEN_EACH + 3)]
    assert len(pending) == MAX_OPEN_EACH
    assert pending.find(first[0].id) is None
    assert pending.find(first[-1].id) is first[-1]


def test_links_of_all_persons_are_bounded() -> None:
    pending = opened()
    for number in range(MAX_OPEN):
        pending.open(b"%d" % number, "somebody", LINEAR, None)
    with pytest.raises(GrantFailed, match="are open"):
        pending.open(b"another", "another", LINEAR, None)
    assert pending.open(b"7", "somebody", LINEAR, None).person == b"7"


def test_a_browser_is_admitted_by_its_secret_until_another_one_is() -> None:
    sign_in = opened().open(b"alice", "alice", LINEAR, None)
    assert not sign_in.admits("")
    first = sign_in.admit_browser()
    assert sign_in.admits(first)
    sign_in.begin(authorization("state"))
    second = sign_in.admit_browser()
    assert sign_in.admits(second)
    assert not sign_in.admits(first)
    assert sign_in.authorization is None, "the request of the first browser is not that of the second"
    assert sign_in.form_token(first) != sign_in.form_token(second)
    assert sign_in.id not in sign_in.cookie


def test_an_answer_is_taken_once() -> None:
    pending = opened()
    sign_in = pending.open(b"alice", "alice", LINEAR, None)
    sign_in.begin(authorization("state"))
    assert pending.of_state("other") is None
    assert pending.of_state("") is None
    assert pending.of_state("state") is sign_in
    assert sign_in.take_authorization() is not None
    assert sign_in.take_authorization() is None
    assert pending.of_state("state") is None


def test_a_failed_attempt_wakes_those_who_wait_and_leaves_the_link() -> None:
    pending = opened()
    sign_in = pending.open(b"alice", "alice", LINEAR, None)
    sign_in.begin(authorization("state"))
    ended = sign_in.ended
    sign_in.fail("declined")
    assert ended.is_set()
    assert not sign_in.ended.is_set(), "others wait for the next attempt"
    assert pending.find(sign_in.id) is sign_in
    sign_in.begin(authorization("again"))
    assert sign_in.failure == ""
    pending.close(sign_in)
    assert pending.of_owner(b"alice", LINEAR) is None
    assert sign_in.ended.is_set()
