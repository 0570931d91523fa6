"""Authorization requests and their answers: parameters of the URL, and which answers are accepted."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from fairlead_mcp.oauth.authorization_request import (
    new_secret,
    read_code,
    request_url,
    require_authorization_endpoint,
    s256,
)
from fairlead_mcp.oauth.errors import (
    ACCESS_DENIED,
    BAD_ANSWER,
    DISCOVERY,
    GRANT_CAUSES,
    INVALID_REQUEST,
    INVALID_SCOPE,
    INVALID_TARGET,
    ISSUER_MISMATCH,
    PROVIDER_ERROR,
    GrantFailed,
)
from fairlead_mcp.oauth.metadata import AuthorizationServerMetadata

ISSUER = "https://login.example.com"
STATE = "a-state-of-256-bits"


def metadata(**members: Any) -> AuthorizationServerMetadata:
    return AuthorizationServerMetadata(
        **{
            "issuer": ISSUER,
            "token_endpoint": f"{ISSUER}/token",
            "authorization_endpoint": f"{ISSUER}/authorize",
            **members,
        }
    )


def code_of(sends_issuer: bool = True, **answer: str | None) -> str:
    members = {"code": "the-code", "state": STATE, "iss": ISSUER, **answer}
    given = {name: value for name, value in members.items() if value is not None}
    return read_code(given, state=STATE, issuer=ISSUER, sends_issuer=sends_issuer)


def failure(sends_issuer: bool = True, **answer: str | None) -> GrantFailed:
    with pytest.raises(GrantFailed) as failed:
        code_of(sends_issuer, **answer)
    return failed.value


def test_state_and_verifier_have_256_bits_and_are_never_the_same() -> None:
    made = {new_secret() for _ in range(100)}
    assert len(made) == 100
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{43}", secret) for secret in made)


def test_code_challenge_is_that_of_the_example_in_rfc_7636() -> None:
    assert s256("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk") == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("https://a.example.com", "https://a.example.com/?state=s&x=1+2"),
        ("https://a.example.com/o?tenant=t%26u&empty=", "https://a.example.com/o?tenant=t%26u&empty=&state=s&x=1+2"),
        ("https://a.example.com/o?state=fixed&x=9", "https://a.example.com/o?state=s&x=1+2"),
        ("https://a.example.com/o#fragment", "https://a.example.com/o?state=s&x=1+2"),
    ],
)
def test_request_url_keeps_the_endpoints_own_query_and_sends_nothing_twice(endpoint: str, url: str) -> None:
    assert request_url(endpoint, {"state": "s", "x": "1 2"}) == url


def test_persons_sign_in_at_another_host_than_the_issuers_and_on_this_machine() -> None:
    require_authorization_endpoint(metadata(authorization_endpoint="https://www.example.org/o?tenant=t"))
    require_authorization_endpoint(metadata(authorization_endpoint="http://127.0.0.1:9/authorize"))


@pytest.mark.parametrize(
    "members",
    [
        {"authorization_endpoint": ""},
        {"authorization_endpoint": "http://login.example.com/authorize"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"authorization_endpoint": "https://user:password@login.example.com/"},
        {"authorization_endpoint": "https://[::1/"},
        {"has_s256": False},
    ],
)
def test_metadata_lets_nobody_sign_in_where_that_is_not_safe(members: dict[str, Any]) -> None:
    with pytest.raises(GrantFailed) as failed:
        require_authorization_endpoint(metadata(**members))
    assert failed.value.cause == DISCOVERY


def test_code_of_an_answer_with_the_right_state_and_issuer_is_used() -> None:
    assert code_of() == "the-code"
    assert code_of(sends_issuer=False, iss=None) == "the-code"
    assert code_of(sends_issuer=False) == "the-code"


@pytest.mark.parametrize("state", [None, "", "another", STATE + " ", "ä"])
def test_answer_with_another_state_is_not_used(state: str | None) -> None:
    assert failure(state=state).cause == INVALID_REQUEST
    assert failure(state=state, error="access_denied").cause == INVALID_REQUEST


@pytest.mark.parametrize("issuer", ["https://evil.example.com", ISSUER + "/", ""])
@pytest.mark.parametrize("sends_issuer", [True, False])
def test_answer_of_another_issuer_is_not_used_whether_or_not_it_was_announced(issuer: str, sends_issuer: bool) -> None:
    for answer in ({"iss": issuer}, {"iss": issuer, "error": "access_denied"}):
        error = failure(sends_issuer, **answer)
        assert error.cause == ISSUER_MISMATCH
        assert issuer in str(error)
        assert ISSUER in str(error)


def test_answer_without_the_issuer_that_was_announced_is_not_used() -> None:
    assert failure(iss=None).cause == ISSUER_MISMATCH


@pytest.mark.parametrize("code", [None, "", "x" * 5_000, "a\nb", "ü"])
def test_answer_without_a_usable_code_is_refused(code: str | None) -> None:
    assert failure(code=code).cause == BAD_ANSWER


@pytest.mark.parametrize(
    ("error", "cause", "words"),
    [
        ("access_denied", ACCESS_DENIED, "declined"),
        ("invalid_scope", INVALID_SCOPE, "scopes"),
        ("invalid_target", INVALID_TARGET, "set the server's resource"),
        ("temporarily_unavailable", PROVIDER_ERROR, "in a moment"),
        ("something_else", INVALID_REQUEST, "registration"),
    ],
)
def test_refused_sign_in_says_why_and_what_to_do(error: str, cause: str, words: str) -> None:
    failed = failure(error=error, error_description="No.\n<b>Not</b> today", code=None)
    assert failed.cause == cause
    assert words in str(failed)
    assert f"({error}: “No. <b>Not</b> today”)" in str(failed)
    assert f"({error})" in str(failure(error=error, code=None))


def outcome(answer: dict[str, str]) -> str | GrantFailed:
    try:
        return read_code({**answer, "state": STATE}, state=STATE, issuer=ISSUER, sends_issuer=False)
    except GrantFailed as error:
        return error


@settings(max_examples=examples(300))
@given(st.dictionaries(st.sampled_from(["code", "iss", "error", "error_description"]), st.text(max_size=30)))
def test_any_answer_gives_its_code_or_a_failure_on_one_line(answer: dict[str, str]) -> None:
    result = outcome(answer)
    if isinstance(result, GrantFailed):
        assert result.cause in GRANT_CAUSES
        assert str(result).isprintable()
    else:
        assert result == answer["code"]
        assert "error" not in answer


@given(st.text(max_size=40), st.text(max_size=40))
def test_parameters_arrive_as_they_are(name: str, value: str) -> None:
    url = request_url("https://a.example.com/o?own=1", {"state": value, "scope": name})
    got = dict(parse_qsl(urlsplit(url).query, keep_blank_values=True))
    assert got == {"own": "1", "state": value, "scope": name}
