"""The committed lists of `hack/lock`: exact versions with hashes and without URLs; and how the lists are assembled."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from extras import PROJECT, requirements
from locking import LOCKS, addresses, blocks, build_requirements, without

REPOSITORY = Path(__file__).resolve().parents[3]
NAME = re.compile(r"^[A-Za-z0-9._-]+")
TWO = (
    "a==1 \\\n    --hash=sha256:01\nb==2 ; sys_platform == 'linux' \\\n    --hash=sha256:02 \\\n    --hash=sha256:03\n"
)


def text(name: str) -> str:
    return (REPOSITORY / "requirements" / f"{name}.txt").read_text()


def package_names(requirements: list[str]) -> set[str]:
    matches = (NAME.match(requirement) for requirement in requirements)
    return {match[0].lower().replace("_", "-").replace(".", "-") for match in matches if match}


@pytest.mark.parametrize("name", [lock.name for lock in LOCKS])
def test_every_release_of_a_list_is_exact_and_has_hashes(name: str) -> None:
    listed = list(blocks(text(name)))
    assert listed
    for head, block in listed:
        assert "==" in head
        assert "--hash=sha256:" in block, head
    assert addresses(text(name)) == []


@pytest.mark.parametrize("lock", [lock for lock in LOCKS if lock.extras], ids=lambda lock: lock.name)
def test_a_list_has_what_the_project_asks_for(lock: Any) -> None:
    required = package_names([*requirements()]).union(*(package_names([*requirements(extra)]) for extra in lock.extras))
    held = package_names([head for head, _ in blocks(text(lock.name))])
    if lock.over:
        held |= package_names([head for head, _ in blocks(text(lock.over))])
    assert required <= held


def test_build_requirements_are_locked_too() -> None:
    assert package_names(build_requirements(PROJECT)) <= package_names([head for head, _ in blocks(text("build"))])


def test_a_list_over_another_has_what_that_one_lacks() -> None:
    assert without(TWO, "a==1 \\\n    --hash=sha256:99\n") == TWO[TWO.index("b==") :]
    assert without(TWO, TWO) == ""
    assert without(TWO, "a==0 \\\n    --hash=sha256:01\n") == TWO


def test_an_address_would_be_noticed() -> None:
    assert addresses(TWO) == []
    assert addresses("--index-url https://x/simple\n") == ["--index-url https://x/simple"]
    assert addresses("a @ https://x/a.whl\n") == ["a @ https://x/a.whl"]
