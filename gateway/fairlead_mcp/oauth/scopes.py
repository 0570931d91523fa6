"""Validates the scopes in challenges and answers (RFC 6749 section 3.3). No I/O."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final

MAX_SCOPES: Final = 64
"""Maximum number of scopes of one token."""
MAX_SCOPE_CHARACTERS: Final = 256
MAX_ALL_CHARACTERS: Final = 8 << 10
"""Maximum number of characters of all scopes of one token."""
_SCOPE: Final = re.compile(rf"[\x21\x23-\x5b\x5d-\x7e]{{1,{MAX_SCOPE_CHARACTERS}}}")


def split_scopes(text: str) -> tuple[str, ...]:
    """The distinct valid scopes in a text that separates them by spaces, at most MAX_SCOPES."""
    return bounded_scopes(text.split(" "))


def bounded_scopes(scopes: Iterable[str]) -> tuple[str, ...]:
    """The distinct valid scopes, at most MAX_SCOPES."""
    return tuple(dict.fromkeys(scope for scope in scopes if _SCOPE.fullmatch(scope)))[:MAX_SCOPES]


def fit_one_token(scopes: Collection[str]) -> bool:
    """Whether one token may have all these scopes."""
    return len(scopes) <= MAX_SCOPES and sum(map(len, scopes)) <= MAX_ALL_CHARACTERS
