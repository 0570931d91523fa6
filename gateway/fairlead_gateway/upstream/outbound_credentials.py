"""Access tokens for the calls to one server: which token a call gets, and how a call without one is refused."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from typing import Final, TypeAlias

from fairlead_api.documents.oauth import AGENT, TOKEN_EXCHANGE, USER_KEY, OAuthSettings
from fairlead_api.meta import ServerKey
from fairlead_gateway.core.identity import Identity, SessionSubject, SubjectToken
from fairlead_gateway.core.outbound import CallCredential, CallCredentials
from fairlead_gateway.core.sign_in import SignInLinks
from fairlead_gateway.core.token_destinations import SETTING, TokenDestination
from fairlead_gateway.identity.persons import person_of, require_person
from fairlead_mcp.errors import McpError, Timeout
from fairlead_mcp.oauth.challenge import Challenge
from fairlead_mcp.oauth.errors import (
    GRANT_UNREADABLE,
    INSUFFICIENT_SCOPE,
    ISSUER_NOT_ALLOWED,
    NO_SUBJECT_TOKEN,
    SIGN_IN_REQUIRED,
    SUBJECT_TOKEN_EXPIRED,
    TIMEOUT,
    TOKEN_REFUSED,
    GrantFailed,
)
from fairlead_mcp.oauth.grants import session_token_type
from fairlead_mcp.oauth.subject import GATEWAY, TokenSubject
from fairlead_mcp.oauth.token_source import GRANT_SECONDS, TokenSource

MAX_PERSONS: Final = 8_192
"""Maximum number of users whose newest subject token is stored."""
GATEWAY_ITSELF: Final = Identity(kind="anonymous", principal="gateway")
"""The caller that audit entries name if the token is the gateway's own."""
ObserveOutcome: TypeAlias = Callable[[Identity, GrantFailed | None, float], None]
"""Called after each grant that gave a token, and for each call that got none. Parameters: the caller, the failure (None
for success), and the duration of the grant or of the call's wait in seconds. Must not raise."""
EXPIRED_TOKEN_SECONDS: Final = GRANT_SECONDS
"""Time for which an expired subject token stays stored, because a grant in progress may still need its caller's name.
"""
_FOREVER: Final = float("inf")
_OWN_IDENTITY: Final = "the server {server} is called with the caller's own identity, and {problem}"
_SIGN_IN_HELPS: Final = frozenset({SIGN_IN_REQUIRED, GRANT_UNREADABLE})
_SIGN_IN: Final = "call the gateway with a token of its identity provider"


def _ignore(identity: Identity, failure: GrantFailed | None, seconds: float) -> None:
    """Observe nothing."""


async def _no_session(identity: Identity, token_type: str) -> SubjectToken:
    """Stands for `SessionSubject` at a gateway that issues no tokens."""
    raise GrantFailed("the gateway has no sign-ins of clients", cause=NO_SUBJECT_TOKEN)


