"""The facts by which compression is measured, and how they are found in compressed text."""

from __future__ import annotations

import hashlib

import pytest

from fairlead_search.token_estimate import tokens
from search import compression
from search.labelled import HALVES


def test_results_are_of_the_size_that_is_asked_for_and_every_answer_is_in_its_result() -> None:
    sizes = [len(text.encode()) for text in compression.texts().values()]
    facts = {half: compression.facts(half) for half in HALVES}
    every = [fact for half in HALVES for fact in facts[half]]
    assert len(sizes) >= 50
    assert min(sizes) >= 5_000
    assert max(sizes) <= 100_000
    assert len(every) >= 300
    assert len({fact.question + fact.result for fact in every}) == len(every)
    assert {fact.result for fact in every} == compression.results().keys()
    assert min(sum(fact.shared for fact in every), sum(not fact.shared for fact in every)) > 100


def test_the_half_of_a_result_is_that_of_the_hash_of_its_name() -> None:
    for index, half in enumerate(HALVES):
        for fact in compression.facts(half):
            assert int(hashlib.sha256(fact.result.encode()).hexdigest(), 16) % 2 == index


@pytest.mark.parametrize(
    ("answer", "text", "expected"),
    [
        ('"type": "sse"', '{"type":"sse"}', True),
        ("at most once", "at\n  most once a day", True),
        ("130", "1,130 rows and 1305", True),
        ("130", "x130 and 1305", False),
        ("pods", "endpoints", False),
        ("kopf-1.4", "kopf-1.45", False),
    ],
)
def test_an_answer_is_left_where_its_words_are_whatever_is_between_them(answer: str, text: str, expected: bool) -> None:
    assert compression.contains(answer, text) is expected


def test_no_compressor_leaves_more_tokens_than_it_may() -> None:
    document = [{"name": f"row {number}", "size": number * 37} for number in range(400)]
    for compress in compression.compressors().values():
        assert 0 < tokens(compress(document, "size of row 17", 300)) <= 304
