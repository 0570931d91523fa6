"""Grants end after a long time without a call of their user."""

from __future__ import annotations

from fairlead_api.meta import ServerKey
from fairlead_gateway.core.granted_tokens import GrantedTokens
from fairlead_gateway.grants.accounts import Accounts
from fairlead_gateway.grants.unused_grants import UnusedGrants
from fairlead_mcp.oauth.memory_grants import MemoryGrants
from fairlead_mcp.oauth.stored_grant import GrantKey, StoredGrant

DAY = 86_400.0


class Tokens(GrantedTokens):
    """Records the users whose tokens are dropped."""

    def __init__(self) -> None:
        self.forgotten: list[bytes] = []

    def forget(self, server: ServerKey, person: bytes, reason: str = "") -> None:
        self.forgotten.append(person)

    async def review(self, server: ServerKey, person: bytes) -> None:
        """Never called."""


async def remaining_users(days: int, *, after: float) -> list[bytes]:
    """The users whose grants are left after the given days."""
    store, tokens = MemoryGrants(), Tokens()
    for person, used in ((b"idle", 0.0), (b"busy", 100 * DAY)):
        grant = StoredGrant("https://as", "c", refresh_token="r", granted_at=DAY, renewed_at=150 * DAY, used_at=used)
        await store.write(GrantKey(person, "default/linear"), grant)
    await store.write(GrantKey(b"", "registration:https://as"), StoredGrant("https://as", "c", granted_at=DAY))
    await UnusedGrants(Accounts(store, tokens, unused_days=days), lambda: after * DAY).check()
    persons = sorted(key.person for key, _ in await store.all_grants() if key.person)
    assert sorted(tokens.forgotten) == [person for person in (b"busy", b"idle") if person not in persons]
    assert await store.read(GrantKey(b"", "registration:https://as")) is not None
    return persons


async def test_grant_ends_when_no_call_has_used_it_for_its_days_though_lists_renewed_it() -> None:
    assert await remaining_users(90, after=90.9) == [b"busy", b"idle"]
    assert await remaining_users(90, after=91.0) == [b"busy"]
    assert await remaining_users(90, after=190.0) == []


async def test_grants_stay_without_a_limit() -> None:
    assert await remaining_users(0, after=9_999.0) == [b"busy", b"idle"]
