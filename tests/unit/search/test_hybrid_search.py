"""Hybrid search: how rankings by words and by vectors are merged, and results while vectors are missing."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from fairlead_search.fusion import fuse
from fairlead_search.index_cache import HYBRID, WORDS
from fairlead_search.indexed_tool import record, vector_key
from search.labelled import own
from vectorplaces import MEMORY, PLACES, VectorPlace, tool, tool_vector

pytest.importorskip("numpy", reason="numpy of the extra `search` is not installed")

import numpy as np  # after the skip, as everything that needs numpy

from examples import examples
from fairlead_search.index_interfaces import MIN_SWEPT_VECTORS
from fairlead_search.vectors import VectorStore, decode, encode

EAST = encode([1, 0])
NORTH = encode([0, 1])
NORTHEAST = encode([1, 1])


@pytest.fixture(params=PLACES)
def vector_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[VectorPlace]:
    opened = VectorPlace(request.param, tmp_path / "vectors")
    yield opened
    opened.close()


def test_scores_of_both_rankings_are_joined_and_a_tool_without_a_vector_goes_by_its_words() -> None:
    both = dict(fuse({"a": 8.0, "b": 4.0}, {"a": 0.2, "c": 0.6}, 5))
    assert both == pytest.approx({"a": 0.4, "c": 0.6, "b": 0.5})
    assert [key for key, _ in fuse({"b": 1.0, "a": 1.0}, {}, 1)] == ["a"]
    assert fuse({}, {}, 5) == []


def test_a_tool_that_shares_no_word_with_the_query_is_found_by_its_vector(vector_store: VectorPlace) -> None:
    tools = [tool("mail", "send_mail", EAST), tool("file", "list_files", NORTH)]
    assert vector_store.keys("zebra", NORTH, tools)[0] == "file"
    assert vector_store.keys("mail", NORTHEAST)[0] == "mail"
    assert vector_store.keys("zebra", EAST, allowed_keys=["file"]) == ["file"]
    assert vector_store.keys("zebra", EAST, allowed_keys=[]) == []


def test_words_alone_rank_until_nine_of_ten_tools_have_a_vector(vector_store: VectorPlace) -> None:
    tools = [tool(str(n), f"mail_{n}") for n in range(10)]
    assert vector_store.search("one", "mail", base="", added=tools).ranking == WORDS
    vector_store.put({str(n): EAST for n in range(8)})
    answer = vector_store.search("one", "zebra", EAST)
    assert (answer.ranking, answer.vectors) == (WORDS, 8)
    vector_store.put({"8": EAST})
    answer = vector_store.search("one", "zebra", EAST)
    assert (answer.ranking, answer.vectors, len(answer.hits[0])) == (HYBRID, 9, 5)


def test_a_catalog_that_is_made_from_another_has_the_vectors_of_both(vector_store: VectorPlace) -> None:
    vector_store.keys("x", EAST, [tool("a", "aa", EAST), tool("b", "bb", NORTH)])
    new = [tool("c", "cc", NORTHEAST)]
    assert vector_store.search("two", "zebra", limit=1, base="one", added=new, removed=["b"]).vectors == 2
    assert vector_store.search("two", "zebra", NORTHEAST, 1).hits[0][0].key == "c"
    assert vector_store.keys("zebra", NORTH)[0] == "b"


def test_tools_whose_texts_are_equal_are_found_with_one_vector(vector_store: VectorPlace) -> None:
    twins = [structs.replace(tool(key, "aa", EAST), vector=tool_vector("both", EAST)) for key in ("a", "b")]
    vector_store.keys("x", EAST, [*twins, tool("c", "cc", NORTH)])
    assert set(vector_store.keys("zebra", EAST, limit=2)) == {"a", "b"}
    assert vector_store.keys("zebra", EAST, allowed_keys=["b"]) == ["b"]


def test_a_query_of_another_model_ranks_by_words(vector_store: VectorPlace) -> None:
    vector_store.keys("x", EAST, [tool("a", "send_mail", EAST), tool("b", "list_files", NORTH)])
    assert vector_store.keys("mail", encode([1, 2, 3]))[0] == "a"


def test_vectors_of_another_model_take_the_place_of_all(vector_store: VectorPlace) -> None:
    vector_store.put({"a": EAST, "b": NORTH})
    assert vector_store.put({"c": encode([1, 2, 3])}) == 1


@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.integers(0, 2**32 - 1), st.sets(st.integers(0, 299), max_size=60))
@pytest.mark.parametrize("vector_store", [PLACES[1]], indirect=True)
def test_lancedb_ranks_as_memory_does(vector_store: VectorPlace, seed: int, gone: set[int]) -> None:
    rng = np.random.default_rng(seed)
    vectors = [encode(each) for each in rng.normal(size=(300, 8))]
    tools = [tool(f"{seed} {n}", f"mail_{n % 40}_{n % 7}", vector) for n, vector in enumerate(vectors)]
    allowed_keys = None if seed % 2 else [each.key for n, each in enumerate(tools) if n not in gone]
    memory = VectorPlace(MEMORY, Path())
    for query in ("mail 3", "send mail 17 5", "zebra"):
        query_vector = encode(rng.normal(size=8))
        answers = [
            each.search(str(seed), query, query_vector, 20, base="", added=tools, allowed_keys=allowed_keys)
            for each in (memory, vector_store)
        ]
        first, second = ([(hit.key, pytest.approx(hit.score, abs=1e-4)) for hit in each.hits[0]] for each in answers)
        assert first == second
        assert {each.ranking for each in answers} == {HYBRID}


@pytest.mark.parametrize("vector_store", [PLACES[1]], indirect=True)
def test_lancedb_finds_for_labelled_queries_what_memory_does(vector_store: VectorPlace) -> None:
    labelled = own("tuning")
    tools = [
        structs.replace(
            tool(each["id"], each["name"], bag(f"{each['name']} {each['description']}")), server=each["server"]
        )
        for each in labelled.tools
    ]
    memory = VectorPlace(MEMORY, Path())
    for query in [each["query"] for each in labelled.queries][::3]:
        first, second = (
            each.search("own", query, bag(query), 10, base="", added=tools).hits[0] for each in (memory, vector_store)
        )
        assert [hit.key for hit in first] == [hit.key for hit in second], query


def bag(text: str) -> bytes:
    """A vector that is closer to other vectors the more words the texts share."""
    rows = [np.random.default_rng(list(word.encode())).normal(size=64) for word in text.lower().split()]
    return encode(np.sum(rows, axis=0))


def test_vectors_of_no_catalog_go_when_they_are_the_most() -> None:
    memory = VectorPlace(MEMORY, Path())
    memory.keys("x", EAST, [tool("a", "aa", EAST), tool("b", "bb", NORTH)])
    assert memory.put(dict.fromkeys(map(str, range(MIN_SWEPT_VECTORS - 2)), EAST)) == MIN_SWEPT_VECTORS
    assert memory.put({"e": EAST}) == 2
    assert memory.keys("zebra", NORTH)[0] == "b"


def test_vectors_of_another_length_take_the_place_of_all() -> None:
    store = VectorStore()
    store.put({"a": EAST, "b": NORTH})
    store.put({"c": encode([1, 2, 3])})
    assert ("a" in store, "c" in store, len(store)) == (False, True, 1)


def test_a_store_measures_the_vectors_that_it_is_asked_for() -> None:
    store = VectorStore()
    store.put({str(n): encode([math.cos(n), math.sin(n)]) for n in range(600)})
    store.put({"7": EAST, "zero": encode([0, 0])})
    names, rows = store.rows(["7", "odd", "zero", "1"])
    assert names == ["7", "zero", "1"]
    query = store.cosines(decode(EAST), rows)
    assert list(query) == pytest.approx([1, 0, math.cos(1)], abs=1e-3)
    assert list(store.cosines(decode(encode([1, 2, 3])), rows)) == [0, 0, 0]


def test_texts_of_a_vector_name_server_name_description_and_arguments_without_what_describes_these() -> None:
    schema = {"properties": {"cityName": {"description": "Where it rains"}}}
    made = record("k", "sky", {"name": "getRain", "description": "How wet.", "inputSchema": schema})
    assert made.vector_texts() == ("sky. get rain. How wet. city name", "sky. get rain")


def test_a_vector_is_known_by_model_dimensions_and_texts() -> None:
    named = [("m", 2, ("a", "b")), ("n", 2, ("a", "b")), ("m", 3, ("a", "b")), ("m", 2, ("ab", ""))]
    assert len({vector_key(*each) for each in named}) == 4
