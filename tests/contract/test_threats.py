"""The threat model names a test for every boundary, and the tests exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from guards import GUARDS
from product_guard import Guard

ROOT = Path(__file__).parents[2]
PACKAGES = ("crds", "gateway", "operator")
PAGE = (ROOT / "docs" / "how-it-works" / "threats.md").read_text("utf-8")
_TEST = re.compile(r"`(tests/[\w/]+\.py)`")
_ATTACK = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
_UNGUARDED = {"calls and items of a speech session"}
"""Objects whose separation is part of their storage, so that no single line is a guard."""


def rows() -> list[str]:
    """Rows of the tables about boundaries."""
    text = PAGE.partition("## Boundaries")[2].partition("## Where servers may be")[0]
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [line for line in lines if not line.startswith("| what crosses")]


def test_every_boundary_names_the_test_that_holds_it() -> None:
    assert len(rows()) > 25
    assert [row for row in rows() if not _TEST.findall(row.rpartition("|")[0].rpartition("|")[2])] == []


def attacks_by_ids() -> dict[str, list[tuple[str, str]]]:
    """Tests that attack objects which are found by an id or by their content."""
    text = PAGE.partition("## Found by what, made by whom")[2].partition("\n## ")[0]
    table = [line for line in text.splitlines() if line.startswith("| ")][1:]
    return {row.split(" | ")[0].removeprefix("| "): _ATTACK.findall(row.rpartition(" | ")[2]) for row in table}


def test_each_object_found_by_an_id_is_attacked_by_a_test_that_exists() -> None:
    targets = attacks_by_ids()
    assert len(targets) >= 20
    assert [what for what, attacks in targets.items() if not attacks] == []
    missing = [
        f"{file}::{name}"
        for attacks in targets.values()
        for file, name in attacks
        if not (ROOT / file).is_file() or f"def {name}(" not in (ROOT / file).read_text("utf-8")
    ]
    assert missing == []


def test_each_object_found_by_an_id_has_a_guard_that_is_taken_out() -> None:
    guarded = {guard.test for guard in GUARDS}
    without = {
        what
        for what, attacks in attacks_by_ids().items()
        if not any(f"{file}::{name}" in guarded for file, name in attacks)
    }
    assert without <= _UNGUARDED


def test_every_named_test_exists_and_tests_something() -> None:
    named = set(_TEST.findall(PAGE))
    missing = sorted(name for name in named if not (ROOT / name).is_file())
    assert missing == []
    assert [
        name for name in sorted(named) if not re.search(r"^(async )?def test_", (ROOT / name).read_text(), re.M)
    ] == []


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.attack)
def test_every_guard_still_fits_its_module_and_its_test(guard: Guard) -> None:
    """Running the attacks without guards takes minutes, which `hack/attacks` does."""
    source = f"{guard.module.replace('.', '/')}.py"  # for a compiled module, `find_spec` returns the extension
    places = [ROOT / guard.module] if "/" in guard.module else [ROOT / top / source for top in PACKAGES]
    (text,) = [path.read_text("utf-8") for path in places if path.exists()]
    assert [there for there, _ in guard.swaps if text.count(there) != 1] == []
    file, _, name = guard.test.partition("::")
    assert f"def {name or 'test_'}" in (ROOT / file).read_text("utf-8")


def test_the_page_names_every_guard_that_was_taken_out() -> None:
    listed = PAGE.partition("## Seen to succeed")[2].partition("\n## ")[0]
    rows = [f"| {guard.attack} | `{guard.module}` | `{guard.test.partition('::')[0]}` |" for guard in GUARDS]
    assert [line for line in listed.splitlines() if line.startswith("| ")][1:] == rows
