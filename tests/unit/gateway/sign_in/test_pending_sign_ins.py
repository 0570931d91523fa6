"""Pending sign-ins: limited in number, one per user and server, and usable only in the user's browser, at any
replica."""

from __future__ import annotations

import msgspec
import pytest

from fairlead_api.meta import ServerKey
from fairlead_gateway.sign_in.pending import (
    MAX_OPEN,
    MAX_OPEN_PER_PERSON,
    MAX_SCOPE_CHARS,
    MAX_URL_CHARS,
    SIGN_IN_SECONDS,
    PendingSignIn,
    PendingSignIns,
)
from fairlead_gateway.sign_in.sealed_sign_ins import SignInSealer
from fairlead_mcp.oauth.challenge import Challenge
from fairlead_mcp.oauth.consent import Authorization
from fairlead_mcp.oauth.errors import GrantFailed
from virtualtime import HandClock

LINEAR = ServerKey("default", "linear")


def authorization(state: str) -> Authorization:
    return Authorization("https://issuer/authorize", state, "verifier", "https://issuer", "http://gateway", "client")


def replica(clock: HandClock | None = None, key: bytes = b"key") -> PendingSignIns:
    return PendingSignIns(SignInSealer(key), clock or HandClock(1_000.0))


def cookies_of(pending: PendingSignIns, sign_in: PendingSignIn, state: str) -> dict[str, str]:
    return {sign_in.cookie: pending.admit_browser(sign_in, authorization(state))}


def test_a_second_call_of_a_person_gets_the_same_link() -> None:
    pending = replica()
    first = pending.open(b"alice", "alice", LINEAR, None)
    assert pending.open(b"alice", "alice", LINEAR, None) is first
    assert pending.open(b"bob", "bob", LINEAR, None).id != first.id
    assert pending.open(b"alice", "alice", ServerKey("default", "notion"), None).id != first.id
    assert len(pending) == 3


def test_a_server_that_wants_other_scopes_gets_another_link() -> None:
    pending = replica()
    first = pending.open(b"alice", "alice", LINEAR, None)
    wider = pending.open(b"alice", "alice", LINEAR, Challenge("insufficient_scope", ("write",)))
    assert wider.ticket.challenge == Challenge("insufficient_scope", ("write",))
    assert pending.open(b"alice", "alice", LINEAR, None) is wider
    assert first.ended.is_set()
    longest = pending.open(b"alice", "alice", LINEAR, Challenge("insufficient_scope", ("x" * MAX_SCOPE_CHARS, "y")))
    assert longest.ticket.challenge == Challenge("insufficient_scope")


def test_a_challenge_never_makes_a_link_too_long() -> None:
    pending = replica()
    scopes = ("s" * MAX_SCOPE_CHARS,)
    for length in (MAX_URL_CHARS, 2_048):
        url = "https://linear/".ljust(length, "m")
        challenge = Challenge("", scopes, url)
        holder = "https://login.example.com/realms/everybody alice@example.com"
        sign_in = pending.open(b"a" * 200, holder, ServerKey("n" * 63, "s" * 253), challenge)
        assert sign_in.ticket.challenge == Challenge("", scopes, url if length == MAX_URL_CHARS else "")


def test_a_link_ends_after_ten_minutes() -> None:
    clock = HandClock(1_000.0)
    pending = replica(clock)
    first = pending.open(b"alice", "alice", LINEAR, None)
    cookies = cookies_of(pending, first, "state")
    clock.now += SIGN_IN_SECONDS - 1
    assert pending.find(first.id) is first
    assert pending.of_answer("state", cookies) is not None
    clock.now += 1
    assert pending.find(first.id) is None
    assert pending.of_answer("state", cookies) is None
    assert pending.open(b"alice", "alice", LINEAR, None) is not first
    assert first.ended.is_set()
    assert len(pending) == 1


def test_links_of_one_person_leave_room_for_those_of_others() -> None:
    pending = replica()
    first = [
        pending.open(b"alice", "alice", ServerKey("n", str(number)), None) for number in range(MAX_OPEN_PER_PERSON + 3)
    ]
    assert len(pending) == MAX_OPEN_PER_PERSON
    assert first[0].ended.is_set()
    assert not first[-1].ended.is_set()


