"""The line about the last complete nightly run on the page about CI."""

from __future__ import annotations

import pytest

from nightlyresult import PAGE, sentence_of, with_result


def test_the_page_has_a_line_for_the_last_night_and_the_rest_stays() -> None:
    page = PAGE.read_text("utf-8")
    sentence = sentence_of("2026-11-29", "0123456789ab", 7_500, ["10 tests passed", r"5 compiled \1"])
    changed = with_result(page, sentence)
    assert (
        r"The last whole night: 2026-11-29, commit `0123456789ab`, 2 h 5 min; 10 tests passed; 5 compiled \1."
        in changed
    )
    assert len(set(page.splitlines()) ^ set(changed.splitlines())) == 2
    assert with_result(changed, sentence) == changed


def test_a_page_without_a_line_for_it_is_refused() -> None:
    with pytest.raises(ValueError, match="0 lines"):
        with_result("# A page\n", "x")
