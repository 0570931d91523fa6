"""Ranking of units by words and vectors: with simple test vectors, and with the encoder if it is installed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from fairlead_offers.results.stored_results import Reading, StoredResult, read
from fairlead_search.passage_relevance import scores
from fairlead_search.units import Unit, units

WHY = "not installed: the extra `search`, and the wheel that `hack/model` builds"
pytest.importorskip("fairlead_search_model", reason=WHY)
np = pytest.importorskip("numpy", reason=WHY)
made_of = pytest.importorskip("fairlead_search.passage_vectors", reason=WHY, exc_type=ImportError)

SHIP = "The keel is of oak\nThe cook is Ysolde\nThe boat was launched in May\nSails are red"


class Axes:
    """Encoder with one axis per list of words, and a last axis for texts without any of the words."""

    def __init__(self, *words: Sequence[str]) -> None:
        self.words = words
        self.texts: list[str] = []

    def __call__(self, texts: Sequence[str]) -> Any:
        self.texts += texts
        rows = [[float(any(word in text for word in words)) for words in self.words] for text in texts]
        return np.array([[*row, 0.0 if any(row) else 1.0] for row in rows], np.float32)


class Clock:
    """Clock that advances by a second each time it is read."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


def of(text: str) -> list[Unit]:
    return [*units("", text, 100)]


def test_a_line_is_found_by_what_it_means_and_one_that_neither_means_nor_says_it_is_not() -> None:
    vectors = made_of.PassageVectors(Axes(("cook", "victuals"), ("keel",)))
    rated = vectors.scores(of(SHIP), "what about victuals", 9)
    assert max(rated) == rated[1] == pytest.approx(0.5)
    assert rated[3] == 0


def test_words_and_vectors_count_half_each_and_neighbours_lift_a_line() -> None:
    vectors = made_of.PassageVectors(Axes(("cook", "victuals"), ("keel",)))
    keel, cook, launched, _ = vectors.scores(of(SHIP), "victuals, launched", 9)
    assert cook > 0.4
    assert launched > 0.5
    assert keel < cook


def test_no_text_is_encoded_twice_and_none_of_another_result_is_a_neighbour() -> None:
    encode = Axes(("cook", "victuals"))
    vectors = made_of.PassageVectors(encode)
    apart = [Unit("a", "", 1, "The cook", ""), Unit("b", "", 1, "Oak", ""), Unit("b", "", 2, "Oak", "")]
    first = vectors.scores(apart, "victuals", 9)
    assert (first[1], first[2]) == (0, 0)
    assert encode.texts == ["The cook", "Oak", "victuals"]
    assert vectors.scores(apart, "victuals", 9) == first
    assert encode.texts == ["The cook", "Oak", "victuals", "victuals"]


def test_passages_beyond_the_time_are_ranked_by_words_and_encoded_by_the_next_search() -> None:
    encode = Axes(("cook", "victuals"))
    vectors = made_of.PassageVectors(encode, Clock())
    long = of("\n".join([*(f"rope {number}" for number in range(100)), "The cook is Ysolde"]))
    assert max(vectors.scores(long, "victuals", 2)) == 0
    assert len(encode.texts) < len(long)
    by_word = vectors.scores(long, "rope 90", 0)
    assert max(by_word) == by_word[90] == 1
    rated = vectors.scores(long, "victuals", 9)
    assert max(rated) == rated[100] > 0


def test_vectors_are_bounded_in_bytes_and_those_not_used_go_first() -> None:
    encode = Axes(("cook",))
    size = 16 + 3 * 2
    vectors = made_of.PassageVectors(encode, limit_bytes=2 * size)
    for text in ("oak", "red", "oak", "sails", "oak"):
        vectors.scores(of(text), "cook", 9)
    assert [text for text in encode.texts if text != "cook"] == ["oak", "red", "sails"]


@pytest.mark.parametrize("sources", [[], of("")])
def test_an_empty_text_has_no_passages(sources: list[Unit]) -> None:
    assert made_of.PassageVectors(Axes()).scores(sources, "victuals", 9) == []


def test_a_question_in_a_script_that_the_encoder_does_not_know_is_left_to_words() -> None:
    encode = Axes()
    lines = of("查询天气\nred")
    assert made_of.PassageVectors(encode).scores(lines, "查询天气", 9) == scores(lines, "查询天气")
    assert encode.texts == []


def test_the_encoder_finds_in_a_kept_result_what_shares_no_word_with_the_query() -> None:
    log = "\n".join([*["crate 1 holds ropes"] * 200, "Fire broke out in the galley"])
    result = StoredResult("s/1", json.dumps({"content": [{"type": "text", "text": log}]}).encode())
    reading = Reading([result], 300, query="were there any burning kitchens?")
    by_words, by_both = (
        read(msgspec.msgpack.encode(msgspec.structs.replace(reading, encoding_s=seconds))).passages
        for seconds in (0, 60)
    )
    assert not any("galley" in passage.text for passage in by_words)
    assert "galley" in by_both[0].text
