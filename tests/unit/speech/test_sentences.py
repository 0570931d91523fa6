"""A streamed text is cut into pieces that can be spoken."""

from __future__ import annotations

import pytest

from fairlead_speech.cascaded.sentences import MAX_PIECE, SentenceCutter, speakable


def pieces(text: str, size: int = 3) -> list[str]:
    cutter = SentenceCutter()
    cut = [piece for start in range(0, len(text), size) for piece in cutter.add(text[start : start + size])]
    rest = cutter.take_rest()
    return [*cut, rest] if rest else cut


def test_a_sentence_is_whole_when_the_next_one_begins() -> None:
    cutter = SentenceCutter()
    assert cutter.add("Hello there.") == []
    assert cutter.add(" How") == ["Hello there. "]
    assert cutter.take_rest() == "How"
    assert cutter.take_rest() == ""


def test_no_character_is_lost_and_none_comes_twice() -> None:
    text = "Well! Dr. Smith paid 3.50 to Mr. Fox, e.g. for tea… Did he? “Yes.” Then\nhe left. 1. One 2. Two"
    for size in (1, 2, 7, 100):
        assert "".join(pieces(text, size)) == text


def test_abbreviations_and_numbers_end_nothing() -> None:
    assert pieces("Dr. Smith paid 3.50 to A. Fox. He left.") == ["Dr. Smith paid 3.50 to A. Fox. ", "He left."]


def test_other_scripts_end_sentences_without_a_space() -> None:
    assert pieces("你好。你好吗？很好", 1) == ["你好。", "你好吗？", "很好"]


def test_a_sentence_without_an_end_is_cut_at_a_space() -> None:
    text = "word, " * 200
    cut = pieces(text)
    assert "".join(cut) == text
    assert all(len(each) <= MAX_PIECE + 1 for each in cut)
    assert all(each.endswith((" ", ",")) for each in cut)
    assert max(map(len, pieces("x" * 1000))) <= MAX_PIECE


def test_white_space_is_not_a_sentence() -> None:
    assert pieces(" \n\n ") == []


@pytest.mark.timeout(10)
def test_a_long_list_of_numbers_takes_no_longer_than_other_text() -> None:
    text = "1. " * 40_000
    cut = pieces(text, len(text))
    assert "".join(cut) == text
    assert max(map(len, cut)) <= MAX_PIECE


def test_text_without_a_letter_or_digit_cannot_be_said() -> None:
    assert [speakable(each) for each in ("… ", "**", "🎲", "好", "3", "Oh!")] == [False, False, False, True, True, True]
