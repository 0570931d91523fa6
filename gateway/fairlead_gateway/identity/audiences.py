"""Comparison of the audience of a token with those that are wanted. Pure module.

A slash at the end makes no difference: MCP has clients name the resource without one, and many issuers and libraries
write the URL with it (MCP 2025-11-25, Authorization, "Canonical Server URI").
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any


def is_among(audiences: Iterable[Any], wanted: Collection[str]) -> bool:
    """Whether one of the audiences is wanted, up to a slash at the end of either."""
    names = {name.removesuffix("/") for name in wanted}
    return any(isinstance(audience, str) and audience.removesuffix("/") in names for audience in audiences)


def spellings(wanted: Iterable[str]) -> list[str]:
    """The wanted audiences, URLs with and without a slash at their end, for who compares them letter by letter."""
    return [
        *dict.fromkeys(
            spelling
            for name in wanted
            for spelling in ((name.removesuffix("/"), name.removesuffix("/") + "/") if "://" in name else (name,))
        )
    ]
