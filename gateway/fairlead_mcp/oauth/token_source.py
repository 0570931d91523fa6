"""Access tokens of one server: from the cache, or by a grant that all concurrent callers of a person share.

    source = TokenSource(settings, credential, access)
    token = source.cached(subject) or await source.obtain(subject)
    ...                                                       # the server answers 401
    token = await source.obtain(subject, refused=token, challenge=Challenge.parse(field))

With the grant `userConsent` a token is renewed by the person's grant in a store, which is found by the person and by
`TokenAccess.server`; `consent.ConsentFlow` makes that grant. With `userKey` the grant in the store has a key that the
person entered, which is the token (`entered_keys`).

A source belongs to one event loop, and to one credential: a changed credential needs a new source. It starts no timers;
a grant runs while somebody waits for it. Each grant has an exchange of its own, so users do not delay each other.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Final, NamedTuple

from fairlead_api.documents.catalog import Credential
from fairlead_api.documents.oauth import CLIENT_CREDENTIALS, USER_CONSENT, USER_KEY, OAuthSettings
from fairlead_mcp.oauth.access_token import AccessToken
from fairlead_mcp.oauth.assertion_grants import AssertionGrants
from fairlead_mcp.oauth.challenge import Challenge
from fairlead_mcp.oauth.consented_grants import ConsentedGrants
from fairlead_mcp.oauth.entered_keys import EnteredKeys
from fairlead_mcp.oauth.errors import (
    BAD_ANSWER,
    CLOSED,
    INSUFFICIENT_SCOPE,
    INVALID_SCOPE,
    TIMEOUT,
    TOKEN_REFUSED,
    UNREACHABLE,
    GrantFailed,
)
from fairlead_mcp.oauth.grant_failures import LONGEST_PAUSE, FlightKey, GrantFailures
from fairlead_mcp.oauth.grants import check_settings
from fairlead_mcp.oauth.memory_grants import MemoryGrants
from fairlead_mcp.oauth.scopes import fit_one_token
from fairlead_mcp.oauth.shared_task import SharedTask, TaskStopped
from fairlead_mcp.oauth.stored_grant import GrantStore, StoredGrant
from fairlead_mcp.oauth.subject import GATEWAY, TokenSubject
from fairlead_mcp.oauth.token_access import TokenAccess
from fairlead_mcp.oauth.token_cache import TokenCache
from fairlead_mcp.oauth.token_grants import DirectGrants, GrantRequest, TokenGrants

GRANT_SECONDS: Final = 10.0
"""Time limit of a whole grant, with its discovery."""
_ATTEMPTS: Final = 3
"""Grants that one caller waits for, if each was for another subject token of the person, or for scopes that the person
does not get any more."""
REFUSED_SECONDS: Final = 600.0
"""Time for which it is said that the server refuses a person's tokens, if no call is made meanwhile."""
_NO_SCOPES: Final[frozenset[str]] = frozenset()


class _Wish(NamedTuple):
    """A token that a caller needs."""

    subject: TokenSubject
    step_up: frozenset[str]
    """Scopes that the server demands beyond those that the person's token had."""
    refused: AccessToken | None
    after_refusal: bool
    resource_metadata: str
    for_call: bool = True


class _Flight(NamedTuple):
    """A grant in progress."""

    task: SharedTask[AccessToken]
    subject: int
    """Hash of the subject token."""
    extra: frozenset[str]
    """Remembered scopes that were requested."""


