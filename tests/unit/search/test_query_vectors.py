"""Vectors of queries are computed once, and cached within a limit."""

from __future__ import annotations

from fairlead_search.query_vectors import QueryVectors


def test_a_query_lacks_its_vector_once_and_the_one_that_was_asked_longest_ago_goes_first() -> None:
    vectors = QueryVectors(limit=2)
    assert vectors.missing_from_cache(["a", "b", "a"]) == ["a", "b"]
    assert vectors.take(["a", "b", "a"], {"a": b"1", "b": b"2"}) == [b"1", b"2", b"1"]
    assert vectors.missing_from_cache(["b", "a"]) == []
    vectors.take(["c"], {"c": b"3"})
    assert vectors.missing_from_cache(["a", "b", "c"]) == ["b"]


def test_vectors_are_bounded_in_bytes_with_the_texts_of_their_queries() -> None:
    vectors = QueryVectors(limit_bytes=200)
    for query in ("a", "b", "c"):
        vectors.take([query], {query: bytes(90)})
    assert (len(vectors), vectors.missing_from_cache(["a", "b", "c"])) == (2, ["a"])
    vectors.take(["b" * 40], {"b" * 40: bytes(90)})
    assert len(vectors) == 0


def test_a_request_gets_all_of_its_vectors_although_there_is_no_room_for_them() -> None:
    vectors = QueryVectors(limit=1)
    assert vectors.take(["a", "b"], {"a": b"1", "b": b"2"}) == [b"1", b"2"]
    assert len(vectors) == 1


def test_a_vector_that_is_made_again_takes_the_place_of_the_first() -> None:
    vectors = QueryVectors(limit_bytes=200)
    for vector in (bytes(90), bytes(80), bytes(70)):
        assert vectors.take(["a"], {"a": vector}) == [vector]
    vectors.take(["b"], {"b": bytes(100)})
    assert len(vectors) == 2
