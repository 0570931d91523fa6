"""Values with references to the environment."""

from __future__ import annotations

import pytest

from fairlead_api.client_files.interpolation import UnsetVariable, interpolate

ENVIRONMENT = {"HOME": "/home/me", "TOKEN": "abc", "EMPTY": ""}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("${TOKEN}", "abc"),
        ("Bearer ${TOKEN}!", "Bearer abc!"),
        ("${HOME}/${TOKEN}", "/home/me/abc"),
        ("${env:TOKEN}", "abc"),
        ("${NOPE:-fallback}", "fallback"),
        ("${NOPE:-}", ""),
        ("${EMPTY}", ""),
        ("${EMPTY:-fallback}", "fallback"),
        ("$${TOKEN}", "${TOKEN}"),
        ("$TOKEN costs 5$", "$TOKEN costs 5$"),
        ("${workspace folder}", "${workspace folder}"),
    ],
)
def test_a_reference_is_replaced(text: str, expected: str) -> None:
    assert interpolate(text, ENVIRONMENT) == expected


def test_a_value_that_looks_like_a_reference_is_not_followed() -> None:
    assert interpolate("${A}", {"A": "${B}", "B": "no"}) == "${B}"


def test_all_variables_that_are_missing_are_named_at_once() -> None:
    with pytest.raises(UnsetVariable, match="environment variable ONE and TWO are not set") as caught:
        interpolate("${ONE} ${TWO} ${ONE} ${TOKEN}", ENVIRONMENT)
    assert caught.value.names == ("ONE", "TWO")
