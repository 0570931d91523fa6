"""The token cache: until when tokens are returned, and which tokens are dropped."""

from __future__ import annotations

from fairlead_mcp.oauth.access_token import AccessToken
from fairlead_mcp.oauth.token_cache import TokenCache
from virtualtime import HandClock

NEVER = float("inf")


def token(value: str, expires_at: float) -> AccessToken:
    return AccessToken.bearer(value, expires_at, frozenset())


def test_token_is_given_out_until_half_a_minute_before_its_expiry() -> None:
    clock = HandClock(1_000)
    cache = TokenCache(10, clock)
    alice = token("a", 1_600)
    cache.put(b"alice", alice)
    clock.now = 1_569.9
    assert cache.get(b"alice", NEVER) is alice
    clock.now = 1_570
    assert cache.get(b"alice", NEVER) is None
    assert len(cache) == 0


def test_skew_of_a_short_token_is_a_tenth_of_its_life() -> None:
    clock = HandClock(0)
    cache = TokenCache(10, clock)
    cache.put(b"alice", token("a", 20))
    clock.now = 17.9
    assert cache.get(b"alice", NEVER) is not None
    clock.now = 18
    assert cache.get(b"alice", NEVER) is None


def test_token_is_kept_from_a_caller_whose_own_token_has_expired_but_not_from_others() -> None:
    clock = HandClock(0)
    cache = TokenCache(10, clock)
    cache.put(b"alice", token("a", 600))
    clock.now = 100
    assert cache.get(b"alice", 100) is None
    assert cache.get(b"alice", 101) is not None
    assert cache.get(b"alice", 9_999) is not None
    clock.now = 570
    assert cache.get(b"alice", 9_999) is None, "a newer subject token does not prolong it"


def test_persons_have_tokens_of_their_own() -> None:
    cache = TokenCache(10, HandClock(0))
    for person in (b"alice", b"bob"):
        cache.put(person, token(person.decode(), 600))
    for person in (b"alice", b"bob"):
        cached = cache.get(person, NEVER)
        assert cached is not None
        assert cached.value == person.decode()
    cache.forget(b"alice")
    assert cache.get(b"alice", NEVER) is None
    assert cache.get(b"bob", NEVER) is not None


def test_refused_token_is_dropped_and_a_newer_one_stays() -> None:
    cache = TokenCache(10, HandClock(0))
    old, new = token("old", 600), token("new", 600)
    cache.put(b"alice", new)
    assert cache.drop(b"alice", old) is None
    assert cache.get(b"alice", NEVER) is new
    dropped = cache.drop(b"alice", new)
    assert dropped is not None
    assert dropped.token is new
    assert cache.get(b"alice", NEVER) is None


def test_token_used_longest_ago_goes_when_the_cache_is_full() -> None:
    cache = TokenCache(3, HandClock(0))
    for name in "abc":
        cache.put(name.encode(), token(name, 600))
    cache.get(b"a", NEVER)
    cache.put(b"d", token("d", 600))
    assert [name for name in "abcd" if cache.get(name.encode(), NEVER)] == ["a", "c", "d"]
    for number in range(1_000):
        cache.put(b"p%d" % number, token("x", 600))
    assert len(cache) == 3


def test_expired_tokens_of_absent_persons_do_not_stay_in_memory() -> None:
    clock = HandClock(0)
    cache = TokenCache(100, clock)
    for number in range(10):
        cache.put(b"p%d" % number, token("x", 60))
    clock.now = 100
    cache.put(b"q", token("x", 600))
    cache.put(b"r", token("x", 600))
    assert len(cache) == 2
