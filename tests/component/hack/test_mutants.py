"""Mutants of a module: how they are loaded, and which survive."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import pytest

from mutants import mutants_of

ROOT = Path(__file__).resolve().parents[3]
SOURCE = '''"""A module."""
import os

LIMIT: int = 3


def fits(ü: str, n: int) -> bool:
    """Whether it fits."""
    if not ü and n < LIMIT or ü == "é":
        raise ValueError(f"{n + 1}")
    while True:
        n += 1
        print(ü, n)
        break
    return n - 1 >= 0
'''


def test_each_mutant_compiles_and_differs() -> None:
    mutants = mutants_of(SOURCE)
    texts = [mutant.apply(SOURCE) for mutant in mutants]
    for text in texts:
        assert ast.dump(ast.parse(text)) != ast.dump(ast.parse(SOURCE))
    assert len({*texts}) == len(texts)


def test_comparisons_constants_statements_and_returns_are_changed() -> None:
    shown = {(mutant.line, mutant.before, mutant.text) for mutant in mutants_of(SOURCE)}
    assert {
        (4, "3", "4"),
        (9, "n < LIMIT", "(n <= LIMIT)"),
        (9, 'ü == "é"', "(ü != 'é')"),
        (9, "not ü", "(ü)"),
        (10, 'raise ValueError(f"{n + 1}")', "pass"),
        (12, "n += 1", "pass"),
        (13, "print(ü, n)", "pass"),
        (14, "break", "continue"),
        (15, "return n - 1 >= 0", "return None"),
    } <= shown


def test_a_mutant_of_another_text_is_refused() -> None:
    with pytest.raises(ImportError, match="not"):
        mutants_of(SOURCE)[0].apply(SOURCE.replace("3", "7"))


@pytest.mark.heavy
def test_a_mutant_that_a_test_notices_is_killed_and_the_seed_draws_it_again() -> None:
    command = ["hack/mutants", "fairlead_mcp.backoff", "--tests", "tests/unit/mcp/test_backoff.py", "--count", "2"]
    first, second = (
        subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=150) for _ in range(2)
    )
    assert first.stdout == second.stdout
    assert first.stdout.splitlines()[-1] == "seed 1: 2 mutants, 2 killed at a merge, 0 by night alone, 0 live", first
