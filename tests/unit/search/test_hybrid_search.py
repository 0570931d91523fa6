"""Words and vectors together: what is joined how, and what holds while vectors are still missing."""

from __future__ import annotations

import math

import pytest
from msgspec import Raw

from fairlead_search.catalogs import HYBRID, WORDS, IndexedCatalogs, NewTool, NewVectors, SearchRequest
from fairlead_search.fusion import fused
from fairlead_search.record import record, vector_key

pytest.importorskip("numpy", reason="numpy of the extra `search` is not installed")

from fairlead_search import search_index  # behind the skip, as all that needs numpy
from fairlead_search.vectors import VectorStore, decoded, encoded

EAST, NORTH, NORTHEAST = encoded([1, 0]), encoded([0, 1]), encoded([1, 1])


def tool(key: str, name: str, vector: bytes | None = None) -> NewTool:
    return NewTool(key, name, "s", Raw(b"{}"), vector)


def search(
    catalogs: IndexedCatalogs,
    query: str,
    vector: bytes,
    new: list[NewTool] | None = None,
    among: list[str] | None = None,
) -> list[str]:
    base = None if new is None else ""
    request = SearchRequest("one", [query], 5, among, base, new or (), vectors=[vector])
    return [hit.key for hit in catalogs.search(request).hits[0]]


def test_scores_of_both_rankings_are_joined_and_a_tool_without_a_vector_goes_by_its_words() -> None:
    both = dict(fused({"a": 8.0, "b": 4.0}, {"a": 0.2, "c": 0.6}, 5))
    assert both == pytest.approx({"a": 0.4, "c": 0.6, "b": 0.5})
    assert [key for key, _ in fused({"b": 1.0, "a": 1.0}, {}, 1)] == ["a"]
    assert fused({}, {}, 5) == []


def test_a_tool_that_shares_no_word_with_the_query_is_found_by_its_vector() -> None:
    catalogs = IndexedCatalogs()
    tools = [tool("mail", "send_mail", EAST), tool("file", "list_files", NORTH)]
    assert search(catalogs, "zebra", NORTH, tools)[0] == "file"
    assert search(catalogs, "mail", NORTHEAST)[0] == "mail"
    assert search(catalogs, "zebra", EAST, among=["file"]) == ["file"]


def test_words_alone_rank_until_nine_of_ten_tools_have_a_vector() -> None:
    catalogs = IndexedCatalogs()
    request = SearchRequest("one", ["mail"], 5, base="", added=[tool(str(n), f"mail_{n}") for n in range(10)])
    assert catalogs.search(request).ranking == WORDS
    asked = SearchRequest("one", ["zebra"], 5, vectors=[EAST])
    catalogs.put(NewVectors({str(n): EAST for n in range(8)}))
    assert (catalogs.search(asked).ranking, catalogs.search(asked).vectors) == (WORDS, 8)
    catalogs.put(NewVectors({"8": EAST}))
    found = catalogs.search(asked)
    assert (found.ranking, found.vectors, len(found.hits[0])) == (HYBRID, 9, 5)


def test_a_catalog_that_is_made_from_another_has_the_vectors_of_both() -> None:
    catalogs = IndexedCatalogs()
    search(catalogs, "x", EAST, [tool("a", "aa", EAST), tool("b", "bb", NORTH)])
    request = SearchRequest("two", ["zebra"], 1, base="one", added=[tool("c", "cc", NORTHEAST)], removed=["b"])
    assert catalogs.search(request).vectors == 2
    again = SearchRequest("two", ["zebra"], 1, vectors=[NORTHEAST])
    assert catalogs.search(again).hits[0][0].key == "c"


def test_vectors_of_no_catalog_go_when_they_are_the_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_index, "LEAST_SWEPT", 4)
    catalogs = IndexedCatalogs()
    search(catalogs, "x", EAST, [tool("a", "aa", EAST), tool("b", "bb", NORTH)])
    assert catalogs.put(NewVectors({"c": EAST, "d": EAST})) == 4
    assert catalogs.put(NewVectors({"e": EAST})) == 2
    assert search(catalogs, "zebra", NORTH)[0] == "b"


def test_vectors_of_another_length_take_the_place_of_all() -> None:
    store = VectorStore()
    store.put({"a": EAST, "b": NORTH})
    store.put({"c": encoded([1, 2, 3])})
    assert ("a" in store, "c" in store, len(store)) == (False, True, 1)


def test_a_store_measures_the_vectors_that_it_is_asked_for() -> None:
    store = VectorStore()
    store.put({str(n): encoded([math.cos(n), math.sin(n)]) for n in range(600)})
    store.put({"7": EAST, "zero": encoded([0, 0])})
    names, rows = store.rows(["7", "odd", "zero", "1"])
    assert names == ["7", "zero", "1"]
    query = store.cosines(decoded(EAST), rows)
    assert list(query) == pytest.approx([1, 0, math.cos(1)], abs=1e-3)
    assert list(store.cosines(decoded(encoded([1, 2, 3])), rows)) == [0, 0, 0]


def test_texts_of_a_vector_name_server_name_description_and_arguments_without_what_describes_these() -> None:
    schema = {"properties": {"cityName": {"description": "Where it rains"}}}
    made = record("k", "sky", {"name": "getRain", "description": "How wet.", "inputSchema": schema})
    assert made.vector_texts() == ("sky. get rain. How wet. city name", "sky. get rain")


def test_a_vector_is_known_by_model_dimensions_and_texts() -> None:
    named = [("m", 2, ("a", "b")), ("n", 2, ("a", "b")), ("m", 3, ("a", "b")), ("m", 2, ("ab", ""))]
    assert len({vector_key(*each) for each in named}) == 4
