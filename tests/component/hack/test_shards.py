"""Shards of a run: every test file is in exactly one of them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from shards import BadShard, files_of_shard, recorded_seconds

ROOT = Path(__file__).resolve().parents[3]
FILES = sorted((ROOT / "tests").rglob("test_*.py"))


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_every_file_is_in_exactly_one_shard(count: int) -> None:
    shards = [files_of_shard(f"{number}/{count}", FILES, recorded_seconds()) for number in range(1, count + 1)]
    assert sorted(file for shard in shards for file in shard) == FILES


def test_shards_take_equally_long_by_the_recorded_seconds() -> None:
    seconds = recorded_seconds()
    shards = [files_of_shard(f"{number}/4", FILES, seconds) for number in range(1, 5)]
    totals = [sum(seconds.get(str(file.relative_to(ROOT)), 0.0) for file in shard) for shard in shards]
    assert max(totals) - min(totals) <= 5


def test_a_file_that_takes_as_long_as_all_others_has_a_shard_of_its_own() -> None:
    longest = str(FILES[5].relative_to(ROOT))
    assert files_of_shard("1/2", FILES, {longest: 10_000.0}) == {FILES[5]}


def test_a_shard_is_the_same_in_whatever_order_files_are_found() -> None:
    assert files_of_shard("2/3", reversed(FILES), {}) == files_of_shard("2/3", FILES, {})


@pytest.mark.parametrize("shard", ["0/2", "3/2", "1", "1/0", "a/b", "1/2/3", "-1/2", ""])
def test_a_shard_that_is_not_valid_is_refused_with_what_to_write(shard: str) -> None:
    with pytest.raises(BadShard, match="K/N"):
        files_of_shard(shard, FILES, {})


def test_pytest_collects_the_files_of_its_shard_alone() -> None:
    def collect(*shard: str) -> set[str]:
        words = [sys.executable, "-m", "pytest", "--collect-only", "-qq", "-p", "no:cacheprovider", *shard]
        told = subprocess.run([*words, "tests/unit/kube"], cwd=ROOT, capture_output=True, text=True, check=True)
        return set(re.findall(r"^tests/\S+?\.py", told.stdout, re.MULTILINE))

    first = collect("--shard=1/2")
    second = collect("--shard=2/2")
    assert first
    assert second
    assert not first & second
    assert first | second == collect()
