"""Decides whether another record fits into a Secret that has grants of many users. Pure module.

The records of one person may take only a part of a Secret, so that others can still sign in. Another part is reserved
for the gateway's own records, such as the keys of its tokens.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Final

from fairlead_gateway.grants.sealed_grant import beginning_of_records

MAX_BYTES: Final = 1_000_000
"""Maximum number of bytes of the values of one Secret: more than 300 grants of 2 kB. The API server's limit is 1 MiB.
"""
RESERVE_BYTES: Final = 16_000
"""Bytes beyond MAX_BYTES for changes of stored grants, because a renewal makes a grant a few bytes longer for a short
time."""
OWN_BYTES: Final = 100_000
"""Part of MAX_BYTES for the gateway's own records, which they cannot exceed."""
ALL_RECORDS_BYTES: Final = MAX_BYTES - OWN_BYTES
"""Part of MAX_BYTES for the records of all users."""
RECORDS_OF_USER_BYTES: Final = 240_000
"""Part of MAX_BYTES for the records of one person: 80 accounts of 3 kB."""


def refusal(data: Mapping[str, str | None], person: bytes, name: str, size: int) -> str:
    """Why a record of `size` bytes does not fit into a Secret, and what to do; empty if it fits. `data` has the records
    by name, base64-encoded. A record that replaces another may use the reserve. `person` is empty for the gateway
    itself.
    """
    other_records = {member: encoded for member, encoded in data.items() if member != name}
    total = _size(other_records) + size
    if name in data:
        return _full_message(other_records) if total > MAX_BYTES + RESERVE_BYTES else ""
    if not person:
        return (
            _full_message(other_records) if total > MAX_BYTES or _size_of(other_records, b"") + size > OWN_BYTES else ""
        )
    if total > ALL_RECORDS_BYTES and total - _size_of(other_records, b"") > ALL_RECORDS_BYTES:
        return _full_message(other_records)
    if total > RECORDS_OF_USER_BYTES and _size_of(other_records, person) + size > RECORDS_OF_USER_BYTES:
        return (
            f"has {RECORDS_OF_USER_BYTES // 1_000} kB of this person, the limit for one person: end accounts and "
            "sign-ins that are not used (`fairlead accounts`, `fairlead sign-ins`)"
        )
    return ""


def _full_message(other_records: Mapping[str, str | None]) -> str:
    return (
        f"is full ({len(other_records)} grants): end accounts that nobody uses (`fairlead accounts --everybody`), or "
        "keep grants in Redis"
    )


def _size(data: Mapping[str, str | None]) -> int:
    """Bytes of all values."""
    return sum(3 * len(encoded or "") // 4 for encoded in data.values())


def _size_of(data: Mapping[str, str | None], person: bytes) -> int:
    """Bytes of a person's values. They are recognized by their first bytes, because decoding all values takes long."""
    beginning = beginning_of_records(person)
    encoded_beginning = base64.b64encode(beginning[: len(beginning) // 3 * 3]).decode()
    return sum(3 * len(encoded) // 4 for encoded in data.values() if encoded and encoded.startswith(encoded_beginning))
