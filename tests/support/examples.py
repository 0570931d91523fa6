"""How many examples Hypothesis draws: all that a test asks for by night, a quarter of them otherwise.

A fault that one example in a hundred shows is found within days by the nights; a merge asks what most examples show.
"""

from __future__ import annotations

import os
from typing import Final

NIGHTLY: Final = "FAIRLEAD_TEST_NIGHTLY"
"""Set by `hack/test --scope nightly`."""

USUAL: Final = 100
"""Examples by night of a test that asks for no number, which is Hypothesis's own default."""

FEWEST: Final = 10


def examples(by_night: int = USUAL) -> int:
    """Examples of one test for now: `by_night`, or a quarter of it and at least `FEWEST` unless it is night."""
    return by_night if os.environ.get(NIGHTLY) else min(by_night, max(FEWEST, by_night // 4))
