"""Sealed grants can be opened only with their user, server, issuer, version and key."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_gateway.grants.sealed_grant import (
    MAX_RECORD_BYTES,
    SealedGrant,
    decode_record,
    encode_record,
    new_version,
    record_name,
)
from fairlead_gateway.grants.sealing import GrantSealer
from fairlead_gateway.grants.sealing_keys import SealingKey, new_sealing_key
from fairlead_mcp.oauth.stored_grant import (
    MAX_GRANT_BYTES,
    GrantKey,
    GrantStoreError,
    StoredGrant,
    UnreadableGrant,
)

KEY = GrantKey(b"jwt:https://idp#ada", "default/linear")
GRANT = StoredGrant(issuer="https://as", client_id="c", refresh_token="r-secret", scopes=("a", "b"), granted_at=1.5)
FIRST, SECOND = new_sealing_key("file"), new_sealing_key("file")
SEALER = GrantSealer([FIRST])
RECORD = SEALER.seal(KEY, GRANT, "v1")
SECRETS = st.binary(min_size=32, max_size=32)
PERSONS = st.binary(max_size=64)
NAMES = st.text(max_size=32)


@given(person=PERSONS, server=NAMES, issuer=NAMES, token=st.text(max_size=300), version=NAMES, secret=SECRETS)
def test_a_sealed_grant_is_opened_with_the_same_key(
    person: bytes, server: str, issuer: str, token: str, version: str, secret: bytes
) -> None:
    sealer, key = GrantSealer([SealingKey("k", secret)]), GrantKey(person, server)
    grant = StoredGrant(issuer=issuer, client_id="c", refresh_token=token)
    record = decode_record(encode_record(sealer.seal(key, grant, version)))
    assert record is not None
    assert sealer.open(key, record) == grant


@given(at=st.integers(min_value=0, max_value=8 * len(RECORD.sealed) - 1))
def test_a_flipped_bit_of_the_sealed_text_is_refused(at: int) -> None:
    changed = bytearray(RECORD.sealed)
    changed[at // 8] ^= 1 << at % 8
    with pytest.raises(UnreadableGrant, match="was changed"):
        SEALER.open(KEY, msgspec.structs.replace(RECORD, sealed=bytes(changed)))


@given(at=st.integers(min_value=0, max_value=8 * len(encode_record(RECORD)) - 1))
def test_a_flipped_bit_of_the_stored_record_is_refused(at: int) -> None:
    changed = bytearray(encode_record(RECORD))
    changed[at // 8] ^= 1 << at % 8
    record = decode_record(bytes(changed))
    if record is not None and record != RECORD:  # JSON and base64 can write one value in several forms
        with pytest.raises(UnreadableGrant):
            SEALER.open(record.key, record)


@given(person=PERSONS.filter(lambda person: person != KEY.person))
def test_a_record_of_another_person_is_refused(person: bytes) -> None:
    other = GrantKey(person, KEY.server)
    with pytest.raises(UnreadableGrant, match="belongs to somebody else"):
        SEALER.open(other, RECORD)
    with pytest.raises(UnreadableGrant):
        SEALER.open(other, msgspec.structs.replace(RECORD, person=person))


@given(server=NAMES.filter(lambda server: server != KEY.server))
def test_a_record_of_another_server_is_refused(server: str) -> None:
    with pytest.raises(UnreadableGrant, match="belongs to somebody else"):
        SEALER.open(GrantKey(KEY.person, server), msgspec.structs.replace(RECORD, server=server))


@given(
    version=NAMES.filter(lambda version: version != "v1"), issuer=NAMES.filter(lambda issuer: issuer != GRANT.issuer)
)
def test_a_record_with_another_version_or_issuer_is_refused(version: str, issuer: str) -> None:
    for change in ({"version": version}, {"issuer": issuer}):
        with pytest.raises(UnreadableGrant):
            SEALER.open(KEY, msgspec.structs.replace(RECORD, **change))


@pytest.mark.parametrize("change", [{"nonce": b""}, {"nonce": b"1" * 200}, {"sealed": b""}])
def test_a_record_without_its_parts_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(UnreadableGrant):
        SEALER.open(KEY, msgspec.structs.replace(RECORD, **change))


def test_each_key_opens_and_the_first_seals() -> None:
    rotated = GrantSealer([SECOND, FIRST])
    assert rotated.open(KEY, RECORD) == GRANT
    assert rotated.seal(KEY, GRANT, "v2").key_id == SECOND.id
    assert not SEALER.knows(rotated.seal(KEY, GRANT, "v2"))


def test_a_record_with_a_lost_key_says_what_to_do() -> None:
    with pytest.raises(UnreadableGrant, match=rf"{FIRST.id}.*not available: bring the key back .*, or sign in again"):
        GrantSealer([SECOND]).open(KEY, RECORD)


def test_a_key_under_the_id_of_another_one_is_refused() -> None:
    with pytest.raises(UnreadableGrant, match="was changed"):
        GrantSealer([SealingKey(FIRST.id, SECOND.secret)]).open(KEY, RECORD)


def test_two_records_of_one_grant_have_nothing_in_common() -> None:
    again = SEALER.seal(KEY, GRANT, "v1")
    assert again.nonce != RECORD.nonce
    assert again.sealed != RECORD.sealed


def test_a_record_shows_no_secret_of_its_grant() -> None:
    stored = encode_record(SEALER.seal(KEY, GRANT, new_version()))
    assert b"r-secret" not in stored
    assert GRANT.refresh_token not in repr(GRANT)
    assert str(FIRST.secret) not in repr(FIRST)


def test_a_grant_that_is_too_large_is_not_sealed() -> None:
    with pytest.raises(GrantStoreError, match=f"more than {MAX_GRANT_BYTES} bytes"):
        SEALER.seal(KEY, msgspec.structs.replace(GRANT, refresh_token="r" * MAX_GRANT_BYTES), "v")


@given(data=st.binary(max_size=200))
def test_decode_record_gives_none_for_other_bytes(data: bytes) -> None:
    assert not isinstance(decode_record(data), SealedGrant)


def test_a_record_that_is_too_large_is_not_decoded() -> None:
    assert decode_record(encode_record(RECORD) + b" " * MAX_RECORD_BYTES) is None


def test_names_of_records_tell_persons_and_servers_apart() -> None:
    keys = [GrantKey(b"a", "bc"), GrantKey(b"ab", "c"), GrantKey(b"", "abc"), GrantKey(b"a", "b")]
    assert len({record_name(key) for key in keys}) == len(keys)
