"""The labelled queries by which search is measured: their number, how they were written, and that the halves differ."""

from __future__ import annotations

import pytest

from fairlead_search.text import query_terms, terms
from search.labelled import HALVES, own, scored


@pytest.mark.parametrize("half", HALVES)
def test_a_query_is_of_its_source_by_the_words_that_it_shares_with_its_tools_name(half: str) -> None:
    labelled = own(half)
    names = {tool["id"]: tool["name"] for tool in labelled.tools}
    for query in labelled.queries:
        ((wanted,),) = query["groups"]
        shared = set(query_terms(query["query"])) & set(terms(names[wanted]))
        assert bool(shared) == (query["source"] == "named"), query
        assert (query["source"] == "chinese") == any(character >= "\u4e00" for character in query["query"])


def test_labelled_queries_are_enough_and_half_share_no_word_with_the_name() -> None:
    halves = [own(half) for half in HALVES]
    queries = [query for half in halves for query in half.queries]
    assert len({tool["id"] for tool in halves[0].tools}) >= 150
    assert len({query["query"] for query in queries}) >= 200
    assert sum(query["source"] != "named" for query in queries) * 2 >= len(queries)
    assert sum(query["source"] == "chinese" for query in queries) >= 20


def test_no_tool_is_wanted_in_both_halves() -> None:
    first, second = ({query["groups"][0][0] for query in own(half).queries} for half in HALVES)
    assert not first & second


def test_figures_count_groups_that_are_hit_and_where() -> None:
    assert scored(["a", "b"], [["b", "c"]]) == {
        "r@1": 0,
        "r@5": 1,
        "r@10": 1,
        "nDCG@10": pytest.approx(0.631, abs=1e-3),
        "MRR": 0.5,
    }
    assert scored(["a"], [["a"], ["b"]])["r@10"] == 0.5
    assert scored([], [["a"]])["MRR"] == 0
