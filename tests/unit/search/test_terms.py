"""Terms of names, descriptions and queries."""

from __future__ import annotations

import pytest

from fairlead_search.lexicon import lexicon, related_terms
from fairlead_search.text import MAX_CHARACTERS, MAX_TERM, query_terms, terms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("getUserByID", ["get", "user", "by", "id"]),
        ("zia_delete-url2category", ["zia", "delete", "url", "2", "category"]),
        ("HTTPServer", ["http", "server"]),
        ("Cities, addresses and a status", ["city", "address", "and", "a", "status"]),
        ("Größe ändern", ["größe", "ändern"]),
        ("查询天气", ["查", "询", "天", "气", "查询", "询天", "天气"]),
        ("搜索files", ["搜", "索", "搜索", "file"]),
        ("!!! — …", []),
    ],
)
def test_texts_are_split_at_case_digits_marks_and_characters(text: str, expected: list[str]) -> None:
    assert list(terms(text)) == expected


def test_words_of_a_request_are_left_out_unless_nothing_else_is_said() -> None:
    assert query_terms("please show me the weather of today") == ("weather", "today")
    assert query_terms("what is it") == ("what", "is", "it")


def test_a_text_is_read_up_to_a_bound_and_data_gives_no_term() -> None:
    assert len(list(terms("ab " * MAX_CHARACTERS))) == MAX_CHARACTERS // 3 + 1
    assert list(terms(f"{'x' * (MAX_TERM + 1)} y")) == ["y"]


def test_related_words_hold_in_both_directions_in_the_singular_and_never_for_the_word_itself() -> None:
    related = related_terms(["folders directory", "directory path"])
    assert related["folder"] == {"directory"}
    assert related["directory"] == {"folder", "path"}
    assert all(word not in others for word, others in lexicon().items())
    assert "delete" in lexicon()["erase"]
