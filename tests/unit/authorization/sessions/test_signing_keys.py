"""Keys of the gateway's own tokens, which replicas share and replace."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fairlead_authorization.sessions.key_ring import (
    PUBLISHED_SECONDS,
    RETIRED_SECONDS,
    SIGNING_SECONDS,
    current_keys,
    first_keys,
    signing_key,
)
from fairlead_authorization.sessions.session import SessionStoreUnavailable
from fairlead_authorization.sessions.signing_keys import FRESH_SECONDS, KEYS, SigningKeys
from fairlead_authorization.sessions.token_sealer import TokenContent, TokenSealer, refresh_proof
from fairlead_mcp.oauth.memory_grants import MemoryGrants
from fairlead_mcp.oauth.stored_grant import (
    MAX_GRANT_BYTES,
    GrantKey,
    GrantStoreError,
    StoredGrant,
    UnreadableGrant,
    VersionedGrant,
)
from sessionworld import NOW
from virtualtime import HandClock


class Store(MemoryGrants):
    """A store that can be unreachable, or that cannot decrypt its records because their key was lost."""

    away = False
    lost = False

    async def read(self, key: GrantKey) -> VersionedGrant | None:
        if self.away:
            raise GrantStoreError("the store does not respond")
        if self.lost:
            raise UnreadableGrant("the key of the record is lost")
        return await super().read(key)

    async def write(self, key: GrantKey, grant: StoredGrant, replaces: str | None = None) -> str | None:
        self.lost = False
        return await super().write(key, grant, replaces)


def keys_of(store: Store, clock: HandClock) -> SigningKeys:
    return SigningKeys(store, clock, clock)


def test_the_first_key_signs_at_once() -> None:
    keys = first_keys(NOW)
    assert signing_key(keys, NOW) == keys.signing[0]
    assert current_keys(keys, NOW) is keys


def test_a_key_is_published_more_than_an_hour_before_it_signs_and_until_its_last_token_has_expired() -> None:
    keys = first_keys(NOW)
    first = keys.signing[0]
    due = NOW + SIGNING_SECONDS - PUBLISHED_SECONDS
    assert current_keys(keys, due - 1) is keys
    keys = current_keys(keys, due)
    second = keys.signing[1]
    assert second.signs_from - due >= 3_600
    assert signing_key(keys, second.signs_from - 1) == first
    assert signing_key(keys, second.signs_from) == second
    assert current_keys(keys, second.signs_from + RETIRED_SECONDS - 1) is keys
    assert current_keys(keys, second.signs_from + RETIRED_SECONDS).signing == (second,)


def test_a_key_that_is_made_late_is_published_as_long_as_any() -> None:
    late = NOW + 10 * SIGNING_SECONDS
    keys = current_keys(first_keys(NOW), late)
    assert signing_key(keys, late) == keys.signing[0]
    assert keys.signing[1].signs_from == late + PUBLISHED_SECONDS


def test_the_sealing_key_stays_when_signing_keys_are_replaced() -> None:
    keys = first_keys(NOW)
    assert current_keys(keys, NOW + SIGNING_SECONDS).sealing == keys.sealing


def test_a_clock_that_is_behind_signs_with_the_first_key() -> None:
    keys = first_keys(NOW)
    assert signing_key(keys, NOW - 60) == keys.signing[0]


def test_the_largest_ring_can_be_stored() -> None:
    keys = first_keys(NOW)
    for day in range(90):
        keys = current_keys(keys, NOW + day * 86_400)
        assert StoredGrant("", "", token_keys=keys).fits
        assert len(keys.signing) <= 2
    assert MAX_GRANT_BYTES < 4_096


async def test_replicas_that_start_at_once_have_the_same_keys() -> None:
    store, clock = Store(), HandClock(NOW)
    replicas = [keys_of(store, clock) for _ in range(4)]
    signers = await asyncio.gather(*(replica.signer() for replica in replicas))
    assert len({signer.id for signer in signers}) == 1
    assert len(await store.all_grants()) == 1


async def test_a_replica_finds_a_key_that_another_one_has_made() -> None:
    store, clock = Store(), HandClock(NOW)
    late, early = keys_of(store, clock), keys_of(store, clock)
    kid = (await early.signer()).id
    assert late.find(kid) is None
    assert await late.refetch()
    assert late.find(kid) is not None
    assert late.find(None) is None


async def test_the_document_has_public_keys_alone_and_the_next_one_before_it_signs() -> None:
    store, clock = Store(), HandClock(NOW)
    keys = keys_of(store, clock)
    signer = await keys.signer()
    clock.now += SIGNING_SECONDS - PUBLISHED_SECONDS
    assert (await keys.signer()).id == signer.id
    document: dict[str, Any] = await keys.document()
    assert [key["kid"] == signer.id for key in document["keys"]] == [True, False]
    assert all("d" not in key and key["alg"] == "ES256" and key["use"] == "sig" for key in document["keys"])
    clock.now += PUBLISHED_SECONDS
    assert (await keys.signer()).id != signer.id


async def test_keys_stay_in_use_while_the_store_is_away() -> None:
    store, clock = Store(), HandClock(NOW)
    keys = keys_of(store, clock)
    signer = await keys.signer()
    store.away = True
    clock.now += 2 * FRESH_SECONDS
    assert await keys.signer() == signer
    assert keys.find(signer.id) is not None
    assert not await keys.refetch(), "an unknown key may be one that another replica has made"
    with pytest.raises(SessionStoreUnavailable, match="does not respond"):
        await keys_of(store, clock).signer()
    store.away = False
    clock.now += FRESH_SECONDS
    assert await keys.refetch()


async def test_keys_that_cannot_be_opened_are_replaced_by_a_replica_that_has_none() -> None:
    store, clock = Store(), HandClock(NOW)
    keys = keys_of(store, clock)
    signer = await keys.signer()
    store.lost = True
    clock.now += 2 * FRESH_SECONDS
    assert await keys.signer() == signer
    assert (await keys_of(store, clock).signer()).id != signer.id


async def test_the_record_of_keys_shows_no_secret() -> None:
    store = Store()
    await keys_of(store, HandClock(NOW)).signer()
    stored = await store.read(KEYS)
    assert stored is not None
    keys = stored.grant.token_keys
    assert keys is not None
    assert keys.signing[0].jwk["d"] not in f"{stored} {keys} {keys.signing}"
    assert repr(keys.sealing) not in f"{stored} {keys}"


def test_a_text_is_the_same_for_the_same_content_and_opens_as_its_own_kind_alone() -> None:
    texts, other = TokenSealer(bytes(64)), TokenSealer(bytes([1]) * 64)
    content = TokenContent(b"jwt:https://idp#ada", "s", 2, refresh_proof(b"secret", 2))
    text = texts.seal("refresh", content)
    assert text == texts.seal("refresh", content)
    assert texts.open("refresh", text) == content
    assert texts.open("code", text) is None
    assert other.open("refresh", text) is None
    assert "ada" not in text