class TokenSource:
    """Tokens of one server. Errors of settings and credential are raised by `obtain`."""

    def __init__(
        self,
        settings: OAuthSettings,
        credential: Credential,
        access: TokenAccess,
        store: GrantStore | None = None,
    ) -> None:
        """`store` has the grants of users who consented; None: nobody has."""
        self._settings = settings
        self._access = access
        self._own = settings.grant == CLIENT_CREDENTIALS
        self._cache = TokenCache(access.max_tokens, access.clock)
        self._get = self._cache.get  # bound once, for `cached` is on the path of each call
        self._failures = GrantFailures(access.max_tokens, access.monotonic)
        self._extra: OrderedDict[bytes, frozenset[str]] = OrderedDict()
        """Scopes by person beyond those of the settings: those that the server demanded and the person got, and those
        that it named with a 401.
        """
        self._refused: OrderedDict[bytes, tuple[str, float]] = OrderedDict()
        """Newest token by person that the server refused although it was new, and when."""
        self._flights: dict[FlightKey, _Flight] = {}
        self._closed = False
        self._grants: TokenGrants | GrantFailed
        """Obtains the tokens, or the reason why it cannot."""
        try:
            self._grants = _grants(settings, credential, access, store)
        except GrantFailed as error:
            self._grants = error

    def __repr__(self) -> str:
        return f"<TokenSource of {self._access.server_url}: {len(self._cache)} tokens, {len(self._flights)} grants>"

    def cached(self, subject: TokenSubject) -> AccessToken | None:
        """The person's token, if it is valid."""
        if self._own:
            return self._get(GATEWAY.person, GATEWAY.expires_at)
        return self._get(subject.person, subject.expires_at)

    async def obtain(
        self,
        subject: TokenSubject,
        *,
        refused: AccessToken | None = None,
        challenge: Challenge | None = None,
        for_call: bool = True,
    ) -> AccessToken:
        """A valid token of the person, by a grant if there is none in the cache.

        `refused` is a token that the server answered with 401, or with 403 and a `challenge` that wants more scopes. It
        is not returned again; a newer one in the cache is. After a 403 the person's tokens have the scopes of the
        challenge too, and the refused token stays in the cache until the new one is there. After a 401 they have the
        scopes of the challenge if the settings have none. With `for_call` False, the person's grant does not count as
        used. Raises GrantFailed.
        """
        wish = self._wish(GATEWAY if self._own else subject, refused, challenge)._replace(for_call=for_call)
        for attempt in range(_ATTEMPTS):
            token = self._cache.get(wish.subject.person, wish.subject.expires_at)
            if token is not None and self._satisfies(token, wish):
                return token
            flight = self._join(wish)
            try:
                return await flight.task.result()
            except TaskStopped:
                raise self._closed_failure() from None
            except GrantFailed as error:
                repeat = self._must_repeat(error, flight, wish)
                if not repeat or attempt == _ATTEMPTS - 1:
                    raise error.again() from error
        raise AssertionError("the last attempt returns or raises")

    def note_refusal(self, person: bytes) -> None:
        """Note that the server refuses the person's token, although it is new."""
        entry = self._cache.entry(person)
        if entry is not None:
            self._refused[person] = entry.token.value, self._access.monotonic()
            self._refused.move_to_end(person)
            if len(self._refused) > self._access.max_tokens:
                self._refused.popitem(last=False)

    def sign_in_problem(self, person: bytes, grant: StoredGrant | None) -> str:
        """Why a person has to sign in before a call can be made; empty if not. `grant` is the person's stored grant."""
        if self.refuses(person):
            return f"{self._access.server} refuses the access tokens of your sign-in"
        if self.cached(TokenSubject(person)) is not None or isinstance(self._grants, GrantFailed):
            return ""
        return self._grants.sign_in_problem(person, grant)

    def refuses(self, person: bytes) -> bool:
        """Whether the server refused the person's newest token, in the last REFUSED_SECONDS."""
        value, at = self._refused.get(person, ("", 0.0))
        if not value or at + REFUSED_SECONDS <= self._access.monotonic():
            return False
        token = self.cached(TokenSubject(person))
        return token is None or token.value == value

    def forget(self, person: bytes) -> None:
        """Forget all about a person. A grant in progress is finished for its waiters, but not cached."""
        self._cache.forget(person)
        self._failures.forget(person)
        self._extra.pop(person, None)
        self._refused.pop(person, None)
        if not isinstance(self._grants, GrantFailed):
            self._grants.forget(person)
        for key in [key for key in self._flights if key[0] == person]:
            del self._flights[key]
        self._access.forgotten(person)

    def adopt(self, person: bytes, token: AccessToken, grant: StoredGrant | None = None) -> None:
        """Use a token that the person just got by consent, and forget earlier failures. `grant` is that of the consent;
        None if it could not be stored.
        """
        self.forget(person)
        if grant is not None and not isinstance(self._grants, GrantFailed):
            self._grants.note_consent(person, grant)  # now, as the store may have that of another account when asked
        requested = token.scopes.union(self._settings.scopes)
        self._cache.put(person, token, requested=requested, granted_at=self._access.monotonic())

    async def review(self, person: bytes, *, in_use: bool = False) -> None:
        """Check a person's token after the store said that the person's grant has changed.

        If the store no longer has the consent that the token was issued for, because the person signed out or signed in
        again, everything about the person is forgotten; otherwise only earlier failures. The store is read only if the
        person has a token here, a token is being requested, or earlier tokens are `in_use` by open sessions with the
        server. Raises GrantStoreError if the store cannot be read: then call it again.
        """
        in_use = in_use or person in self._refused
        if not in_use and self._cache.entry(person) is None and all(key[0] != person for key in self._flights):
            self._failures.forget(person)
            return
        token = self._cache.entry(person)
        while isinstance(self._grants, GrantFailed) or not await self._grants.has_consent(person):
            before, token = token, self._cache.entry(person)
            if token is before:  # else the answer may be older than the token
                self.forget(person)
                return
        self._failures.forget(person)

    async def aclose(self) -> None:
        """Cancel all grants, forget all tokens and close the connections."""
        self._closed = True
        flights = [flight.task for flight in self._flights.values()]
        self._flights.clear()
        for task in flights:
            await task.aclose()
        if not isinstance(self._grants, GrantFailed):
            await self._grants.aclose()
        self._cache.clear()

    # Inside

    def _wish(
        self,
        subject: TokenSubject,
        refused: AccessToken | None,
        challenge: Challenge | None,
    ) -> _Wish:
        """Take the refused token into account. Raises GrantFailed if no grant can help."""
        if self._closed:
            raise self._closed_failure()
        person = subject.person
        metadata = "" if challenge is None else challenge.resource_metadata
        if challenge is not None and challenge.wants_scopes:
            step_up = self._demanded(person, refused, challenge)
            return _Wish(subject, step_up, refused, after_refusal=False, resource_metadata=metadata)
        dropped = None if refused is None else self._cache.drop(person, refused)
        if dropped is not None and dropped.after_refusal:
            age = self._access.monotonic() - dropped.granted_at
            if age < LONGEST_PAUSE:
                error = self._refused_failure()
                self._failures.note((person, self._requested(person, _NO_SCOPES)), subject, error)
                raise error
        if challenge is not None and not self._settings.scopes and not self._settings.of_person:
            self._add_scopes(person, frozenset(challenge.scopes))
        after_refusal = dropped is not None and self._settings.grant != USER_KEY  # nobody issues another key by itself
        return _Wish(subject, _NO_SCOPES, refused, after_refusal, metadata)

    def _add_scopes(self, person: bytes, scopes: frozenset[str]) -> None:
        """Request scopes for a person from now on; in place of the earlier ones if they would be too many."""
        if not scopes:
            return
        together = self._extra.get(person, _NO_SCOPES) | scopes
        self._extra[person] = together if fit_one_token(together) else scopes
        self._extra.move_to_end(person)
        if len(self._extra) > self._access.max_tokens:
            self._extra.popitem(last=False)

    def _demanded(self, person: bytes, refused: AccessToken | None, challenge: Challenge) -> frozenset[str]:
        """Scopes of the next token after a 403. Raises GrantFailed if the server would refuse that token too."""
        demanded = frozenset(challenge.scopes)
        had = _NO_SCOPES if refused is None else refused.scopes
        entry = self._cache.entry(person)
        asked_before = entry is not None and refused is not None and entry.token.value == refused.value
        requested = entry.requested if entry is not None and asked_before else _NO_SCOPES
        if not demanded:
            what = "does not say which"
        elif demanded <= requested:
            what = f"demands {' '.join(challenge.scopes)[:200]}, which was requested but is not enough"
        elif not fit_one_token(self._requested(person, had | demanded)):
            what = "demands too many"
        else:
            return had | demanded
        raise GrantFailed(
            f"the server wants a token with more scopes, but {what}: give the person these rights at the authorization "
            "server, or correct scopes of the server",
            cause=INSUFFICIENT_SCOPE,
        )

    def _satisfies(self, token: AccessToken, wish: _Wish) -> bool:
        """Whether a cached token is another than the refused one, and has the scopes that the server demands."""
        if wish.refused is not None and token.value == wish.refused.value:
            return False
        entry = self._cache.entry(wish.subject.person)
        return not wish.step_up or (entry is not None and wish.step_up <= entry.requested)

    def _requested(self, person: bytes, step_up: frozenset[str]) -> frozenset[str]:
        """All scopes of a request."""
        return frozenset(self._settings.scopes) | step_up | self._extra.get(person, _NO_SCOPES)

    def _join(self, wish: _Wish) -> _Flight:
        """The grant in progress, or a new one. Raises GrantFailed if one failed shortly before."""
        self._usable_grants().check(wish.subject)
        person = wish.subject.person
        key = (person, self._requested(person, wish.step_up))
        flight = self._flights.get(key)
        if flight is not None and flight.task.running:
            return flight
        failure = self._failures.find(key, wish.subject)
        if failure is not None:
            raise failure
        task = SharedTask(self._grant(wish, key), f"grant for {self._access.server_url}")
        extra = self._extra.get(person, _NO_SCOPES)
        flight = self._flights[key] = _Flight(task, hash(wish.subject.token), extra)
        return flight

    def _must_repeat(self, error: GrantFailed, flight: _Flight, wish: _Wish) -> bool:
        """Whether another grant may succeed: with the caller's own subject token, or without remembered scopes."""
        if error.cause == INVALID_SCOPE and flight.extra and not wish.step_up:
            if self._extra.get(wish.subject.person) == flight.extra:
                del self._extra[wish.subject.person]
            return True
        return not error.for_everybody and flight.subject != hash(wish.subject.token)

    async def _grant(self, wish: _Wish, key: FlightKey) -> AccessToken:
        """Obtain a token and cache it. Raises GrantFailed."""
        requested = key[1]
        began = self._access.monotonic()
        me = asyncio.current_task()
        try:
            async with asyncio.timeout(GRANT_SECONDS):
                wanted = GrantRequest(
                    wish.subject,
                    requested,
                    wish.step_up,
                    wish.resource_metadata,
                    for_call=wish.for_call,
                    refused=_value_of(wish.refused),
                )
                token = await self._usable_grants().token(wanted)
        except (GrantFailed, TimeoutError) as cause:
            error = cause if isinstance(cause, GrantFailed) else self._timeout_failure()
            if error.cause in (BAD_ANSWER, UNREACHABLE):
                self._usable_grants().doubt()
            self._failures.note(key, wish.subject, error)
            raise error from cause
        finally:
            current = self._is_current(key, me)
            if current:
                del self._flights[key]
        self._failures.succeeded(key)
        if current:
            self._remember(wish, token, requested)
        self._access.observe(wish.subject, self._access.monotonic() - began)
        return token

    def _is_current(self, key: FlightKey, task: asyncio.Task[object] | None) -> bool:
        """Whether the grant was neither forgotten nor replaced by another one."""
        flight = self._flights.get(key)
        return flight is not None and flight.task.is_run_by(task)

    def _remember(self, wish: _Wish, token: AccessToken, requested: frozenset[str]) -> None:
        person = wish.subject.person
        self._add_scopes(person, wish.step_up)
        self._cache.put(
            person,
            token,
            requested=requested,
            granted_at=self._access.monotonic(),
            after_refusal=wish.after_refusal,
        )

    def _usable_grants(self) -> TokenGrants:
        """Raises GrantFailed if the settings or the credential are unusable."""
        if isinstance(self._grants, GrantFailed):
            raise self._grants.again()
        return self._grants

    def _timeout_failure(self) -> GrantFailed:
        return GrantFailed(
            f"the authorization server gave no token within {GRANT_SECONDS:g} s: try again", cause=TIMEOUT
        )

    def _closed_failure(self) -> GrantFailed:
        return GrantFailed("the server was removed or its settings have changed: try again", cause=CLOSED)

    def _refused_failure(self) -> GrantFailed:
        return GrantFailed(
            "the server refuses each new token of the authorization server (401): check that the server trusts this "
            "issuer, and that resource, audience and scopes are those that it expects",
            cause=TOKEN_REFUSED,
        )


def _value_of(token: AccessToken | None) -> str:
    return "" if token is None else token.value


def _grants(
    settings: OAuthSettings, credential: Credential, access: TokenAccess, store: GrantStore | None
) -> TokenGrants:
    """Make what obtains the tokens. Raises GrantFailed if settings or credential are unusable."""
    check_settings(settings)
    if settings.grant == USER_KEY:
        return EnteredKeys(settings, access, MemoryGrants() if store is None else store)
    if settings.grant == USER_CONSENT:
        return ConsentedGrants(settings, credential, access, MemoryGrants() if store is None else store)
    if settings.resource_client is not None:
        return AssertionGrants(settings, settings.resource_client, credential, access)
    return DirectGrants(settings, credential, access)
