"""Provides access tokens for one server: from the cache, or by a grant that all concurrent callers of a person share.

    source = TokenSource(settings, credential, access)
    token = source.find_cached(subject) or await source.obtain(subject)
    ...                                                       # the server answers 401
    token = await source.obtain(subject, refused_token=token, challenge=Challenge.parse(field))

With `userConsent`, tokens are renewed by the person's stored grant, whose key is the person and `TokenAccess.server`;
`consent.ConsentFlow` makes that grant. With `userKey`, the token is a key that the person has entered and that is
stored as a grant (`entered_keys`).

A source belongs to one event loop and to one credential: a changed credential requires a new source. There are no
timers; a grant runs while a caller waits for it. Each grant sends requests of its own, so persons do not delay each
other.
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
from fairlead_mcp.oauth.grant_failures import LONGEST_PAUSE, GrantFailures, RequestKey
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
"""Time limit of a whole grant, including discovery."""
_ATTEMPTS: Final = 3
"""Maximum number of grants for which one caller waits. A further grant is necessary if the last one failed for another
subject token of the person, or for scopes that the person no longer gets.
"""
REFUSED_SECONDS: Final = 600.0
"""Time for which `refuses` reports a refused token of a person who makes no calls."""
_NO_SCOPES: Final[frozenset[str]] = frozenset()


class _TokenNeed(NamedTuple):
    """Requirements of a caller for a token."""

    subject: TokenSubject
    step_up: frozenset[str]
    """Scopes of the refused token and those that the server requires in addition; empty if it requires none."""
    refused_token: AccessToken | None
    """Token that the server has refused."""
    after_refusal: bool
    """Whether the new token replaces a refused one."""
    resource_metadata: str
    """URL in the server's challenge; empty if there is none."""
    for_call: bool = True
    """See `GrantRequest.for_call`."""


class _PendingGrant(NamedTuple):
    """A grant in progress."""

    task: SharedTask[AccessToken]
    subject: int
    """Hash of the subject token."""
    extra_scopes: frozenset[str]
    """Requested scopes that challenges named earlier."""


