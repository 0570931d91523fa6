"""Diagonals of test matrices: every value and every pair of values is in a cell that runs at a merge."""

from __future__ import annotations

import subprocess
import sys
from itertools import combinations, product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diagonals import diagonal

ROOT = Path(__file__).resolve().parents[3]


def combinations_of(cells: list[tuple[int, ...]], strength: int) -> set[tuple[tuple[int, int], ...]]:
    return {
        tuple((axis, cell[axis]) for axis in axes)
        for cell in cells
        for axes in combinations(range(len(cell)), strength)
    }


@given(st.sets(st.tuples(*[st.integers(0, 3)] * 3), min_size=1), st.sampled_from([1, 2, 3]))
def test_a_diagonal_has_every_combination_that_the_matrix_has(matrix: set[tuple[int, ...]], strength: int) -> None:
    cells = sorted(matrix)
    chosen = [cells[index] for index in diagonal(cells, strength)]
    assert combinations_of(chosen, strength) == combinations_of(cells, strength)


def test_a_diagonal_has_each_value_that_is_asked_for_beside_the_pairs() -> None:
    cells = list(product(range(5), range(5), range(3)))
    triples = [(first, second, third == 0) for first, second, third in cells]
    chosen = diagonal(cells, 2, triples)
    assert {triples[index] for index in chosen} == {*triples}
    assert len(chosen) < len(cells)


@pytest.mark.parametrize(("strength", "most"), [(1, 8), (2, 40), (3, 64)])
def test_a_diagonal_of_a_full_matrix_is_small(strength: int, most: int) -> None:
    assert len(diagonal(list(product(range(8), range(4), range(2))), strength)) <= most


def test_cases_off_the_diagonal_run_by_night(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "import pytest\nfrom diagonals import leave_to_the_night\n"
        "@pytest.hookimpl(tryfirst=True)\ndef pytest_collection_modifyitems(items): leave_to_the_night(items)\n"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  diagonal: x\n  nightly: x\n")
    (tmp_path / "test_matrix.py").write_text(
        "import pytest\n@pytest.mark.diagonal(1)\n@pytest.mark.parametrize('a', [1, 2, 3])\n"
        "@pytest.mark.parametrize('b', [{}, []])\ndef test_cell(a, b): pass\n"
    )
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "pytest.ini", "-m"]
    for expression, count in (("not nightly", 3), ("nightly or not nightly", 6)):
        done = subprocess.run(
            [*words, expression],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            env={"PYTHONPATH": str(ROOT / "tests" / "support"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        )
        assert f"{count} passed" in done.stdout, done.stdout + done.stderr
