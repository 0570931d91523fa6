"""Determines, before any call, to which servers a user has to sign in."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fairlead_api.meta import ServerKey
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.identity.persons import person_of
from fairlead_gateway.sign_in.pending import PendingSignIns
from fairlead_gateway.upstream.server_consent import ServerConsent
from fairlead_mcp.oauth.stored_grant import GrantStore, GrantStoreError, StoredGrant
from fairlead_mcp.oauth.subject import TokenSubject


class RequiredSignIns:
    """Required sign-ins, from the users' grants in the store and their tokens at this replica."""

    def __init__(
        self,
        store: GrantStore | None,
        consents: Callable[[], Mapping[ServerKey, ServerConsent]],
        pending: PendingSignIns,
    ) -> None:
        """`consents` returns the servers that users sign in to."""
        self._store = store
        self._consents = consents
        self._pending = pending

    async def of(self, identity: Identity) -> dict[ServerKey, str]:
        """Servers that the caller has to sign in to, each with the reason. Empty if the caller is not a user, or if the
        store cannot be read.
        """
        person, consents = person_of(identity), self._consents()
        if not person or self._store is None or not consents:
            return {}
        try:
            grants = {key.server: grant for key, grant in await self._store.of_person(person)}
        except GrantStoreError:
            return {}
        reasons = {key: self.reason(person, key, consent, grants.get(str(key))) for key, consent in consents.items()}
        return {key: reason for key, reason in reasons.items() if reason}

    def reason(self, person: bytes, server: ServerKey, consent: ServerConsent, grant: StoredGrant | None) -> str:
        """Why a user with this grant has to sign in to a server; empty if that is not needed."""
        problem = consent.source.sign_in_problem(person, grant)
        if grant is None or consent.source.find_cached(TokenSubject(person)) is not None:
            return problem
        pending = self._pending.of_owner(person, server)
        if pending is not None and grant.granted_at < pending.opened_at:  # because a call could not use the grant
            credential = "your sign-in at" if consent.settings.user_key is None else "the key that you entered for"
            return problem or f"the last call could not be made with {credential} {server}"
        # the sign-in belongs to another replica, whose access token may still be valid
        return "" if not grant.refresh_token and self._pending.is_recent(grant.granted_at) else problem
