"""Limits one person's records of a kind: decides which are deleted to make room for another one. Pure module."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fairlead_mcp.oauth.stored_grant import GrantKey, StoredGrant


def making_way(
    records: Sequence[tuple[GrantKey, StoredGrant]], new: StoredGrant, most: int, most_bytes: int
) -> list[GrantKey]:
    """The first of some records, which have to be deleted so that at most `most` records remain, including the new one,
    with at most `most_bytes` as JSON.
    """
    sizes = [_size(grant) for _, grant in records]
    count, total, gone = len(records) + 1, sum(sizes) + _size(new), 0
    while gone < len(records) and (count - gone > most or total > most_bytes):
        total -= sizes[gone]
        gone += 1
    return [key for key, _ in records[:gone]]


def _size(grant: StoredGrant) -> int:
    return len(msgspec.json.encode(grant))
