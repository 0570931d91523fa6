"""Renewals that the provider has begun to answer and that cannot be completed."""

from __future__ import annotations

import pytest

from fairlead_authorization.protocol.provider import KEYS_SECONDS, RENEWAL_SECONDS
from fairlead_authorization.sessions.renewals import CLAIM_SECONDS
from fairlead_authorization.sessions.session import IdentityProviderUnavailable, RenewedPerson, SignedInPerson
from fairlead_gateway.grants.secret_store import API_SECONDS
from fairlead_mcp.oauth.memory_grants import MemoryGrants
from sessionworld import RotatingProvider, SessionWorld


class KeylessProvider(RotatingProvider):
    """Provider that issues a new refresh token, but does not serve the keys that verify the ID token."""

    keyless = True

    async def renew(self, who: SignedInPerson, refresh_token: str) -> RenewedPerson:
        renewed = await super().renew(who, refresh_token)
        if self.keyless:
            raise IdentityProviderUnavailable("the keys cannot be fetched", renewed.grant)
        return renewed


async def test_refresh_token_of_the_provider_is_kept_although_its_keys_are_away() -> None:
    """With the previous refresh token, the provider would see a replay and end the user's access."""
    store = MemoryGrants()
    async with SessionWorld(lambda: store) as world:
        provider = world.provider = KeylessProvider()
        issued = await world.replica().sign_in()
        for _ in range(2):
            with pytest.raises(IdentityProviderUnavailable):
                await world.replica().refresh(issued.refresh_token)
        provider.keyless = False
        refreshed = await world.replica().refresh(issued.refresh_token)
        assert refreshed.refresh_token != issued.refresh_token
        assert provider.requests == 3


def test_no_other_replica_asks_while_a_renewal_may_still_be_written() -> None:
    """Another replica would send the previous refresh token."""
    assert CLAIM_SECONDS > RENEWAL_SECONDS + KEYS_SECONDS + API_SECONDS
