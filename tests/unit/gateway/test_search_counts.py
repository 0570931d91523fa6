"""Counts of searches, and of found tools that were called later."""

from __future__ import annotations

from fairlead_gateway.core.search_counts import MAX_HITS, MAX_PRINCIPALS, SearchCounts
from fairlead_offers.catalogs.catalog_changes import differences


def test_a_hit_counts_once_by_its_place_and_for_the_principal_that_searched() -> None:
    counts = SearchCounts()
    counts.count_search("a", "bm25", ["x", "y"])
    counts.count_search("a", "hybrid", [f"n{rank}" for rank in range(7)])
    for principal, name in (("b", "x"), ("a", "z"), ("a", "x"), ("a", "x"), ("a", "y"), ("a", "n6")):
        counts.count_call(principal, name)
    assert counts.executed == {"1": 1, "2-5": 1, "6-": 1}
    assert counts.searches == {"bm25": 1, "hybrid": 1}


def test_hits_are_remembered_up_to_a_bound() -> None:
    counts = SearchCounts()
    counts.count_search("a", "bm25", [str(rank) for rank in range(MAX_HITS + 1)])
    counts.count_call("a", "0")
    assert set(counts.executed.values()) == {0}
    for principal in range(MAX_PRINCIPALS):
        counts.count_search(str(principal), "bm25", ["x"])
    counts.count_call("a", "5")
    counts.count_call("0", "x")
    assert counts.executed == {"1": 1, "2-5": 0, "6-": 0}


def test_tools_of_two_catalogs_differ_by_being_there_and_by_their_hash() -> None:
    difference = differences({"a": "1", "b": "1", "c": "1"}, {"b": "1", "c": "2", "d": "1"})
    assert difference == {"added": ["d"], "removed": ["a"], "modified": ["c"]}
