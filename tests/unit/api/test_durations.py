"""Durations as manifests write them."""

from __future__ import annotations

import pytest

from fairlead_api.v1alpha1.common import Duration, duration_rule


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("500ms", 500), ("30s", 30_000), ("10m", 600_000), ("1h30m", 5_400_000), ("1s250ms", 1250), ("0s", 0)],
)
def test_a_duration_is_the_sum_of_its_parts(text: str, milliseconds: int) -> None:
    assert Duration(text).milliseconds == milliseconds
    assert Duration(text).seconds == milliseconds / 1000


@pytest.mark.parametrize("text", ["", "5", "5x", "-5s", "1.5s", "5 s", "5s ", "5s\n", "100000s", "1h1h1h1h1h"])
def test_other_text_is_not_a_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration such as 500ms"):
        Duration(text)


@pytest.mark.parametrize(
    ("text", "fits"),
    [("30s", True), ("29s999ms", False), ("24h", True), ("24h1ms", False), ("99999h", False), ("soon", False)],
)
def test_the_rule_of_a_duration_has_a_form_a_floor_and_a_ceiling(text: str, fits: bool) -> None:
    rule = duration_rule("30s", "10m")

    assert rule.message == "must be a duration of at least 30s and at most 24h, such as 10m"
    assert rule.holds is not None
    assert rule.holds(text) is fits


def test_a_duration_is_still_the_text_that_was_written() -> None:
    assert Duration("1h30m") == "1h30m"
