"""Limits the records of one person: decides which records are deleted before another record is stored. Pure module."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fairlead_mcp.oauth.stored_grant import GrantKey, StoredGrant


def records_to_delete(
    records: Sequence[tuple[GrantKey, StoredGrant]], new_record: StoredGrant, max_records: int, max_bytes: int
) -> list[GrantKey]:
    """Keys of the first records, which have to be deleted so that the remaining records and `new_record` are at most
    `max_records` in number and `max_bytes` in JSON.
    """
    sizes = [_size(grant) for _, grant in records]
    count, total, delete_count = len(records) + 1, sum(sizes) + _size(new_record), 0
    while delete_count < len(records) and (count - delete_count > max_records or total > max_bytes):
        total -= sizes[delete_count]
        delete_count += 1
    return [key for key, _ in records[:delete_count]]


def _size(grant: StoredGrant) -> int:
    return len(msgspec.json.encode(grant))