class TokenSource:
    """Access tokens for one server. `obtain` raises the errors of settings and credential."""

    def __init__(
        self,
        settings: OAuthSettings,
        credential: Credential,
        access: TokenAccess,
        store: GrantStore | None = None,
    ) -> None:
        """`store` contains the grants of users; None: a new store in memory."""
        self._settings = settings
        self._access = access
        self._for_gateway = settings.grant == CLIENT_CREDENTIALS
        self._cache = TokenCache(access.max_tokens, access.clock)
        self._get = self._cache.get  # bound once for speed, because each call uses it
        self._failures = GrantFailures(access.max_tokens, access.monotonic)
        self._extra_scopes: OrderedDict[bytes, frozenset[str]] = OrderedDict()
        """Scopes by person that are requested in addition to the scopes of the settings: scopes that the server
        required and the person got, and scopes that the server named with a 401.
        """
        self._refused_tokens: OrderedDict[bytes, tuple[str, float]] = OrderedDict()
        """Last refused new token of each person, with the monotonic time of the refusal."""
        self._pending: dict[RequestKey, _PendingGrant] = {}
        self._closed = False
        self._grants: TokenGrants | GrantFailed
        """Obtains the tokens; or the error of the settings or credential."""
        try:
            self._grants = _make_grants(settings, credential, access, store)
        except GrantFailed as error:
            self._grants = error

    def __repr__(self) -> str:
        return f"<TokenSource of {self._access.server_url}: {len(self._cache)} tokens, {len(self._pending)} grants>"

    def find_cached(self, subject: TokenSubject) -> AccessToken | None:
        """The person's cached token; None if there is no valid one."""
        if self._for_gateway:
            return self._get(GATEWAY.person, GATEWAY.expires_at)
        return self._get(subject.person, subject.expires_at)

    async def obtain(
        self,
        subject: TokenSubject,
        *,
        refused_token: AccessToken | None = None,
        challenge: Challenge | None = None,
        for_call: bool = True,
    ) -> AccessToken:
        """A valid token of the person: from the cache, or by a grant. Raises GrantFailed.

        `refused_token` is a token that the server refused with 401, or with 403 and a `challenge` that requires more
        scopes. It is not returned again, but a newer token in the cache is.

        After a 401, the person's tokens get the scopes of the challenge if the settings have none. After a 403, they
        get the scopes of the challenge in any case, and the refused token remains in the cache until it is replaced.

        With `for_call` False, the person's grant does not count as used.
        """
        need = self._determine_need(GATEWAY if self._for_gateway else subject, refused_token, challenge)
        need = need._replace(for_call=for_call)
        for attempt in range(_ATTEMPTS):
            token = self._cache.get(need.subject.person, need.subject.expires_at)
            if token is not None and self._satisfies(token, need):
                return token
            pending = self._start_or_join(need)
            try:
                return await pending.task.result()
            except TaskStopped:
                raise self._closed_failure() from None
            except GrantFailed as error:
                repeat = self._must_repeat(error, pending, need)
                if not repeat or attempt == _ATTEMPTS - 1:
                    raise error.copy() from error
        raise AssertionError("the last attempt returns or raises")

    def note_refusal(self, person: bytes) -> None:
        """Record that the server refuses the person's token, although it is new."""
        entry = self._cache.entry(person)
        if entry is not None:
            self._refused_tokens[person] = entry.token.value, self._access.monotonic()
            self._refused_tokens.move_to_end(person)
            if len(self._refused_tokens) > self._access.max_tokens:
                self._refused_tokens.popitem(last=False)

    def sign_in_problem(self, person: bytes, grant: StoredGrant | None) -> str:
        """Why a person has to sign in before a call; empty if that is not necessary. `grant` is the stored grant."""
        if self.refuses(person):
            return f"{self._access.server} refuses the access tokens of your sign-in"
        if self.find_cached(TokenSubject(person)) is not None or isinstance(self._grants, GrantFailed):
            return ""
        return self._grants.sign_in_problem(person, grant)

    def refuses(self, person: bytes) -> bool:
        """Whether the server has refused the person's newest token within the last REFUSED_SECONDS."""
        value, at = self._refused_tokens.get(person, ("", 0.0))
        if not value or at + REFUSED_SECONDS <= self._access.monotonic():
            return False
        token = self.find_cached(TokenSubject(person))
        return token is None or token.value == value

    def forget(self, person: bytes) -> None:
        """Forget everything about a person. A grant in progress is completed for its waiters, but not cached."""
        self._cache.forget(person)
        self._failures.forget(person)
        self._extra_scopes.pop(person, None)
        self._refused_tokens.pop(person, None)
        if not isinstance(self._grants, GrantFailed):
            self._grants.forget(person)
        for key in [key for key in self._pending if key[0] == person]:
            del self._pending[key]
        self._access.on_forget(person)

    def note_end(self, person: bytes, reason: str) -> None:
        """Remember why the person's grant ended, until the person signs in again."""
        if not isinstance(self._grants, GrantFailed):
            self._grants.note_end(person, reason)

    def adopt(self, person: bytes, token: AccessToken, grant: StoredGrant | None = None) -> None:
        """Use a token that the person has just obtained by consent, and forget earlier failures. `grant` is the stored
        grant; None if it could not be stored.
        """
        self.forget(person)
        if grant is not None and not isinstance(self._grants, GrantFailed):
            # noted now: when the store is read later, it may have a grant for another account of the person
            self._grants.note_consent(person, grant)
        requested_scopes = token.scopes.union(self._settings.scopes)
        self._cache.put(person, token, requested_scopes=requested_scopes, granted_at=self._access.monotonic())

    async def review(self, person: bytes, *, in_use: bool = False) -> None:
        """Check a person's token after the store has reported a change of the person's grant.

        If the consent of the token is no longer stored, because the person has signed out or signed in again,
        everything about the person is forgotten; otherwise only earlier failures. The store is read only if the person
        has a token here, a token is being requested, or earlier tokens are `in_use` by open sessions with the server.
        Raises GrantStoreError if the store cannot be read; the method should then be called again.
        """
        in_use = in_use or person in self._refused_tokens
        if not in_use and self._cache.entry(person) is None and all(key[0] != person for key in self._pending):
            self._failures.forget(person)
            return
        token = self._cache.entry(person)
        while isinstance(self._grants, GrantFailed) or not await self._grants.has_consent(person):
            previous, token = token, self._cache.entry(person)
            if token is previous:  # otherwise, the stored grant may have been read before the token was issued
                self.forget(person)
                return
        self._failures.forget(person)

    async def aclose(self) -> None:
        """Cancel all grants, forget all tokens and close the connections."""
        self._closed = True
        tasks = [pending.task for pending in self._pending.values()]
        self._pending.clear()
        for task in tasks:
            await task.aclose()
        if not isinstance(self._grants, GrantFailed):
            await self._grants.aclose()
        self._cache.clear()

    def _determine_need(
        self,
        subject: TokenSubject,
        refused_token: AccessToken | None,
        challenge: Challenge | None,
    ) -> _TokenNeed:
        """Requirements for the next token, after a refusal of the last one. Raises GrantFailed if no grant can help."""
        if self._closed:
            raise self._closed_failure()
        person = subject.person
        metadata = "" if challenge is None else challenge.resource_metadata
        if challenge is not None and challenge.lacks_scopes:
            step_up = self._required_scopes(person, refused_token, challenge)
            return _TokenNeed(subject, step_up, refused_token, after_refusal=False, resource_metadata=metadata)
        dropped_entry = None if refused_token is None else self._cache.drop(person, refused_token)
        if dropped_entry is not None and dropped_entry.after_refusal:
            age = self._access.monotonic() - dropped_entry.granted_at
            if age < LONGEST_PAUSE:
                error = self._refused_failure()
                self._failures.note_failure((person, self._all_scopes(person, _NO_SCOPES)), subject, error)
                raise error
        if challenge is not None and not self._settings.scopes and not self._settings.of_person:
            self._add_scopes(person, frozenset(challenge.scopes))
        after_refusal = (
            dropped_entry is not None and self._settings.grant != USER_KEY
        )  # a grant cannot issue another key
        return _TokenNeed(subject, _NO_SCOPES, refused_token, after_refusal, metadata)

    def _add_scopes(self, person: bytes, scopes: frozenset[str]) -> None:
        """Request additional scopes for a person from now on. They replace earlier ones if they would be too many."""
        if not scopes:
            return
        all_scopes = self._extra_scopes.get(person, _NO_SCOPES) | scopes
        self._extra_scopes[person] = all_scopes if fit_one_token(all_scopes) else scopes
        self._extra_scopes.move_to_end(person)
        if len(self._extra_scopes) > self._access.max_tokens:
            self._extra_scopes.popitem(last=False)

    def _required_scopes(
        self, person: bytes, refused_token: AccessToken | None, challenge: Challenge
    ) -> frozenset[str]:
        """Scopes of the next token after a 403. Raises GrantFailed if the server would refuse that token too."""
        required_scopes = frozenset(challenge.scopes)
        present_scopes = _NO_SCOPES if refused_token is None else refused_token.scopes
        entry = self._cache.entry(person)
        is_cached = entry is not None and refused_token is not None and entry.token.value == refused_token.value
        requested_scopes = entry.requested_scopes if entry is not None and is_cached else _NO_SCOPES
        if not required_scopes:
            problem = "does not say which"
        elif required_scopes <= requested_scopes:
            problem = f"{' '.join(challenge.scopes)[:200]} was already requested, and is not enough"
        elif not fit_one_token(self._all_scopes(person, present_scopes | required_scopes)):
            problem = "one token cannot have so many"
        else:
            return present_scopes | required_scopes
        raise GrantFailed(
            f"the server requires a token with more scopes, but {problem}: give the person these rights at the "
            "authorization server, or correct the server's scopes",
            cause=INSUFFICIENT_SCOPE,
        )

    def _satisfies(self, token: AccessToken, need: _TokenNeed) -> bool:
        """Whether a cached token differs from the refused one, and the scopes that the server requires were requested
        for it.
        """
        if need.refused_token is not None and token.value == need.refused_token.value:
            return False
        entry = self._cache.entry(need.subject.person)
        return not need.step_up or (entry is not None and need.step_up <= entry.requested_scopes)

    def _all_scopes(self, person: bytes, step_up: frozenset[str]) -> frozenset[str]:
        """All scopes of a request."""
        return frozenset(self._settings.scopes) | step_up | self._extra_scopes.get(person, _NO_SCOPES)

    def _start_or_join(self, need: _TokenNeed) -> _PendingGrant:
        """The grant in progress, or a new one. Raises GrantFailed if one failed shortly before."""
        self._require_grants().check(need.subject)
        person = need.subject.person
        key = (person, self._all_scopes(person, need.step_up))
        pending = self._pending.get(key)
        if pending is not None and pending.task.running:
            return pending
        failure = self._failures.find(key, need.subject)
        if failure is not None:
            raise failure
        task = SharedTask(self._run_grant(need, key), f"grant for {self._access.server_url}")
        extra_scopes = self._extra_scopes.get(person, _NO_SCOPES)
        pending = self._pending[key] = _PendingGrant(task, hash(need.subject.token), extra_scopes)
        return pending

    def _must_repeat(self, error: GrantFailed, pending: _PendingGrant, need: _TokenNeed) -> bool:
        """Whether another grant may succeed: with the caller's own subject token, or without extra scopes."""
        if error.cause == INVALID_SCOPE and pending.extra_scopes and not need.step_up:
            if self._extra_scopes.get(need.subject.person) == pending.extra_scopes:
                del self._extra_scopes[need.subject.person]
            return True
        return not error.for_everybody and pending.subject != hash(need.subject.token)

    async def _run_grant(self, need: _TokenNeed, key: RequestKey) -> AccessToken:
        """Obtain a token and cache it. Raises GrantFailed."""
        requested_scopes = key[1]
        began = self._access.monotonic()
        current_task = asyncio.current_task()
        try:
            async with asyncio.timeout(GRANT_SECONDS):
                request = GrantRequest(
                    need.subject,
                    requested_scopes,
                    need.step_up,
                    need.resource_metadata,
                    for_call=need.for_call,
                    refused_token="" if need.refused_token is None else need.refused_token.value,
                )
                token = await self._require_grants().token(request)
        except (GrantFailed, TimeoutError) as cause:
            error = cause if isinstance(cause, GrantFailed) else self._timeout_failure()
            if error.cause in (BAD_ANSWER, UNREACHABLE):
                self._require_grants().invalidate_discovery()
            self._failures.note_failure(key, need.subject, error)
            raise error from cause
        finally:
            is_current = self._is_current(key, current_task)
            if is_current:
                del self._pending[key]
        self._failures.note_success(key)
        if is_current:
            self._cache_token(need, token, requested_scopes)
        self._access.observe(need.subject, self._access.monotonic() - began)
        return token

    def _is_current(self, key: RequestKey, task: asyncio.Task[object] | None) -> bool:
        """Whether the grant that `task` runs was neither forgotten nor replaced by another grant."""
        pending = self._pending.get(key)
        return pending is not None and pending.task.is_run_by(task)

    def _cache_token(self, need: _TokenNeed, token: AccessToken, requested_scopes: frozenset[str]) -> None:
        person = need.subject.person
        self._add_scopes(person, need.step_up)
        self._cache.put(
            person,
            token,
            requested_scopes=requested_scopes,
            granted_at=self._access.monotonic(),
            after_refusal=need.after_refusal,
        )

    def _require_grants(self) -> TokenGrants:
        """The implementation that obtains tokens. Raises GrantFailed if the settings or credential are unusable."""
        if isinstance(self._grants, GrantFailed):
            raise self._grants.copy()
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
            "issuer, and that it expects these values of resource, audience and scopes",
            cause=TOKEN_REFUSED,
        )


def _make_grants(
    settings: OAuthSettings, credential: Credential, access: TokenAccess, store: GrantStore | None
) -> TokenGrants:
    """The implementation of the grant in the settings. Raises GrantFailed if settings or credential are unusable."""
    check_settings(settings)
    if settings.grant == USER_KEY:
        return EnteredKeys(settings, access, MemoryGrants() if store is None else store)
    if settings.grant == USER_CONSENT:
        return ConsentedGrants(settings, credential, access, MemoryGrants() if store is None else store)
    if settings.resource_client is not None:
        return AssertionGrants(settings, settings.resource_client, credential, access)
    return DirectGrants(settings, credential, access)
