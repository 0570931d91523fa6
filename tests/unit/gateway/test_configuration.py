"""Files that settings name."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead_gateway.configuration import load_routes
from fairlead_gateway.settings import BadSetting


def test_without_a_file_there_are_no_routes() -> None:
    assert load_routes(None) == {}


def test_routes_are_read_by_name(tmp_path: Path) -> None:
    file = tmp_path / "routes.yaml"
    file.write_text(
        "routes:\n  default: {models: [gpt-5-mini, {model: claude-sonnet-5, format: anthropic}], maxTools: 40}\n"
    )
    route = load_routes(file)["default"]
    assert len(route.models) == 2
    assert route.limits.max_tools == 40


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("routes: [", "is not YAML"),
        ("- a", "one member, routes"),
        ("route: {}", "one member, routes"),
        ("routes: {a: {models: []}}", "a names no model"),
        ("routes: {a: {models: [{model: x, format: sonnet}]}}", "sonnet"),
        ("routes: {a: {models: [x], speed: 3}}", "speed"),
    ],
)
def test_a_bad_file_is_refused_with_its_name_and_what_is_wrong(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "routes.yaml"
    file.write_text(text)
    with pytest.raises(BadSetting, match=says) as caught:
        load_routes(file)
    assert str(file) in str(caught.value)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="cannot be read"):
        load_routes(tmp_path / "none.yaml")
