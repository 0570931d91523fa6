"""Changes of grants that a gateway notices by watching their Secret."""

from __future__ import annotations

import os

import msgspec

from fairlead_gateway.grants.sealed_grant import SealedGrant, encode_record, new_version, record_name
from fairlead_gateway.grants.secret_store import _WatchedSecret
from fairlead_kube.objects import Secret
from fairlead_mcp.oauth.stored_grant import GrantKey

KEYS = [GrantKey(b"ada", f"default/server-{number}") for number in range(3)]


def record(key: GrantKey) -> bytes:
    sealed = SealedGrant(key.person, key.server, "https://as", new_version(), "k", os.urandom(12), os.urandom(64))
    return encode_record(sealed)


def secret(data: dict[str, bytes]) -> Secret:
    """The Secret as a watch event contains it, with byte objects of its own."""
    return msgspec.convert(
        {"metadata": {"name": "grants-0"}, "data": {k: bytes(bytearray(v)) for k, v in data.items()}}, Secret
    )


def test_an_event_tells_the_grants_that_changed_and_decodes_no_others() -> None:
    told: list[GrantKey] = []
    written: list[bool] = []

    def tell(key: GrantKey, was_written: bool) -> None:
        told.append(key)
        written.append(was_written)

    seen = _WatchedSecret("grants-0", tell)
    data = {record_name(key): record(key) for key in KEYS}
    seen.replace([secret(data)], "1")
    assert told == [], "the first list has nothing new"
    before = dict(seen._records)

    data[record_name(KEYS[1])] = record(KEYS[1])
    seen.update(secret(data))
    assert told == [KEYS[1]]
    for key in (KEYS[0], KEYS[2]):
        assert seen._records[record_name(key)] is before[record_name(key)], "was not decoded again"

    del data[record_name(KEYS[0])]
    data["edited-by-hand"] = b"no record"
    seen.update(secret(data))
    assert told == [KEYS[1], KEYS[0]]
    seen.delete(secret({}))
    assert sorted(told[2:]) == [KEYS[1], KEYS[2]]
    assert written == [True, False, False, False]
