"""The cache of results: which results are cached, for whom, how long, and up to which size."""

from __future__ import annotations

import pytest
from msgspec import Raw

from fairlead_gateway.calls.results.cache import MAX_ARGUMENTS, CachedResult, ResultCache, key_of, scope
from virtualtime import HandClock

A = b"a" * 16


class Waiting:
    def __init__(self) -> None:
        self.told: list[object] = []

    def take_result(self, result: CachedResult) -> None:
        self.told.append(bytes(result.result))

    def send(self) -> None:
        self.told.append("go")

    def become_leader(self, key: bytes) -> None:
        self.told.append("lead")


@pytest.mark.parametrize(
    ("first", "other", "same"),
    [
        (b'{"a":1,"b":2}', b'{ "b": 2, "a": 1 }', True),
        (b'{"a":{"x":1,"y":[1,2]}}', b'{"a":{"y":[1,2],"x":1}}', True),
        (b'{"a":"\\u0041"}', b'{"a":"A"}', True),
        (b"{}", None, True),
        (b"null", None, True),
        (b'{"a":[1,2]}', b'{"a":[2,1]}', False),
        (b'{"a":1}', b'{"a":"1"}', False),
        (b'{"a":1}', b'{"a":1,"b":null}', False),
        (b'{"a":1}', b'{"a":true}', False),
    ],
)
def test_equal_arguments_have_one_key(first: bytes, other: bytes | None, same: bool) -> None:
    assert (key_of(A, first) == key_of(A, other)) is same


@pytest.mark.parametrize("arguments", [b'{"a":1e999}', b'{"a":"\xff"}', b'{"a":"%b"}' % (b"x" * MAX_ARGUMENTS)])
def test_arguments_that_cannot_be_read_or_are_large_have_no_key(arguments: bytes) -> None:
    assert key_of(A, arguments) is None


def test_scopes_are_told_apart_whatever_their_parts_are() -> None:
    assert scope("a", "bc") != scope("ab", "c")
    assert key_of(scope("a"), b'{"x":1}') != key_of(scope("b"), b'{"x":1}')


def test_a_result_is_kept_for_its_time() -> None:
    clock = HandClock()
    cache = ResultCache(1 << 20, clock)
    cache.store(A, Raw(b"{}"), modern=True, seconds=10)
    clock.now = 9.9
    entry = cache.get(A)
    assert entry is not None
    assert (bytes(entry.result), entry.modern, cache.age(entry)) == (b"{}", True, 9.9)
    clock.now = 10.0
    assert cache.get(A) is None
    assert (cache.hits, cache.misses, cache.bytes, len(cache)) == (1, 1, 0, 0)


def test_the_cache_is_bounded_and_lets_go_of_what_was_not_used() -> None:
    cache = ResultCache(20_000)
    keys = [bytes([n]) * 16 for n in range(30)]
    for key in keys:
        cache.store(key, Raw(b"x" * 1000), modern=True, seconds=10)
        cache.get(keys[0])
    assert cache.bytes <= 20_000
    assert cache.get(keys[0]) is not None
    assert cache.get(keys[1]) is None
    assert cache.get(keys[-1]) is not None
    cache.store(A, Raw(b"x" * 19_000), modern=True, seconds=10)
    assert cache.get(A) is None
    assert cache.get(keys[-1]) is not None
    cache.store(keys[-1], Raw(b"y"), modern=True, seconds=10)
    assert cache.bytes == sum(len(entry.result) + 300 for entry in cache._results.values())


def test_equal_calls_wait_for_the_one_that_is_made() -> None:
    cache = ResultCache()
    waiting = [Waiting(), Waiting(), Waiting()]
    assert not cache.follow(A, waiting[0])
    assert cache.follow(A, waiting[1])
    assert cache.follow(A, waiting[2])
    cache.unfollow(A, waiting[2])
    cache.store(A, Raw(b"{}"), modern=True, seconds=1)
    assert [follower.told for follower in waiting] == [[], [b"{}"], []]
    assert not cache.follow(A, waiting[0])


def test_followers_make_the_call_themselves_after_a_failure() -> None:
    cache = ResultCache()
    waiting = [Waiting(), Waiting()]
    cache.follow(A, Waiting())
    for follower in waiting:
        cache.follow(A, follower)
    cache.fail(A)
    assert [follower.told for follower in waiting] == [["go"], ["go"]]
    assert cache.get(A) is None


def test_a_call_that_is_given_up_is_made_by_the_next() -> None:
    cache = ResultCache()
    waiting = [Waiting(), Waiting()]
    cache.follow(A, Waiting())
    for follower in waiting:
        cache.follow(A, follower)
    cache.abandon(A)
    assert [follower.told for follower in waiting] == [["lead"], []]
    cache.store(A, Raw(b"{}"), modern=True, seconds=1)
    assert waiting[1].told == [b"{}"]
    cache.follow(A, Waiting())
    cache.abandon(A)
    assert not cache.follow(A, Waiting())
