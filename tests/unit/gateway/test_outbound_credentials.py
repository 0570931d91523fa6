"""Access tokens of callers at one server, and the errors of callers without one."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from fairlead_api.documents.oauth import (
    AGENT,
    CLIENT_CREDENTIALS,
    PERSON,
    TOKEN_EXCHANGE,
    USER_CONSENT,
    OAuthSettings,
)
from fairlead_api.meta import ServerKey
from fairlead_gateway.calls.questions.server_requests import ServerRequests
from fairlead_gateway.core.identity import ANONYMOUS, LOCAL, Identity, ServiceAccount, SubjectToken
from fairlead_gateway.core.outbound import CallCredential
from fairlead_gateway.identity.request_authentication import Identities
from fairlead_gateway.upstream.outbound_credentials import EXPIRED_TOKEN_SECONDS, ServerCredentials
from fairlead_gateway.upstream.session_authorization import SessionAuthorization
from fairlead_mcp.errors import Timeout
from fairlead_mcp.masking import Mask
from fairlead_mcp.messages import Message
from fairlead_mcp.oauth.access_token import AccessToken
from fairlead_mcp.oauth.challenge import INSUFFICIENT_SCOPE, Challenge
from fairlead_mcp.oauth.errors import (
    CONFIGURATION,
    GRANT_STORE,
    GRANT_UNREADABLE,
    INVALID_CLIENT,
    ISSUER_NOT_ALLOWED,
    NO_SUBJECT_TOKEN,
    SIGN_IN_REQUIRED,
    SUBJECT_TOKEN_EXPIRED,
    TIMEOUT,
    TOKEN_REFUSED,
    GrantFailed,
)
from fairlead_mcp.oauth.subject import TokenSubject
from virtualtime import HandClock

FOREVER = float("inf")
ISSUER = "https://issuer"


class Source:
    """Source of tokens that are named after the user and come from no provider."""

    def __init__(self) -> None:
        self.tokens: dict[bytes, AccessToken] = {}
        self.requests: list[tuple[TokenSubject, AccessToken | None, Challenge | None]] = []
        self.hangs = False
        self.fails = ""
        """Cause of the failure to get a token; empty: requests succeed."""

    def find_cached(self, subject: TokenSubject) -> AccessToken | None:
        return self.tokens.get(subject.person)

    async def obtain(
        self, subject: TokenSubject, *, refused_token: AccessToken | None = None, challenge: Challenge | None = None
    ) -> AccessToken:
        self.requests.append((subject, refused_token, challenge))
        if self.hangs:
            await asyncio.Event().wait()
        if self.fails:
            raise GrantFailed("no", cause=self.fails)
        token = AccessToken.bearer(f"for-{subject.person.decode()}-{len(self.requests)}", FOREVER, frozenset())
        self.tokens[subject.person] = token
        return token


WANTS_SCOPES = Challenge(INSUFFICIENT_SCOPE, ("a", "b"))


def credentials(
    source: Source,
    *,
    grant: str = TOKEN_EXCHANGE,
    per: str = PERSON,
    now: float = 100.0,
    token_url: str = "",
    **more: Any,
) -> ServerCredentials:
    settings = OAuthSettings(grant=grant, client_id="gateway", issuer=ISSUER, token_url=token_url, grants_per=per)
    tokens: Any = source
    return ServerCredentials(
        ServerKey("default", "box"), settings, tokens, clock=lambda: now, monotonic=lambda: 0.0, **more
    )


def of_jwt(
    agent: str = "npc",
    *,
    ends: float = 200.0,
    token: str = "own-token",
    subject: str = "alice",
    issuer: str = ISSUER,
) -> Identity:
    held = SubjectToken(token, ends) if token else None
    return Identity(
        kind="jwt",
        principal=f"jwt:{issuer}#{subject}/{agent}",
        agent=agent,
        claims={"iss": issuer},
        expires_at=ends,
        subject_token=held,
    )


def test_a_person_is_the_subject_of_an_issuer_whatever_the_agent() -> None:
    assert of_jwt("planner").person == of_jwt("coder").person == b"jwt:https://issuer#alice"
    assert of_jwt(subject="bob").person != of_jwt().person
    made = Identity(kind="apiKey", principal=of_jwt().principal, is_created_key=True)
    assert made.person == of_jwt().person
    assert Identity(kind="apiKey", principal="key:robot").person == b"key:robot"
    assert Identity(kind="serviceAccount", principal="sa:a/b").person == b"sa:a/b"
    assert ANONYMOUS.person == b""


def test_agents_are_kept_apart_where_the_server_says_so() -> None:
    together, apart = credentials(Source()), credentials(Source(), per=AGENT)
    agents = [of_jwt("planner"), of_jwt("coder")]
    assert len({together.person(agent) for agent in agents}) == 1
    assert len({apart.person(agent) for agent in agents}) == 2
    own = credentials(Source(), grant=CLIENT_CREDENTIALS)
    assert {own.person(agent) for agent in (*agents, ANONYMOUS)} == {b""}


@pytest.mark.parametrize(
    ("identity", "words"),
    [
        (ANONYMOUS, "this call has none"),
        (Identity(kind="apiKey", principal="key:robot"), "an API key cannot be exchanged"),
        (
            Identity(kind="jwt", principal="jwt:https://idp#ada/", issued_here=True),
            "this gateway issued",
        ),
        (of_jwt(token=""), "connect again"),
    ],
)
async def test_a_caller_without_a_token_is_told_what_to_do(identity: Identity, words: str) -> None:
    source = Source()
    with pytest.raises(GrantFailed, match=words) as refused:
        credentials(source).find_cached(identity)
    assert refused.value.cause == NO_SUBJECT_TOKEN
    assert "default/box" in str(refused.value)
    with pytest.raises(GrantFailed, match=words):
        await credentials(source).acquire(identity, FOREVER)
    assert source.requests == []


async def test_a_token_that_may_not_be_sent_there_reaches_no_source() -> None:
    source = Source()
    for credential in (credentials(source, token_url="https://evil/token"), credentials(source)):
        foreign = of_jwt(issuer="https://other")
        with pytest.raises(GrantFailed) as refused:
            credential.find_cached(foreign)
        with pytest.raises(GrantFailed):
            await credential.acquire(foreign, FOREVER)
        assert refused.value.cause == ISSUER_NOT_ALLOWED
    assert source.requests == []


async def test_the_refusal_of_a_destination_says_what_to_set() -> None:
    with pytest.raises(GrantFailed) as refused:
        credentials(Source(), token_url="https://evil/token").find_cached(of_jwt())
    assert str(refused.value) == (
        "the server default/box is called with the caller's own identity, and the caller's token of https://issuer may "
        "not be sent to https://evil/token: set issuer of the server to the token's issuer, without tokenURL, or have "
        "the installation add https://evil/token to FAIRLEAD_TOKEN_EXCHANGE_ALLOWED "
        "(chart: gateway.settings.tokenExchangeAllowed)"
    )
    allowing = credentials(Source(), token_url="https://evil/token", allowed=("https://evil/token",))
    assert (await allowing.acquire(of_jwt(), FOREVER)).token.value == "for-jwt:https://issuer#alice-1"


async def test_a_stream_goes_on_with_the_newest_token_of_its_person() -> None:
    source = Source()
    tokens = credentials(source, now=300.0)
    old, new = of_jwt(ends=250.0, token="old"), of_jwt(ends=400.0, token="new")
    with pytest.raises(GrantFailed) as expired:
        await tokens.acquire(old, FOREVER)
    assert expired.value.cause == SUBJECT_TOKEN_EXPIRED
    first = await tokens.acquire(new, FOREVER)
    assert (await tokens.acquire(old, FOREVER)).line == first.line
    source.tokens.clear()
    await tokens.acquire(old, FOREVER, first, Challenge())
    assert [subject.token for subject, _, _ in source.requests] == ["new", "new"]


async def test_messages_of_the_gateway_get_a_new_token_once_none_is_cached_or_the_server_refuses_it() -> None:
    source = Source()
    tokens = credentials(source)
    first = await tokens.acquire(of_jwt(), FOREVER)
    authorization = SessionAuthorization(tokens, first.person, first.line)
    assert await authorization.valid_line(FOREVER) == first.line
    second = await authorization.valid_line(FOREVER, first.line)
    assert source.requests[-1][1] == first.token
    source.tokens.clear()
    assert authorization.line == second, "the newest that is known"
    third = await authorization.valid_line(FOREVER)
    assert len({first.line, second, third}) == 3
    assert await SessionAuthorization().valid_line(FOREVER, b"") == b""


async def test_messages_of_the_gateway_go_with_the_newest_token_of_a_person_whose_own_has_expired() -> None:
    source = Source()
    tokens = credentials(source, now=150.0)
    first = await tokens.acquire(of_jwt(ends=200.0, token="old"), FOREVER)
    late = credentials(source, now=300.0)
    late.note(of_jwt(ends=200.0, token="old"))
    source.tokens.clear()
    authorization = SessionAuthorization(late, first.person, first.line)
    assert await authorization.valid_line(FOREVER) == first.line
    with pytest.raises(GrantFailed) as expired:
        await authorization.valid_line(FOREVER, first.line)
    assert expired.value.cause == SUBJECT_TOKEN_EXPIRED
    late.note(of_jwt(ends=400.0, token="new"))
    assert await authorization.valid_line(FOREVER, first.line) != first.line
    assert source.requests[-1][0].token == "new"


async def test_a_client_that_answers_a_question_brings_its_newest_token() -> None:
    source, bodies = Source(), list[bytes]()
    tokens = credentials(source, now=300.0)
    sessions: Any = None
    requests = ServerRequests(sessions, lambda session, update: False)
    ident = requests.ask(b"session", b"1", bodies.append, tokens)
    response = Message(id=Raw(ident), result=Raw(b"{}"))
    assert requests.take_answer(b"session", response, of_jwt(ends=400.0, token="new"))
    assert len(bodies) == 1
    await tokens.valid_line(of_jwt().person, FOREVER)
    assert source.requests[-1][0].token == "new"


async def test_a_token_of_a_person_is_dropped_soon_after_its_expiry() -> None:
    clock = HandClock(100.0)
    settings = OAuthSettings(grant=TOKEN_EXCHANGE, client_id="gateway", token_url="http://x")
    source: Any = Source()
    tokens = ServerCredentials(
        ServerKey("default", "box"), settings, source, allowed=("http://x",), clock=clock, monotonic=lambda: 0.0
    )
    for person, ends in (("alice", 200.0), ("bob", 500.0), ("carol", 150.0)):
        await tokens.acquire(of_jwt(ends=ends, token=f"of {person}", subject=person), FOREVER)
    clock.now = 200.0 + EXPIRED_TOKEN_SECONDS
    await tokens.acquire(of_jwt(ends=600.0, token="of dora", subject="dora"), FOREVER)
    held = [identity.subject_token for identity in tokens._newest_identities.values()]
    assert [token.value for token in held if token is not None] == ["of bob", "of dora"]


async def test_the_wait_for_a_token_ends_with_the_call() -> None:
    source = Source()
    source.hangs = True
    with pytest.raises(Timeout) as late:
        await credentials(source).acquire(of_jwt(), 0.0)
    assert late.value.sent is False


async def test_the_challenge_of_a_refused_token_reaches_the_source() -> None:
    source = Source()
    tokens = credentials(source)
    first = await tokens.acquire(of_jwt(), FOREVER)
    await tokens.acquire(of_jwt(), FOREVER, first, WANTS_SCOPES)
    assert source.requests[-1][1:] == (first.token, WANTS_SCOPES)


def test_a_token_that_is_refused_again_is_an_error_with_a_sentence() -> None:
    tokens = credentials(Source())
    refused = tokens.refusal_error(of_jwt(), Challenge())
    assert isinstance(refused, GrantFailed)
    assert refused.cause == TOKEN_REFUSED
    assert "(a b)" in str(tokens.refusal_error(of_jwt(), WANTS_SCOPES))


async def test_each_call_without_a_token_is_observed_once_with_its_caller_and_cause() -> None:
    outcomes: list[tuple[str, str]] = []

    def observe(identity: Identity, failure: GrantFailed | None, seconds: float) -> None:
        outcomes.append((identity.principal, "" if failure is None else failure.cause))

    source = Source()
    tokens = credentials(source, observe=observe)
    alice, late = of_jwt(), of_jwt(ends=50.0)
    with pytest.raises(GrantFailed):
        tokens.find_cached(ANONYMOUS)
    with pytest.raises(GrantFailed):
        await tokens.acquire(late, FOREVER)
    source.fails = CONFIGURATION
    for _ in range(2):
        with pytest.raises(GrantFailed):
            await tokens.acquire(alice, FOREVER)
    tokens.refusal_error(alice, Challenge())
    tokens.refusal_error(alice, WANTS_SCOPES)
    source.fails, source.hangs = "", True
    with pytest.raises(Timeout):
        await tokens.acquire(alice, 0.0)
    own = credentials(source, grant=CLIENT_CREDENTIALS, observe=observe)
    source.fails, source.hangs = INVALID_CLIENT, False
    with pytest.raises(GrantFailed):
        await own.acquire(alice, FOREVER)
    assert outcomes == [
        ("anonymous", NO_SUBJECT_TOKEN),
        (late.principal, SUBJECT_TOKEN_EXPIRED),
        (alice.principal, CONFIGURATION),
        (alice.principal, CONFIGURATION),
        (alice.principal, TOKEN_REFUSED),
        (alice.principal, "insufficient_scope"),
        (alice.principal, TIMEOUT),
        ("gateway", INVALID_CLIENT),
    ]


class _OfToken:
    """Authenticator that accepts one identity."""

    kind = "jwt"
    cache_seconds = FOREVER

    def __init__(self, identity: Identity) -> None:
        self._identity = identity

    def recognizes(self, token: str) -> bool:
        return True

    def check(self, token: str) -> Identity:
        return self._identity


def _subject_token(identity: Identity) -> SubjectToken | None:
    return identity.subject_token


async def test_a_raw_token_is_kept_with_its_identity_only_while_a_server_needs_it() -> None:
    authenticator: Any = _OfToken(of_jwt(ends=FOREVER, token=""))
    identities = Identities([authenticator])
    identity = await identities.identify(b"Bearer raw-token")
    assert isinstance(identity, Identity)
    assert _subject_token(identity) is None
    identities.keep_tokens(True)
    held = _subject_token(identity)
    assert held is not None
    assert held.value == held.subject(b"alice").token == "raw-token"
    assert "raw-token" not in repr(identity) + repr(held) + repr(held.subject(b"alice"))
    with pytest.raises((TypeError, msgspec.MsgspecError)):
        msgspec.json.encode(identity)
    identities.keep_tokens(False)
    assert (held.value, held.subject(b"alice").token) == ("", "")


@pytest.mark.parametrize("kind", ["apiKey", "anonymous"])
async def test_no_key_is_kept(kind: Any) -> None:
    authenticator: Any = _OfToken(Identity(kind=kind, principal="key:robot"))
    identities = Identities([authenticator])
    identities.keep_tokens(True)
    identity = await identities.identify(b"Bearer flk_secret")
    assert isinstance(identity, Identity)
    assert identity.subject_token is None


def test_a_mask_knows_the_token_of_one_request_too() -> None:
    mask = Mask(None).with_value("Bearer abcdefgh")
    assert mask.text("you sent Bearer abcdefgh, abcdefgh is bad") == "you sent [credential], [credential] is bad"
    assert "abcdefgh" not in repr(CallCredential(b"alice", AccessToken.bearer("abcdefgh", 1.0, frozenset())))


class Links:
    """Sign-in links that name their user."""

    def __init__(self) -> None:
        self.challenges: list[Challenge | None] = []

    async def link(self, identity: Identity, server: ServerKey, challenge: Challenge | None) -> str:
        self.challenges.append(challenge)
        return f"http://gateway/{server}/{identity.person.decode()}"


@pytest.mark.parametrize("cause", [SIGN_IN_REQUIRED, GRANT_UNREADABLE])
async def test_a_person_without_a_grant_gets_a_link_to_sign_in(cause: str) -> None:
    source, links = Source(), Links()
    source.fails = cause
    tokens = credentials(source, grant=USER_CONSENT, links=links)
    with pytest.raises(GrantFailed) as failed:
        await tokens.acquire(LOCAL, FOREVER, None, WANTS_SCOPES)
    assert failed.value.sign_in_url == "http://gateway/default/box/local"
    assert failed.value.cause == cause
    assert "default/box" in str(failed.value)
    assert links.challenges == [WANTS_SCOPES]


@pytest.mark.parametrize("cause", [INVALID_CLIENT, GRANT_STORE])
async def test_other_failures_give_no_link_to_sign_in(cause: str) -> None:
    source, links = Source(), Links()
    source.fails = cause
    with pytest.raises(GrantFailed) as failed:
        await credentials(source, grant=USER_CONSENT, links=links).acquire(LOCAL, FOREVER)
    assert failed.value.sign_in_url == ""
    assert links.challenges == []


async def test_persons_who_signed_in_have_a_token_each() -> None:
    tokens = credentials(Source(), grant=USER_CONSENT, links=Links())
    persons = [of_jwt(subject="alice"), of_jwt(subject="bob"), LOCAL]
    lines = {(await tokens.acquire(person, FOREVER)).line for person in persons}
    assert len(lines) == 3
    assert tokens.person(of_jwt("npc")) == tokens.person(of_jwt("editor"))
    assert await tokens.valid_line(LOCAL.person, FOREVER) in lines


@pytest.mark.parametrize(
    "caller",
    [
        ANONYMOUS,
        Identity(kind="serviceAccount", principal="sa:a/b", service_account=ServiceAccount("a", "b")),
    ],
)
async def test_caller_that_is_not_a_person_is_told_who_can_sign_in(caller: Identity) -> None:
    tokens = credentials(Source(), grant=USER_CONSENT, links=Links())
    assert tokens.person(caller) == b""
    with pytest.raises(GrantFailed, match=r"default/box.* each user to sign in") as failed:
        tokens.find_cached(caller)
    assert failed.value.cause == SIGN_IN_REQUIRED
    with pytest.raises(GrantFailed, match=r"default/box.* each user to sign in"):
        await tokens.acquire(caller, FOREVER)
