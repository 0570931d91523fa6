"""The built-in encoder, if its wheel is installed."""

from __future__ import annotations

import pytest

from fairlead_search.query_vectors import QueryVectors

WHY = "not installed: the extra `search`, and the wheel that `hack/model` builds"
pytest.importorskip("fairlead_search_model", reason=WHY)
encoding = pytest.importorskip("fairlead_search.encoder", reason=WHY, exc_type=ImportError)


def test_similar_sentences_have_the_similarities_of_the_models_own_page() -> None:
    sentences = ["That is a happy person", "That is a happy dog", "That is a very happy person", "Today is a sunny day"]
    vectors = encoding.encoder().encode(sentences)
    assert list(vectors[0] @ vectors.T) == pytest.approx([1, 0.695, 0.943, 0.257], abs=0.02)


def test_the_place_of_a_text_in_a_batch_and_its_length_change_nothing_and_none_is_too_long() -> None:
    texts = ["mail", "list the files of a folder", "", "word " * 5000]
    together = encoding.encoder().encode(texts)
    assert (together @ encoding.encoder().encode([texts[1]])[0]).argmax() == 1
    assert encoding.encoder().encode([]).shape == (0, 384)


@pytest.mark.parametrize(
    ("query", "understood"), [("mail", True), ("查询天气", False), ("搜索 files", True), ("!!", True)]
)
def test_queries_in_scripts_that_the_model_does_not_know_are_left_to_words(query: str, understood: bool) -> None:
    assert encoding.understands(query) is understood


def test_a_query_that_is_asked_again_is_not_encoded_again() -> None:
    vectors_of_queries = QueryVectors()
    first = encoding.encode_queries(["mail", "查询天气", "mail"], vectors_of_queries)
    assert (first[1], len(vectors_of_queries), vectors_of_queries.missing_from_cache(["mail"])) == (None, 1, [])
    again = encoding.encode_queries(["mail"], vectors_of_queries)
    assert (again[0] == first[0]).all()
    assert (first[2] == first[0]).all()
