"""Counts of searches and of hits that were called later."""

from __future__ import annotations

from fairlead_gateway.core.search_counts import MAX_HITS, MAX_PRINCIPALS, SearchCounts
from fairlead_offers.catalogs.catalog_changes import differences


def test_a_hit_counts_once_by_its_place_and_for_the_principal_that_searched() -> None:
    counts = SearchCounts()
    counts.searched("a", "bm25", ["x", "y"])
    counts.searched("a", "hybrid", [f"n{rank}" for rank in range(7)])
    for principal, name in (("b", "x"), ("a", "z"), ("a", "x"), ("a", "x"), ("a", "y"), ("a", "n6")):
        counts.called(principal, name)
    assert counts.executed == {"1": 1, "2-5": 1, "6-": 1}
    assert counts.searches == {"bm25": 1, "hybrid": 1}


def test_hits_are_remembered_up_to_a_bound() -> None:
    counts = SearchCounts()
    counts.searched("a", "bm25", [str(rank) for rank in range(MAX_HITS + 1)])
    counts.called("a", "0")
    assert set(counts.executed.values()) == {0}
    for principal in range(MAX_PRINCIPALS):
        counts.searched(str(principal), "bm25", ["x"])
    counts.called("a", "5")
    counts.called("0", "x")
    assert counts.executed == {"1": 1, "2-5": 0, "6-": 0}


def test_tools_of_two_catalogs_differ_by_being_there_and_by_their_hash() -> None:
    difference = differences({"a": "1", "b": "1", "c": "1"}, {"b": "1", "c": "2", "d": "1"})
    assert difference == {"added": ["d"], "removed": ["a"], "modified": ["c"]}
