"""Limits on the space in a Secret of grants: for one user, for all users, and for the gateway itself."""

from __future__ import annotations

import base64

import pytest

from fairlead_gateway.grants.sealed_grant import SealedGrant, beginning_of_records, encode_record, record_name
from fairlead_gateway.grants.secret_room import (
    ALL_RECORDS_BYTES,
    MAX_BYTES,
    OWN_BYTES,
    RECORDS_OF_USER_BYTES,
    RESERVE_BYTES,
    refusal,
)
from fairlead_mcp.oauth.stored_grant import GrantKey

SIZE = 3_000


def record(person: bytes, server: str) -> bytes:
    return encode_record(SealedGrant(person, server, "https://as", "v", "k", b"n" * 12, b"s" * 2_100))


def records_of_size(person: bytes, size: int) -> dict[str, str | None]:
    """Records of one user that together have `size` bytes, as in a Secret."""
    data: dict[str, str | None] = {}
    for number in range(size // SIZE):
        key = GrantKey(person, f"session:{number}")
        data[record_name(key)] = base64.b64encode(record(person, key.server).ljust(SIZE)).decode()
    return data


def crowd(size: int) -> dict[str, str | None]:
    """Records of many users."""
    data: dict[str, str | None] = {}
    for number in range(size // RECORDS_OF_USER_BYTES + 1):
        data |= records_of_size(
            b"person %d" % number, min(RECORDS_OF_USER_BYTES, size - number * RECORDS_OF_USER_BYTES)
        )
    return data


@pytest.mark.parametrize("person", [b"", b"a", b"ad", b"ada", b"jwt:https://idp#ada", b"\xff\x00\x7f"])
def test_records_of_a_person_are_told_by_how_they_begin(person: bytes) -> None:
    assert record(person, "default/linear").startswith(beginning_of_records(person))
    for other in (b"", b"b", person + b"x", person + b"xyz"):
        if other != person:
            assert not record(other, "default/linear").startswith(beginning_of_records(person)[:-2])


def test_a_person_fills_only_a_part_of_a_secret() -> None:
    data = records_of_size(b"ada", RECORDS_OF_USER_BYTES)
    assert "of this person" in refusal(data, b"ada", "new", SIZE)
    assert not refusal(data, b"adam", "new", SIZE)
    assert not refusal(data, b"", "new", SIZE)
    assert not refusal(data, b"ada", next(iter(data)), SIZE + RESERVE_BYTES), "what is stored can change"


def test_persons_leave_the_gateway_room_for_its_keys() -> None:
    data = crowd(ALL_RECORDS_BYTES)
    assert "is full" in refusal(data, b"ada", "new", SIZE)
    assert not refusal(data, b"", "new", SIZE)


def test_the_gateway_leaves_persons_their_room() -> None:
    data = records_of_size(b"", OWN_BYTES)
    assert "is full" in refusal(data, b"", "new", SIZE)
    assert not refusal(data | crowd(ALL_RECORDS_BYTES - SIZE), b"ada", "new", SIZE)


def test_changes_of_what_is_stored_have_a_reserve_beyond_the_limit() -> None:
    data = crowd(MAX_BYTES)
    name = next(iter(data))
    assert not refusal(data, b"person 0", name, SIZE + RESERVE_BYTES // 2)
    assert "is full" in refusal(data, b"person 0", name, SIZE + 2 * RESERVE_BYTES)
