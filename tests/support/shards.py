"""Shards of a run: divides test files among runs at the same time on several machines.

Every machine divides by the same recorded seconds, which are in the repository: `hack/test --keep-seconds` writes them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
UNRECORDED_S: Final = 0.5
"""Processor seconds assumed for a file without recorded seconds: it is new, or takes less than a second."""


class BadShard(ValueError):
    """A shard is not of the form `K/N` with 1 ≤ K ≤ N."""


def recorded_seconds() -> dict[str, float]:
    """Processor seconds of test files by their path below the root."""
    seconds: dict[str, float] = json.loads(Path(__file__).with_name("shard_seconds.json").read_text())
    return seconds


def files_of_shard(shard: str, files: Iterable[Path], seconds: Mapping[str, float]) -> frozenset[Path]:
    """The files that shard `K/N` runs. Every file is in exactly one of the N shards.

    Files are assigned in descending order of their seconds, each to the shard with the fewest seconds so far.

    Args:
        shard: `K/N`.
        files: Absolute paths.
        seconds: Processor seconds by path below the root.

    Raises BadShard.
    """
    written = re.fullmatch(r"([1-9]\d?)/([1-9]\d?)", shard)
    if written is None or int(written[1]) > int(written[2]):
        raise BadShard(f"--shard {shard}: write K/N with K from 1 to N, as in 1/4")
    number = int(written[1])
    count = int(written[2])
    costs = {file: seconds.get(str(file.relative_to(ROOT)), UNRECORDED_S) for file in files}
    totals = [0.0] * count
    mine = set()
    for file in sorted(costs, key=lambda file: (-costs[file], file)):
        least = totals.index(min(totals))
        totals[least] += costs[file]
        if least == number - 1:
            mine.add(file)
    return frozenset(mine)
