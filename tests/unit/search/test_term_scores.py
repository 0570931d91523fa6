"""Scores computed with dicts and with arrays are equal, so numpy only changes the duration of a search."""

from __future__ import annotations

import string
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_search import bm25_index as index_module
from fairlead_search.bm25_index import MIN_NUMPY_TOOLS, Bm25Index, scores_of
from fairlead_search.indexed_tool import IndexedTool
from fairlead_search.term_scores import DictScores, TermTable

pytest.importorskip("numpy", reason="numpy of the extra `search` is not installed")

from fairlead_search.array_scores import ArrayScores  # after the skip, as everything that needs numpy

WORDS = st.sampled_from(["file", "folder", "list", "get", "weather", "city", "the", "mail", "send", "delete", "erase"])
KEYS = st.text(string.ascii_lowercase, min_size=1, max_size=2)


def table(tools: dict[str, Counter[str]]) -> TermTable:
    postings: dict[str, dict[str, int]] = {}
    for key, counts in tools.items():
        for word, times in counts.items():
            postings.setdefault(word, {})[key] = times
    lengths = {key: counts.total() for key, counts in tools.items()}
    return TermTable(postings, lengths, sum(lengths.values()))


@given(
    st.dictionaries(KEYS, st.lists(WORDS, max_size=9).map(Counter), max_size=40),
    st.lists(WORDS | st.just("zebra"), max_size=5, unique=True),
    st.integers(0, 45),
    st.none() | st.frozensets(KEYS, max_size=20),
)
def test_arrays_rank_as_dicts_do_to_the_last_bit(
    tools: dict[str, Counter[str]], query: list[str], limit: int, allowed_keys: frozenset[str] | None
) -> None:
    words = table(tools)
    first = DictScores(words)
    second = ArrayScores(words)
    for _ in range(2):  # the second search uses cached weights
        assert first.best(query, limit, allowed_keys) == second.best(query, limit, allowed_keys)


def test_tools_with_equal_scores_are_in_the_order_of_their_keys_also_where_the_limit_cuts_them() -> None:
    words = table({f"{n:02}": Counter(["mail"]) for n in reversed(range(40))})
    assert [key for key, _ in ArrayScores(words).best(["mail"], 3, None)] == ["00", "01", "02"]


def test_many_tools_are_ranked_by_arrays_where_numpy_is(monkeypatch: pytest.MonkeyPatch) -> None:
    few = {"a": Counter(["mail"]), **{str(n): Counter(["file"]) for n in range(MIN_NUMPY_TOOLS - 2)}}
    counts = {**few, "b": Counter(["file"])}
    assert isinstance(scores_of(table(counts)), ArrayScores)
    assert isinstance(scores_of(table(few)), DictScores)
    changed = Bm25Index(counts).with_changes([IndexedTool("c", "send_mail", "s")], ["a"])
    assert [hit.key for hit in changed.search("mail", 5)] == ["c"]
    monkeypatch.setattr(index_module, "_has_numpy", lambda: False)
    assert isinstance(scores_of(table(counts)), DictScores)
