"""Room in a Secret that holds grants of many users: decides whether one more record has its place. Pure module.

A person fills at most a part of a Secret, so that others can still sign in, and the gateway's own records, such as the
keys of its tokens, have a part that no person can fill.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Final

from fairlead_gateway.grants.sealed_grant import beginning_of_records

MAX_BYTES: Final = 1_000_000
"""Limit on the values of one Secret, below the API server's of 1 MiB: more than 300 grants of 2 kB."""
RESERVE_BYTES: Final = 16_000
"""Room beyond it for changes of grants that are stored already: a renewal writes some bytes more for a moment."""
OWN_BYTES: Final = 100_000
"""Part of it for records of no person, which they cannot exceed."""
PERSONS_BYTES: Final = MAX_BYTES - OWN_BYTES
"""Part of it for all users."""
PERSON_BYTES: Final = 240_000
"""Part of it for one person: 80 accounts of 3 kB."""


def refusal(data: Mapping[str, str | None], person: bytes, name: str, size: int) -> str:
    """Why a record of `size` bytes has no place among the others, base64-encoded by their names, and what to do; empty
    if it has. A record that replaces one may fill the reserve. `person` is empty for the gateway itself.
    """
    others = {member: encoded for member, encoded in data.items() if member != name}
    total = _size(others) + size
    if name in data:
        return _full(others) if total > MAX_BYTES + RESERVE_BYTES else ""
    if not person:
        return _full(others) if total > MAX_BYTES or _size_of(others, b"") + size > OWN_BYTES else ""
    if total > PERSONS_BYTES and total - _size_of(others, b"") > PERSONS_BYTES:
        return _full(others)
    if total > PERSON_BYTES and _size_of(others, person) + size > PERSON_BYTES:
        return (
            f"has {PERSON_BYTES // 1_000} kB of this person, the most for one: end accounts and sign-ins that are not "
            "used (`fairlead accounts`, `fairlead sign-ins`)"
        )
    return ""


def _full(others: Mapping[str, str | None]) -> str:
    return (
        f"is full ({len(others)} grants): end accounts that nobody uses (`fairlead accounts --everybody`), or keep "
        "grants in Redis"
    )


def _size(data: Mapping[str, str | None]) -> int:
    """Bytes of all values."""
    return sum(3 * len(encoded or "") // 4 for encoded in data.values())


def _size_of(data: Mapping[str, str | None], person: bytes) -> int:
    """Bytes of a person's values, which are told by how they begin, as decoding all of them takes long."""
    beginning = beginning_of_records(person)
    whole = base64.b64encode(beginning[: len(beginning) // 3 * 3]).decode()
    return sum(3 * len(encoded) // 4 for encoded in data.values() if encoded and encoded.startswith(whole))