class ServerCredentials(CallCredentials):
    """Access tokens of one server, obtained from `source`.

    `allowed` lists the issuers and token URLs that callers' tokens may be sent to, besides the issuer of the token.
    `links` is needed for servers at which users sign in. `session_subject` returns the provider's token of a caller who
    has a token of this gateway. `clock` is in seconds since the epoch, `monotonic` is the clock of deadlines.
    """

    def __init__(
        self,
        server: ServerKey,
        settings: OAuthSettings,
        source: TokenSource,
        *,
        links: SignInLinks | None = None,
        observe: ObserveOutcome = _ignore,
        session_subject: SessionSubject = _no_session,
        allowed: Collection[str] = (),
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._key = server
        self._server = str(server)
        self._source = source
        self._links = links
        self._observe = observe
        self._session_subject = session_subject
        self._session_type = session_token_type(settings)
        self._destination = TokenDestination(settings, allowed)
        self._clock = clock
        self._monotonic = monotonic
        self.exchanges = settings.grant == TOKEN_EXCHANGE
        """Whether the caller's own token is exchanged for an access token."""
        self.needs_consent = settings.of_person
        """Whether callers need to sign in at the server, or to enter a key for it."""
        self._has_keys = settings.grant == USER_KEY
        self._per_agent = settings.grants_per == AGENT
        self._newest_identities: OrderedDict[bytes, Identity] = OrderedDict()
        """By person: the identity with the newest subject token. Requests that outlive their first token use it."""
        self._next_expiry = _FOREVER
        """Earliest `expires_at` in `_newest_identities`, in seconds since the epoch."""

    def person(self, identity: Identity) -> bytes:
        if self.needs_consent:
            return person_of(identity)
        if not self.exchanges:
            return b""
        return identity.principal.encode("utf-8", "surrogatepass") if self._per_agent else identity.person

    def result_scope(self, identity: Identity) -> bytes | None:
        person = self.person(identity)
        if not self.needs_consent:
            return person
        token = self._source.find_cached(TokenSubject(person)) if person else None
        return None if token is None else person + token.header_line

    def find_cached(self, identity: Identity) -> CallCredential | None:
        if not (self.exchanges or self.needs_consent):
            token = self._source.find_cached(GATEWAY)
            return None if token is None else CallCredential(b"", token)
        try:
            subject = self._subject_of(identity)
        except GrantFailed as failure:
            self._observe(identity, failure, 0.0)
            raise
        token = self._source.find_cached(subject)
        return None if token is None else CallCredential(subject.person, token)

    async def acquire(
        self,
        identity: Identity,
        deadline: float,
        refused: CallCredential | None = None,
        challenge: Challenge | None = None,
    ) -> CallCredential:
        started_at = self._monotonic()
        try:
            return await self._acquire(identity, deadline, refused, challenge)
        except (GrantFailed, Timeout) as error:
            failure = error if isinstance(error, GrantFailed) else GrantFailed(str(error), cause=TIMEOUT)
            self._observe(self._caller(identity), failure, self._monotonic() - started_at)
            raise

    def refusal_error(self, identity: Identity, challenge: Challenge) -> McpError:
        failure = self._describe_refusal(challenge)
        if self.needs_consent and failure.cause == TOKEN_REFUSED:
            self._source.note_refusal(self.person(identity))
        self._observe(self._caller(identity), failure, 0.0)
        return failure

    def report_grant(self, subject: TokenSubject, seconds: float) -> None:
        """Report a grant that gave a token after `seconds`."""
        # a grant belongs to no single call; the caller reported is the one whose token was exchanged, if still stored
        self._observe(self._newest_identities.get(subject.person, GATEWAY_ITSELF), None, seconds)

    def forget(self, person: bytes, reason: str = "") -> None:
        """Drop the person's access token. `reason` says to the person why the grant ended, if it did."""
        self._source.forget(person)
        if reason:
            self._source.note_end(person, reason)

    async def review(self, person: bytes, *, in_use: bool) -> None:
        """Drop the person's access token if its grant has ended. `in_use`: whether the person has sessions with the
        server. Raises GrantStoreError if the store cannot be read.
        """
        await self._source.review(person, in_use=in_use)

    async def aclose(self) -> None:
        self._newest_identities.clear()
        await self._source.aclose()

    # Internals

    async def _acquire(
        self, identity: Identity, deadline: float, refused: CallCredential | None, challenge: Challenge | None
    ) -> CallCredential:
        subject = GATEWAY
        if self.needs_consent:
            subject = self._subject_of(identity)
            self._note_caller(subject.person, identity)
        elif self.exchanges:
            person = self.person(identity)
            if identity.expires_at <= self._clock():  # the request is a stream or task, which outlives its first token
                token = self._source.find_cached(TokenSubject(person))
                if token is not None and (refused is None or token.value != refused.token.value):
                    return CallCredential(person, token)
            identity = self._newest_of(identity, person)
            subject = self._subject(identity, person)
        try:
            async with asyncio.timeout(max(deadline - self._monotonic(), 0) if deadline < _FOREVER else None):
                if self.exchanges and identity.session:
                    provider_token = await self._session_subject(identity, self._session_type)
                    value, expires_at = provider_token.value, provider_token.expires_at
                    subject = TokenSubject(subject.person, value, expires_at, self._session_type)
                token = await self._source.obtain(
                    subject, refused_token=None if refused is None else refused.token, challenge=challenge
                )
        except TimeoutError as timeout:
            text = f"the authorization server gave no token for the server {self._server} before the call's deadline"
            raise Timeout(text, sent=False) from timeout
        except GrantFailed as failure:
            error = failure.at_server(self._server)
            if self.needs_consent and self._links is not None and failure.cause in _SIGN_IN_HELPS:
                try:
                    error.sign_in_url = await self._links.link(identity, self._key, challenge)
                except GrantFailed as link_error:
                    error = link_error.at_server(self._server)
            raise error from failure
        return CallCredential(subject.person, token)

    async def valid_line(self, person: bytes, deadline: float, refused: bytes = b"") -> bytes:
        token = self._source.find_cached(TokenSubject(person))
        if token is not None and token.header_line != refused:
            return token.header_line
        identity = self._newest_identities.get(person) if self.exchanges or self.needs_consent else GATEWAY_ITSELF
        if identity is None or identity.expires_at <= self._clock():
            raise self._expired_error()  # not observed, because no call fails by it
        credential = await self.acquire(identity, deadline, None if token is None else CallCredential(person, token))
        return credential.line

    def note(self, identity: Identity) -> None:
        if self.exchanges:
            self._remember(identity, self.person(identity))

    def _describe_refusal(self, challenge: Challenge) -> GrantFailed:
        if self._has_keys:
            text = f"the server {self._server} refuses the caller's key: enter another one with `fairlead login`"
            return GrantFailed(text, cause=TOKEN_REFUSED)
        if not challenge.lacks_scopes:
            hint = f"; `fairlead login {self._server}` signs in again" if self.needs_consent else ""
            text = (
                f"the server {self._server} refuses the access token, also a new one (401): check that the "
                f"authorization server issues tokens for it (issuer, audience and resource){hint}"
            )
            return GrantFailed(text, cause=TOKEN_REFUSED)
        scopes = " ".join(challenge.scopes)
        text = (
            f"the server {self._server} refuses the access token, as it lacks a scope{f' ({scopes})' if scopes else ''}"
            ", which the authorization server did not grant: allow it to the gateway's client and to the caller"
        )
        return GrantFailed(text, cause=INSUFFICIENT_SCOPE)

    def _caller(self, identity: Identity) -> Identity:
        """The identity that the access token is issued for: the caller, or the gateway itself."""
        return identity if self.exchanges or self.needs_consent else GATEWAY_ITSELF

    def _subject_of(self, identity: Identity) -> TokenSubject:
        """The caller as subject of the token source. Raises GrantFailed for a caller that cannot get a token."""
        if self.needs_consent:
            try:
                return TokenSubject(require_person(identity))
            except GrantFailed as failure:
                raise failure.at_server(self._server) from failure
        return self._subject(identity, self.person(identity))

    def _note_caller(self, person: bytes, identity: Identity) -> None:
        """Remember a caller whose token is not exchanged, for the gateway's own messages and for audit entries."""
        self._newest_identities[person] = identity
        self._newest_identities.move_to_end(person)
        if len(self._newest_identities) > MAX_PERSONS:
            self._newest_identities.popitem(last=False)

    def _subject(self, identity: Identity, person: bytes) -> TokenSubject:
        """The caller as subject of a token exchange; the token is missing if the caller has a session of this gateway.
        Raises GrantFailed for a caller without a token, or with a token that may not be sent to the authorization
        server.
        """
        token = identity.subject_token
        if not identity.session and (token is None or not token.value):
            raise self._lacks_token(identity)
        issuer = identity.claims.get("iss")
        if not self._destination.may_receive(issuer):
            raise self._may_not_receive(issuer)
        return TokenSubject(person, expires_at=identity.expires_at) if token is None else token.subject(person)

    def _newest_of(self, identity: Identity, person: bytes) -> Identity:
        """`identity`, or the person's newest identity if `identity` has expired. The newer of both is remembered.

        Raises GrantFailed if both have expired.
        """
        now = self._clock()
        newest = self._remember(identity, person)
        if identity.expires_at > now:
            return identity
        if newest.expires_at <= now:
            raise self._expired_error()
        return newest

    def _remember(self, identity: Identity, person: bytes) -> Identity:
        """Remember `identity` unless a newer identity of the person is stored. Returns the newer one."""
        newest = self._newest_identities.pop(person, None)
        if newest is None or (_has_token(identity) and identity.expires_at >= newest.expires_at):
            newest = identity
        if _has_token(newest):
            self._newest_identities[person] = newest
            self._next_expiry = min(self._next_expiry, newest.expires_at)
            if len(self._newest_identities) > MAX_PERSONS:
                self._newest_identities.popitem(last=False)
        self._drop_expired(self._clock())
        return newest

    def _expired_error(self) -> GrantFailed:
        sentence = self._sentence("the caller's token has expired", "sign in again")
        return GrantFailed(sentence, cause=SUBJECT_TOKEN_EXPIRED)

    def _drop_expired(self, now: float) -> None:
        """Drop the tokens that expired more than EXPIRED_TOKEN_SECONDS ago."""
        oldest = now - EXPIRED_TOKEN_SECONDS
        if self._next_expiry > oldest:
            return
        for person in [person for person, identity in self._newest_identities.items() if identity.expires_at <= oldest]:
            del self._newest_identities[person]
        self._next_expiry = min(
            (identity.expires_at for identity in self._newest_identities.values()), default=_FOREVER
        )

    def _lacks_token(self, identity: Identity) -> GrantFailed:
        if identity.kind == "anonymous":
            return GrantFailed(self._sentence("this call has none", _SIGN_IN), cause=NO_SUBJECT_TOKEN)
        if identity.kind == "apiKey":
            problem = "an API key cannot be exchanged for a token of the server"
            return GrantFailed(self._sentence(problem, f"{_SIGN_IN} instead"), cause=NO_SUBJECT_TOKEN)
        if identity.issued_here:
            problem = "a token that this gateway issued without a sign-in at the provider cannot be exchanged"
            return GrantFailed(self._sentence(problem, f"{_SIGN_IN} instead"), cause=NO_SUBJECT_TOKEN)
        problem = "the gateway does not have the caller's token any more"
        return GrantFailed(self._sentence(problem, "connect again"), cause=NO_SUBJECT_TOKEN)

    def _may_not_receive(self, issuer: object) -> GrantFailed:
        of_issuer = f" of {issuer}" if isinstance(issuer, str) else ""
        problem = f"the caller's token{of_issuer} may not be sent to {self._destination.name}"
        advice = (
            "set issuer of the server to the token's issuer, without tokenURL, or have the installation add "
            f"{self._destination.name} to {SETTING}"
        )
        return GrantFailed(self._sentence(problem, advice), cause=ISSUER_NOT_ALLOWED)

    def _sentence(self, problem: str, advice: str) -> str:
        return f"{_OWN_IDENTITY.format(server=self._server, problem=problem)}: {advice}"


def _has_token(identity: Identity) -> bool:
    """Whether there is a token that can be exchanged for the caller."""
    return identity.subject_token is not None or bool(identity.session)
