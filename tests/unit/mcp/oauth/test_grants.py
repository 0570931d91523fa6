"""Forms of token requests: their parameters, and parameters that settings cannot replace."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl

import pytest

from fairlead_api.documents.oauth import (
    CLIENT_CREDENTIALS,
    ENTRA_ON_BEHALF_OF,
    ID_JAG,
    STANDARD_PARAMETERS,
    TOKEN_EXCHANGE,
    USER_CONSENT,
    OAuthSettings,
)
from fairlead_mcp.oauth.errors import CONFIGURATION, NO_SUBJECT_TOKEN, SUBJECT_TOKEN_EXPIRED, GrantFailed
from fairlead_mcp.oauth.grants import (
    ACCESS_TOKEN_TYPE,
    ID_TOKEN_TYPE,
    JWT_TYPE,
    assertion_parameters,
    check_settings,
    check_subject,
    code_parameters,
    grant_parameters,
    ordered_scopes,
    refresh_parameters,
    session_token_type,
    token_form,
)
from fairlead_mcp.oauth.subject import GATEWAY, TokenSubject

ALICE = TokenSubject(b"alice", "subject.token", 1_000.0)
URL = "https://login.example.com/token"


def settings(grant: str = TOKEN_EXCHANGE, **members: Any) -> OAuthSettings:
    return OAuthSettings(**{"grant": grant, "client_id": "client", "token_url": URL, **members})


def form(settings: OAuthSettings, *scopes: str, subject: TokenSubject = ALICE) -> list[tuple[str, str]]:
    parameters = grant_parameters(settings, subject)
    return sorted(parse_qsl(token_form(settings, parameters, scopes, {"client_id": "client"}).decode("ascii")))


def test_client_credentials_have_scope_resource_audience_and_extra_parameters() -> None:
    given = settings(CLIENT_CREDENTIALS, resource="https://a/mcp", audience="b c", parameters={"tenant": "é&="})
    assert form(given, "read", "write", subject=GATEWAY) == [
        ("audience", "b c"),
        ("client_id", "client"),
        ("grant_type", "client_credentials"),
        ("resource", "https://a/mcp"),
        ("scope", "read write"),
        ("tenant", "é&="),
    ]


def test_token_exchange_has_the_subject_token_and_no_requested_token_type() -> None:
    assert form(settings()) == [
        ("client_id", "client"),
        ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
        ("subject_token", "subject.token"),
        ("subject_token_type", "urn:ietf:params:oauth:token-type:access_token"),
    ]
    kind = "urn:ietf:params:oauth:token-type:id_token"
    assert ("subject_token_type", kind) in form(settings(subject_token_type=kind, parameters={"connector_id": "x"}))


def test_token_of_a_sign_in_at_the_gateway_goes_by_its_own_type_and_a_callers_by_that_of_the_settings() -> None:
    for profile, kind in ((ID_JAG, ID_TOKEN_TYPE), ("", ACCESS_TOKEN_TYPE)):
        given = settings(profile=profile)
        assert session_token_type(given) == kind
        assert session_token_type(settings(profile=profile, subject_token_type=JWT_TYPE)) == JWT_TYPE
        of_session = TokenSubject(b"alice", "subject.token", 1_000.0, session_token_type(given))
        for subject, sent in ((of_session, kind), (ALICE, ACCESS_TOKEN_TYPE)):
            assert grant_parameters(given, subject)["subject_token_type"] == sent
            assert assertion_parameters(given, subject, "https://auth", URL)["subject_token_type"] == sent


def test_entra_gets_an_assertion_on_behalf_of_the_person() -> None:
    given = settings(profile=ENTRA_ON_BEHALF_OF, scopes=("api://tools/.default",))
    check_settings(given)
    assert form(given, *given.scopes) == [
        ("assertion", "subject.token"),
        ("client_id", "client"),
        ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
        ("requested_token_use", "on_behalf_of"),
        ("scope", "api://tools/.default"),
    ]


@pytest.mark.parametrize("name", [*sorted(STANDARD_PARAMETERS), "Client_ID", "SCOPE"])
def test_extra_parameters_never_replace_a_standard_one(name: str) -> None:
    given = settings(parameters={name: "evil"}, resource="https://a", audience="a")
    with pytest.raises(GrantFailed, match="must not replace") as failed:
        check_settings(given)
    assert failed.value.cause == CONFIGURATION
    mine = dict(form(given, "read"))
    assert "evil" not in [mine[each] for each in ("grant_type", "subject_token", "resource", "scope", "client_id")]


@pytest.mark.parametrize(
    "members",
    [
        {"grant": "password"},
        {"profile": "Other"},
        {"client_id": ""},
        {"token_url": ""},
        {"profile": ENTRA_ON_BEHALF_OF},
        {"profile": ENTRA_ON_BEHALF_OF, "scopes": ("a",), "resource": "https://a"},
    ],
)
def test_settings_that_make_no_request_are_refused(members: dict[str, Any]) -> None:
    with pytest.raises(GrantFailed, match="OAuth settings of the server cannot be used") as failed:
        check_settings(settings(**members))
    assert failed.value.cause == CONFIGURATION


def consent(**members: Any) -> OAuthSettings:
    return OAuthSettings(grant=USER_CONSENT, **members)


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"issuer": "https://login.example.com"},
        {"client_id": "c", "client_authentication": "none"},
        {"client_id": "c", "issuer": "https://login.example.com"},
        {"client_id": "c", "token_url": URL, "authorization_url": URL},
    ],
)
def test_consent_needs_an_issuer_only_for_a_client_with_a_secret(members: dict[str, Any]) -> None:
    check_settings(consent(**members))


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"client_id": "c"}, "set issuer"),
        ({"token_url": URL, "client_id": "c"}, "together"),
        ({"authorization_url": URL}, "together"),
        ({"token_url": URL, "authorization_url": URL}, "clientID"),
    ],
)
def test_settings_that_let_nobody_sign_in_are_refused(members: dict[str, Any], words: str) -> None:
    with pytest.raises(GrantFailed, match=words) as failed:
        check_settings(consent(**members))
    assert failed.value.cause == CONFIGURATION


def test_code_and_refresh_token_go_with_the_resource_and_without_parameters_of_the_authorization_request() -> None:
    given = consent(parameters={"access_type": "offline"})
    code = code_parameters("c1", "v1", "https://here", "https://tools/mcp")
    assert parse_qsl(token_form(given, code, (), {"client_id": "x"}).decode()) == [
        ("grant_type", "authorization_code"),
        ("code", "c1"),
        ("redirect_uri", "https://here"),
        ("code_verifier", "v1"),
        ("resource", "https://tools/mcp"),
        ("client_id", "x"),
    ]
    assert refresh_parameters("r1", "") == {"grant_type": "refresh_token", "refresh_token": "r1"}
    assert refresh_parameters("r1", "https://a")["resource"] == "https://a"
    assert "resource" not in code_parameters("c1", "v1", "https://here", "")


def test_caller_without_a_valid_token_is_told_to_sign_in() -> None:
    with pytest.raises(GrantFailed, match="sign in") as failed:
        check_subject(settings(), TokenSubject(b"key"), 0)
    assert failed.value.cause == NO_SUBJECT_TOKEN
    with pytest.raises(GrantFailed, match="expired") as failed:
        check_subject(settings(), ALICE, 1_000.0)
    assert failed.value.cause == SUBJECT_TOKEN_EXPIRED
    check_subject(settings(), ALICE, 999.0)
    check_subject(settings(CLIENT_CREDENTIALS), GATEWAY, 0)


def test_scopes_of_the_settings_come_first_and_each_scope_once() -> None:
    assert ordered_scopes(settings(scopes=("z", "a")), {"c", "a", "b"}) == ("z", "a", "b", "c")
    assert "subject.token" not in repr(ALICE)
