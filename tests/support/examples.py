"""Number of Hypothesis examples: the full number of a test in nightly runs, otherwise a quarter. Nightly runs find a
fault that one example in a hundred shows within days; runs at a merge find what most examples show.
"""

from __future__ import annotations

import os
from typing import Final

NIGHTLY: Final = "FAIRLEAD_TEST_NIGHTLY"
"""Environment variable that `hack/test --scope nightly` sets."""

USUAL: Final = 100
"""Nightly examples of a test that names no number; equal to Hypothesis's own default."""

FEWEST: Final = 10


def examples(by_night: int = USUAL) -> int:
    """Number of examples of a test: `by_night` in a nightly run, otherwise a quarter of it and at least `FEWEST`."""
    return by_night if os.environ.get(NIGHTLY) else min(by_night, max(FEWEST, by_night // 4))
