"""Room of one person for records of a kind: decides which make way for another one. Pure module."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fairlead_mcp.oauth.stored_grant import GrantKey, StoredGrant


def making_way(
    records: Sequence[tuple[GrantKey, StoredGrant]], new: StoredGrant, most: int, most_bytes: int
) -> list[GrantKey]:
    """The first of some records, without which there are at most `most` with the new one, of at most `most_bytes` as
    JSON.
    """
    sizes = [_size(grant) for _, grant in records]
    count, total, gone = len(records) + 1, sum(sizes) + _size(new), 0
    while gone < len(records) and (count - gone > most or total > most_bytes):
        total -= sizes[gone]
        gone += 1
    return [key for key, _ in records[:gone]]


def _size(grant: StoredGrant) -> int:
    return len(msgspec.json.encode(grant))
