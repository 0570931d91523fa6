"""Tables to roll on, from files."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Final

import pytest

from fairlead_servers.dice_roller.server import OWN_TABLES, DiceRoller
from fairlead_servers.dice_roller.tables import BadTable, TableFolder
from fairlead_servers.tool import ToolError


def test_the_tables_that_come_along_can_be_read() -> None:
    tables = TableFolder(OWN_TABLES)
    assert tables.names() == ["mishap", "names", "weather"]
    assert [tables.read(name).weight() for name in tables.names()] == [5, 9, 11]


def test_entries_weigh_as_their_file_says(tmp_path: Path) -> None:
    (tmp_path / "Road.txt").write_text("# who comes\n3x Goblins\n\nA pedlar\n")
    table = TableFolder(tmp_path).read("road")
    assert [table.entry(rolled).text for rolled in (1, 2, 3, 4)] == ["Goblins", "Goblins", "Goblins", "A pedlar"]


def test_a_table_of_a_later_folder_takes_the_place_of_an_earlier_one(tmp_path: Path) -> None:
    (tmp_path / "weather.json").write_text('{"title": "Mine", "entries": ["Snow"]}')
    assert TableFolder(OWN_TABLES, tmp_path).read("weather").title == "Mine"


def test_an_entry_rolls_dice_and_other_tables(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("[[3d1]] of [[@b]]\n")
    (tmp_path / "b.txt").write_text("them\n")
    assert DiceRoller(Random(1), TableFolder(tmp_path)).roll_table("a").text == "3 of them"


LAUGHS: Final = ["l0: &l0 [lol]", *(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 8))]
"""YAML of 350 characters that expands to ten million entries."""


@pytest.mark.parametrize(
    ("file", "content", "why"),
    [
        ("a.txt", "", "at least 1 item"),
        ("a.txt", "[[@a]]", "more than 4 levels deep"),
        ("a.txt", "[[six]]", "not a dice expression"),
        ("a.txt", "[[1]]" * 51, "more than 50 rolls"),
        ("a.yaml", "entries: [{text: x, heavy: 1}]", "heavy"),
        ("a.yaml", "entries: [", "cannot be read"),
        ("a.yaml", "entries: [2026-02-30]", "cannot be read: day is out of range"),
        ("a.json", "[1, 2]", "valid dictionary"),
        ("a.yaml", "\n".join([*LAUGHS, "entries: [*l7]"]), "got [[[["),
        ("b.txt", "there", "table 'a' does not exist; tables: b"),
    ],
)
def test_a_bad_table_is_named(file: str, content: str, why: str, tmp_path: Path) -> None:
    (tmp_path / file).write_text(content)
    dice = DiceRoller(Random(1), TableFolder(tmp_path))
    with pytest.raises(ToolError) as refused:
        dice.roll_table("a")
    assert why in str(refused.value)


def test_a_table_of_too_many_bytes_and_one_outside_the_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "big.txt").write_text("x" * 1_000_001)
    (tmp_path / "in").mkdir()
    with pytest.raises(BadTable, match="1,000,000 bytes"):
        TableFolder(tmp_path).read("big")
    with pytest.raises(BadTable, match="does not exist"):
        TableFolder(tmp_path / "in").read("../big")
