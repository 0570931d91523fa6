"""Rules from folders of Markdown and JSON."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead_servers.definition import SettingError
from fairlead_servers.rules_lookup.files import read_rules
from fairlead_servers.rules_lookup.index import CHECK_INTERVAL_S, RuleIndex
from fairlead_servers.rules_lookup.server import OWN_RULES, RulesLookup
from fairlead_servers.tool import ToolError
from virtualtime import HandClock

LOOKUP = RulesLookup(RuleIndex(OWN_RULES))


def test_rules_are_found_in_all_systems_or_in_one() -> None:
    assert LOOKUP.search_rules("how does grappling work").rules[0].id == "lantern/grappling"
    assert {rule.system for rule in LOOKUP.search_rules("roll 2d6", "Saltwater").rules} == {"saltwater"}
    assert LOOKUP.search_rules("grappling", "saltwater").rules == []
    assert LOOKUP.get_rule("saltwater/morale").text.startswith("A crew")


@pytest.mark.parametrize(
    ("query", "system", "why"),
    [("fall", "chess", "there are no rules for 'chess'; systems: lantern, saltwater"), ("...", "", "no words")],
)
def test_a_query_without_searchable_words_is_named(query: str, system: str, why: str) -> None:
    with pytest.raises(ToolError, match=why):
        LOOKUP.search_rules(query, system)


def test_an_unknown_rule_is_answered_with_those_that_come_near() -> None:
    with pytest.raises(ToolError, match=r"rule 'grappling' does not exist; did you mean lantern/grappling"):
        LOOKUP.get_rule("grappling")
    with pytest.raises(ToolError, match=r"did you mean lantern/grappling\?"):
        LOOKUP.get_rule("lantern/grappl")
    with pytest.raises(ToolError, match="search_rules returns ids"):
        LOOKUP.get_rule("???")


def test_ids_follow_from_titles_and_stay_apart(tmp_path: Path) -> None:
    (tmp_path / "My Game").mkdir()
    (tmp_path / "My Game" / "a.md").write_text(
        "# A game\n\n## Öl & Feuer\nHot.\n\n## Öl & Feuer ##\nHotter.\n\n### Empty\n"
    )
    assert {rule.id: rule.text for rule in read_rules(tmp_path).values()} == {
        "my-game/ol-feuer": "Hot.",
        "my-game/ol-feuer-2": "Hotter.",
    }


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [("a.json", b"[{}]", "title is missing"), ("a.json", b"{", "invalid"), ("a.md", b"\xff", "cannot be read")],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str, content: bytes, why: str) -> None:
    (tmp_path / "game").mkdir()
    (tmp_path / "game" / name).write_bytes(content)
    with pytest.raises(SettingError, match=why):
        RuleIndex(tmp_path)


def test_a_changed_file_is_read_again_and_a_broken_one_leaves_the_rules(tmp_path: Path) -> None:
    (tmp_path / "game").mkdir()
    clock = HandClock()
    lookup = RulesLookup(RuleIndex(tmp_path, clock=clock))
    (tmp_path / "game" / "a.md").write_text("# Moons\nThere are two.\n")
    clock.now += CHECK_INTERVAL_S - 0.1
    with pytest.raises(ToolError, match="systems: none"):
        lookup.search_rules("moon", "game")
    clock.now += 0.1
    assert lookup.search_rules("moon", "game").rules[0].id == "game/moons"
    (tmp_path / "game" / "b.json").write_text("{")
    clock.now += CHECK_INTERVAL_S
    assert lookup.get_rule("game/moons").text == "There are two."
