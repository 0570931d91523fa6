"""The gateway's own tokens, for one resource each, and the settings of a gateway that accepts them."""

from __future__ import annotations

import time

import msgspec

from fairlead_app.authentication import Trust
from fairlead_authorization.sessions.access_tokens import AccessTokens
from fairlead_authorization.sessions.session import ClientSession
from fairlead_authorization.sessions.signing_keys import SigningKeys
from fairlead_gateway.identity.issuers_file import Issuer
from fairlead_gateway.identity.own_tokens import OwnTokens
from fairlead_mcp.oauth.memory_grants import MemoryGrants
from sessionworld import ACCESS, HERE, ISSUER, person


class OwnIssuer:
    """The gateway as the issuer of its tokens."""

    def __init__(self) -> None:
        self._keys = SigningKeys(MemoryGrants())
        self._tokens = AccessTokens(HERE, self._keys)
        self.trust = Trust((OwnTokens(HERE, self._keys, [Issuer(issuer=ISSUER)], now=time.time),))

    async def token(self, path: str) -> str:
        """A token for a path of the gateway and everything below it; an empty path means all paths."""
        now = time.time()
        session = ClientSession(
            id="",
            person=person(),
            client_id="https://claude.ai/client.json",
            agent="claude",
            access=msgspec.structs.replace(ACCESS, resource=HERE + path),
            began_at=now,
            used_at=now,
            ends_at=now + 3_600,
        )
        return (await self._tokens.issue(session)).value
