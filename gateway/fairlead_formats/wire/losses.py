"""Collection of short codes for what a translation lost because the other wire format lacks it. Pure module."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

MAX_CODES: Final = 24
"""Maximum number of codes that are reported by name; further codes are only counted."""
MAX_CODE: Final = 40
_UNFIT: Final = re.compile(r"[^A-Za-z0-9_.-]+")


class TranslationLosses:
    """Distinct codes in the order in which they were added."""

    def __init__(self, codes: Iterable[str] = ()) -> None:
        self._codes = dict.fromkeys(codes)
        self._further = 0

    def add(self, code: str) -> None:
        """Add a code, such as the name of a member. It is truncated to `MAX_CODE` and made safe for a header."""
        fit = _UNFIT.sub("_", code)[:MAX_CODE] or "_"
        if fit in self._codes:
            return
        if len(self._codes) >= MAX_CODES:
            self._further += 1
        else:
            self._codes[fit] = None

    def update(self, codes: Iterable[str]) -> None:
        """Add all of these codes."""
        for code in codes:
            self.add(code)

    def __iter__(self) -> Iterator[str]:
        yield from self._codes
        if self._further:
            yield f"and_{self._further}_more"