def test_links_of_one_person_from_elsewhere_drop_nobody_elses() -> None:
    """A server with alternating challenges makes many links for a user, which stay valid."""
    pending, elsewhere = replica(), replica()
    bobs = pending.open(b"bob", "bob", LINEAR, None)
    for number in range(MAX_OPEN + 1):
        link = elsewhere.open(b"mallory", "mallory", LINEAR, Challenge("", (f"s{number}",)))
        assert pending.find(link.id) is not None
    assert len(pending) == MAX_OPEN_PER_PERSON + 1
    assert pending.find(bobs.id) is bobs
    assert not bobs.ended.is_set()


def test_links_of_all_persons_are_bounded() -> None:
    pending = replica()
    for number in range(MAX_OPEN):
        pending.open(b"%d" % number, "somebody", LINEAR, None)
    with pytest.raises(GrantFailed, match="are open"):
        pending.open(b"another", "another", LINEAR, None)
    assert pending.open(b"7", "somebody", LINEAR, None).person == b"7"
    other = replica().open(b"elsewhere", "elsewhere", LINEAR, None)
    assert pending.find(other.id) is not None
    assert len(pending) == MAX_OPEN
    assert pending.of_owner(b"0", LINEAR) is not None, "nobody's sign-in was dropped for it"


def test_a_browser_is_admitted_to_one_sign_in_by_its_cookie() -> None:
    pending = replica()
    sign_in, other = (pending.open(person, "somebody", LINEAR, None) for person in (b"alice", b"bob"))
    cookie = pending.admit_browser(sign_in)
    assert pending.admits(sign_in, cookie)
    assert not pending.admits(other, cookie)
    assert not pending.admits(sign_in, "")
    assert not pending.admits(sign_in, sign_in.id), "a link is not a cookie"
    assert pending.find(cookie) is None, "and a cookie is not a link"
    assert sign_in.form_token(cookie) != other.form_token(cookie)
    assert sign_in.form_token(cookie) != sign_in.form_token(pending.admit_browser(sign_in))


def test_an_answer_is_taken_from_the_browser_that_began_and_once() -> None:
    pending = replica()
    sign_in = pending.open(b"alice", "alice", LINEAR, None)
    cookies = cookies_of(pending, sign_in, "state")
    assert pending.of_answer("state", {}) is None
    assert pending.of_answer("other", cookies) is None
    assert pending.of_answer("", cookies) is None
    assert pending.of_answer("state", {sign_in.cookie: pending.admit_browser(sign_in)}) is None
    begun = pending.of_answer("state", cookies)
    assert begun is not None
    assert begun[0] is sign_in
    assert begun[1] == msgspec.structs.replace(authorization("state"), url="")
    pending.mark_answered(begun[1])
    assert pending.of_answer("state", cookies) is None
    assert pending.of_answer("again", cookies_of(pending, sign_in, "again")) is not None


def test_each_step_may_reach_another_replica_with_the_same_key() -> None:
    calls, pages, answers = replica(), replica(), replica()
    sign_in = calls.open(b"alice", "https://issuer alice", LINEAR, Challenge("", ("read",)))
    shown = pages.find(sign_in.id)
    assert shown is not None
    assert shown.ticket == sign_in.ticket
    begun = answers.of_answer("state", cookies_of(pages, shown, "state"))
    assert begun is not None
    assert (begun[0].person, begun[0].holder, begun[0].server) == (b"alice", "https://issuer alice", LINEAR)
    waiting = answers.open(b"alice", "alice", LINEAR, None)
    answers.close(begun[0])
    assert waiting.ended.is_set()
    assert answers.find(sign_in.id) is None
    assert replica(key=b"another").find(sign_in.id) is None


def test_a_failed_attempt_wakes_those_who_wait_and_leaves_the_link() -> None:
    pending = replica()
    sign_in = pending.open(b"alice", "alice", LINEAR, None)
    ended = sign_in.ended
    sign_in.fail("declined")
    assert ended.is_set()
    assert not sign_in.ended.is_set(), "others wait for the next attempt"
    assert pending.find(sign_in.id) is sign_in
    pending.close(sign_in)
    assert pending.of_owner(b"alice", LINEAR) is None
    assert pending.find(sign_in.id) is None
    assert sign_in.ended.is_set()


def test_values_that_are_too_long_for_a_browser_are_refused() -> None:
    pending = replica()
    with pytest.raises(GrantFailed, match="too long for a link"):
        pending.open(b"a" * 4_000, "alice", LINEAR, None)
    sign_in = pending.open(b"alice", "alice", LINEAR, None)
    long = msgspec.structs.replace(authorization("state"), scopes=("s" * 4_000,))
    with pytest.raises(GrantFailed, match="too long to be kept by the browser"):
        pending.admit_browser(sign_in, long)
