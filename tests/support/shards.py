"""Shards of a run: test files divided among runs that take place side by side on several machines."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path


class BadShard(ValueError):
    """A shard that is not written as `K/N` with 1 ≤ K ≤ N."""


def files_of_shard(shard: str, files: Iterable[Path]) -> frozenset[Path]:
    """Those of `files` that shard `K/N` runs: every file is in exactly one of the N shards.

    Files that stand beside each other cost alike, so every N-th of the sorted list is taken, not a stretch of it.

    Raises BadShard.
    """
    written = re.fullmatch(r"([1-9]\d?)/([1-9]\d?)", shard)
    if written is None or int(written[1]) > int(written[2]):
        raise BadShard(f"--shard {shard}: write K/N with K from 1 to N, as in 1/2")
    number, count = int(written[1]), int(written[2])
    return frozenset(sorted(files)[number - 1 :: count])
