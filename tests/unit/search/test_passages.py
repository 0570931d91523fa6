"""Passages that are chosen from results for a question, and how results are cut into passages."""

from __future__ import annotations

import json

import pytest

from fairlead_search.passage_relevance import scores, stem
from fairlead_search.passages import MAX_UNITS, best_passages
from fairlead_search.token_estimate import tokens
from fairlead_search.units import units

LOG = "\n".join(f"entry {number}: the {'keel' if number == 300 else 'mast'} is of oak" for number in range(1, 600))
FLEET = {
    "ships": [
        {"metadata": {"name": name}, "spec": {"crew": {"most": 7 + index}, "sails": "s" * 200}}
        for index, name in enumerate(("wren", "heron", "gannet"))
    ]
}


def test_the_line_that_answers_is_picked_from_among_hundreds_with_its_number() -> None:
    (passage,), more = best_passages({"log": LOG}, "where is the keel", 22)
    assert (passage.where, passage.text) == ("line 300", "entry 300: the keel is of oak")
    assert more


def test_lines_that_follow_each_other_are_one_passage_with_the_blank_line_between_them() -> None:
    (passage,), _ = best_passages({"log": "a\nthe keel\n\nis the keel\nz"}, "keel", 100)
    assert (passage.where, passage.text) == ("lines 1-5", "a\nthe keel\n\nis the keel\nz")


@pytest.mark.parametrize("question", ["keel measured", "when was it measuring", "the measurement"])
def test_other_forms_of_a_word_find_it(question: str) -> None:
    parts = [*units("", "the mast\nit measures nine metres\nthe sail\nthe rope\nthe hull", 160)]
    rated = scores(parts, question)
    assert rated.index(max(rated)) == 1


def test_a_synonym_finds_a_line_that_has_no_word_of_the_question() -> None:
    (passage, *_), _ = best_passages({"": "cook: two eggs\nmemory: sixteen\ncolour: red"}, "how much RAM", 20)
    assert "memory: sixteen" in passage.text


def test_the_kind_of_answer_that_a_question_asks_for_tells_lines_apart() -> None:
    lines = "the mast was set in a hurry\nthe mast was set on 2026-04-01\nthe mast was set at a price"
    (first, *_), _ = best_passages({"": lines}, "when was the mast set", 22)
    assert first.text == "the mast was set on 2026-04-01"


def test_a_value_is_found_by_the_name_of_the_object_that_it_belongs_to() -> None:
    passages, _ = best_passages({"": FLEET}, "the most crew of heron", 60)
    places = [part.where for part in passages]
    assert places.index("$.ships[1].spec.crew") < places.index("$.ships[0].spec.crew")
    assert json.loads(passages[places.index("$.ships[1].spec.crew")].text) == {"most": 8}


def test_a_line_is_found_by_the_less_indented_lines_and_headings_above_it() -> None:
    text = "# Wren\ncrew:\n  most: 7\n# Heron\ncrew:\n  least: 2\n  most: 8\n# Gannet\ncrew:\n  most: 9"
    units_of_text = [*units("", text, 160)]
    rated = scores(units_of_text, "most of heron's crew")
    most = [(rate, unit.line) for rate, unit in zip(rated, units_of_text, strict=True) if "most" in unit.text]
    assert max(most)[1] == 7


@pytest.mark.parametrize("document", [LOG, FLEET, "word " * 5000, {"text": "line\n" * 3000}, [*range(3000)]])
@pytest.mark.parametrize("overhead", [0, 60])
def test_passages_keep_the_budget_with_what_stands_beside_them(document: object, overhead: int) -> None:
    passages, _ = best_passages(
        {"one": document, "two": "a word on a line, and 17"}, "line word keel crew 17 sails", 160, overhead
    )
    assert passages
    assert sum(tokens(part.text) + tokens(part.where) + overhead for part in passages) <= 160


def test_a_place_that_costs_much_has_a_text_that_is_worth_it() -> None:
    (passage,), _ = best_passages({"log": LOG}, "keel", 1000, 60)
    assert "the keel" in passage.text
    assert len(passage.text) > 300


def test_lines_beyond_the_number_of_units_are_searched_together() -> None:
    many = "mast\n" * MAX_UNITS + "keel"
    (passage, *_), _ = best_passages({"": many}, "keel", 300)
    assert passage.text.endswith("keel")


def test_parts_that_share_only_words_that_stand_everywhere_fill_no_budget() -> None:
    items = [
        {"name": f"item {number}", "price": number, "kind": "rope" if number == 7 else "sail"} for number in range(60)
    ]
    passages, more = best_passages({"": {"items": items}}, "price of rope", 900, 60)
    assert json.loads(passages[0].text)["kind"] == "rope"
    assert len(passages) <= 5, "the item, and those beside it"
    assert not more


def test_no_passage_is_picked_where_nothing_is_found_or_kept() -> None:
    assert best_passages({"": "a mast"}, "keel", 100) == ([], False)
    assert best_passages({"": ""}, "keel", 100) == ([], False)
    assert best_passages({}, "keel", 100) == ([], False)


@pytest.mark.parametrize(("word", "expected"), [("measured", "measur"), ("measurement", "measur"), ("bed", "bed")])
def test_a_stem_is_a_word_without_its_ending(word: str, expected: str) -> None:
    assert stem(word) == expected
