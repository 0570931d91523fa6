"""Answers of token endpoints: tokens, errors with their remedies, and arbitrary bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from fairlead_api.documents.oauth import CLIENT_CREDENTIALS, USER_CONSENT
from fairlead_mcp.oauth import token_answer
from fairlead_mcp.oauth.access_token import AccessToken
from fairlead_mcp.oauth.errors import (
    ACCESS_DENIED,
    BAD_ANSWER,
    GRANT_CAUSES,
    INTERACTION_REQUIRED,
    INVALID_CLIENT,
    INVALID_GRANT,
    INVALID_REQUEST,
    INVALID_SCOPE,
    INVALID_TARGET,
    PROVIDER_ERROR,
    SUBJECT_TOKEN_EXPIRED,
    UNAUTHORIZED_CLIENT,
    UNSUPPORTED_GRANT_TYPE,
    GrantFailed,
)
from fairlead_mcp.oauth.refusal_advice import ASSERTION_STEP, REDEMPTION_STEP
from fairlead_mcp.oauth.token_answer import DEFAULT_LIFETIME, MAX_LIFETIME, TokenRequest, read_token, secret_mask

NOW = 1_000.0
SECRET = "s3cr3t/+value"
SUBJECT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9.c2lnbmF0dXJlLW9mLXRoaXM"
REQUEST = TokenRequest("login.example.com:443", ("read",), NOW + 10_000, secret_mask((SECRET, SUBJECT)))


def answer(status: int = 200, **members: Any) -> AccessToken:
    whole = {"access_token": "abc", "token_type": "Bearer", **members} if status == 200 else members
    return read_token(status, json.dumps(whole).encode(), REQUEST, NOW).access


def failure(status: int = 200, **members: Any) -> GrantFailed:
    with pytest.raises(GrantFailed) as failed:
        answer(status, **members)
    return failed.value


def test_token_has_its_header_line_scopes_and_end_and_does_not_show_itself() -> None:
    token = answer(expires_in=60, scope="read write", token_type="bEARER")
    assert token == AccessToken("abc", NOW + 60, frozenset({"read", "write"}), b"Authorization: Bearer abc\r\n")
    assert "abc" not in repr(token)
    assert answer().scopes == frozenset({"read"})
    assert answer(scope=["a", "b c"]).scopes == frozenset({"a"})
    assert answer(token_type=None).value == "abc"


def test_refresh_token_comes_with_its_end_where_the_answer_says_it() -> None:
    def read_issued(**members: Any) -> tuple[str, float]:
        body = json.dumps({"access_token": "abc", **members}).encode()
        token = read_token(200, body, REQUEST, NOW)
        return token.refresh_token, token.refresh_expires_at

    assert read_issued() == ("", 0.0)
    assert read_issued(refresh_token="r 1", refresh_token_expires_in=60) == ("r 1", NOW + 60)
    assert read_issued(refresh_token="r", refresh_expires_in=60.5) == ("r", NOW + 60.5)
    ends: list[Any] = [0, -1, 1e300, "60", None, []]
    assert {read_issued(refresh_token="r", refresh_token_expires_in=odd) for odd in ends} == {("r", 0.0)}
    unusable: list[Any] = [7, "", "a\nb", "ü", "x" * 20_000, ["r"], None]
    assert {read_issued(refresh_token=odd) for odd in unusable} == {("", 0.0)}


@pytest.mark.parametrize(
    ("expires_in", "seconds"),
    [
        (None, DEFAULT_LIFETIME),
        (30, 30),
        (30.5, 30.5),
        ("30", 30),
        ("30.5", 30.5),
        (5_000, 5_000),
        (10**30, 10_000),
    ],
)
def test_lifetime_is_a_number_or_its_text_and_never_beyond_the_subject_token(expires_in: Any, seconds: float) -> None:
    assert answer(expires_in=expires_in).expires_at == NOW + seconds


def test_lifetime_is_a_day_at_most() -> None:
    request = REQUEST._replace(subject_expires_at=float("inf"))
    for expires_in in ("1e300", "1" + "0" * 400, '"999999999999"', "86401"):
        body = f'{{"access_token":"abc","expires_in":{expires_in}}}'.encode()
        assert read_token(200, body, request, NOW).access.expires_at == NOW + MAX_LIFETIME


@pytest.mark.parametrize("expires_in", [0, -1, -(10**30), "-5", "", "NaN", "inf", "1e3", True, [], {}, "٣"])
def test_lifetime_that_is_not_positive_is_refused(expires_in: Any) -> None:
    assert failure(expires_in=expires_in).cause == BAD_ANSWER


def test_token_after_the_end_of_its_subject_token_is_refused() -> None:
    with pytest.raises(GrantFailed) as failed:
        read_token(200, b'{"access_token":"abc"}', REQUEST._replace(subject_expires_at=NOW), NOW)
    assert failed.value.cause == SUBJECT_TOKEN_EXPIRED


@pytest.mark.parametrize(
    "members",
    [
        {"access_token": ""},
        {"access_token": None},
        {"access_token": 7},
        {"access_token": "a b"},
        {"access_token": "a\r\nX-Injected: 1"},
        {"access_token": "ä"},
        {"access_token": "x" * 20_000},
        {"token_type": "N_A"},
        {"token_type": "mac"},
        {"issued_token_type": "urn:ietf:params:oauth:token-type:id-jag"},
        {"scope": 7},
    ],
)
def test_answer_without_a_usable_bearer_token_is_refused(members: dict[str, Any]) -> None:
    error = failure(**members)
    assert error.cause == BAD_ANSWER
    assert "login.example.com" in str(error)
    assert "\n" not in str(error)


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b'"x"', b"<html>", b"{", b"\xff", b"[" * 60_000])
def test_body_that_is_not_an_object_is_refused_whatever_the_status(body: bytes) -> None:
    for status in (200, 400, 500):
        with pytest.raises(GrantFailed) as failed:
            read_token(status, body, REQUEST, NOW)
        assert failed.value.cause in (BAD_ANSWER, INVALID_REQUEST, PROVIDER_ERROR)


@pytest.mark.parametrize(
    ("status", "error", "cause"),
    [
        (401, "invalid_client", INVALID_CLIENT),
        (400, "unauthorized_client", UNAUTHORIZED_CLIENT),
        (400, "unsupported_grant_type", UNSUPPORTED_GRANT_TYPE),
        (400, "invalid_grant", INVALID_GRANT),
        (400, "invalid_request", INVALID_REQUEST),
        (400, "invalid_scope", INVALID_SCOPE),
        (400, "invalid_target", INVALID_TARGET),
        (403, "access_denied", ACCESS_DENIED),
        (400, "interaction_required", INTERACTION_REQUIRED),
        (503, "temporarily_unavailable", PROVIDER_ERROR),
        (429, "too_fast", PROVIDER_ERROR),
        (502, None, PROVIDER_ERROR),
        (401, {"code": 5}, INVALID_CLIENT),
        (200, "bad_verification_code", INVALID_REQUEST),
    ],
)
def test_error_becomes_a_cause_and_a_sentence_that_says_what_to_do(status: int, error: Any, cause: str) -> None:
    raised = failure(status, error=error, error_description="because")
    assert raised.cause == cause
    assert "because" in str(raised)
    assert "login.example.com" in str(raised)


@pytest.mark.parametrize("status", [400, 403, 404, 405, 410])
@pytest.mark.parametrize("body", [b"<html>Not Found", b"", b"[]", b"{}", b'{"error":{"code":404}}', b'{"error":""}'])
def test_read_token_blames_the_address_for_a_refusal_without_an_oauth_error(status: int, body: bytes) -> None:
    with pytest.raises(GrantFailed) as failed:
        read_token(status, body, REQUEST, NOW)
    assert failed.value.cause == BAD_ANSWER
    assert "check tokenURL" in str(failed.value)
    assert "sign in" not in str(failed.value)


@pytest.mark.parametrize("error", ["invalid_grant", "invalid_token", "invalid_request", "of_its_own"])
def test_client_credentials_tell_nobody_to_sign_in(error: str) -> None:
    assert "sign in again" in str(failure(400, error=error))
    with pytest.raises(GrantFailed) as failed:
        read_token(400, json.dumps({"error": error}).encode(), REQUEST._replace(grant=CLIENT_CREDENTIALS), NOW)
    assert failed.value.cause == failure(400, error=error).cause
    assert "person" not in str(failed.value)
    assert "sign in" not in str(failed.value)
    assert "client's registration" in str(failed.value)


@pytest.mark.parametrize(
    ("status", "error", "words"),
    [
        (401, "invalid_client", "clientAuthentication of resourceClient"),
        (401, None, "clientAuthentication of resourceClient"),
        (400, "unauthorized_client", "client in resourceClient"),
        (400, "unsupported_grant_type", "accept assertions of the identity provider"),
        (400, "invalid_grant", "trust the identity provider"),
        (400, "invalid_scope", "configure the provider to put these scopes into its assertions"),
        (400, "invalid_target", "correct the server's resource"),
        (400, "of_its_own", "trust the identity provider"),
    ],
)
def test_refused_assertion_tells_nobody_to_sign_in_or_to_correct_the_client_of_the_provider(
    status: int, error: str | None, words: str
) -> None:
    body = json.dumps({"error": error} if error else {}).encode()
    with pytest.raises(GrantFailed, match=words) as failed:
        read_token(status, body, REQUEST._replace(grant=REDEMPTION_STEP), NOW)
    assert failed.value.cause == failure(status, error=error).cause
    assert "sign in" not in str(failed.value)
    assert "compare clientID, secretRef and clientAuthentication with" not in str(failed.value)


def test_provider_that_refuses_the_target_of_an_assertion_is_to_give_it() -> None:
    with pytest.raises(GrantFailed, match="allow the provider to issue assertions") as failed:
        read_token(400, b'{"error":"invalid_target"}', REQUEST._replace(grant=ASSERTION_STEP), NOW)
    assert failed.value.cause == INVALID_TARGET


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("invalid_grant", "was ended: sign in again"),
        ("invalid_request", "client's registration"),
        ("of_its_own", "client's registration"),
        ("access_denied", "with another one"),
        ("invalid_target", "set the server's resource"),
        ("invalid_scope", "correct scopes"),
    ],
)
def test_refused_consent_says_what_a_person_or_an_administrator_can_do(error: str, words: str) -> None:
    with pytest.raises(GrantFailed, match=words) as failed:
        read_token(400, json.dumps({"error": error}).encode(), REQUEST._replace(grant=USER_CONSENT), NOW)
    assert failed.value.cause == failure(400, error=error).cause


@pytest.mark.parametrize(
    ("code", "cause", "words"),
    [
        (65001, INTERACTION_REQUIRED, "consent"),
        (50013, INVALID_GRANT, "access token"),
        (50076, INTERACTION_REQUIRED, "second factor"),
        (7000215, INVALID_CLIENT, "secret is wrong"),
        (7000222, INVALID_CLIENT, "make a new one"),
        (700016, UNAUTHORIZED_CLIENT, "clientID"),
        (901002, INVALID_TARGET, "remove resource"),
    ],
)
def test_entra_codes_have_remedies_of_their_own(code: int, cause: str, words: str) -> None:
    for members in ({"error_codes": [code]}, {"error_description": f"AADSTS{code}: Something."}):
        error = failure(400, error="invalid_grant", **members)
        assert error.cause == cause
        assert words in str(error)


def test_claims_of_entra_are_kept_for_the_clients_challenge_if_they_are_an_object() -> None:
    claims = '{"access_token":{"polids":{"essential":true}}}'
    for written in (claims, json.dumps(json.loads(claims), indent=4)):
        assert failure(400, error="interaction_required", claims=written).claims == claims
    for other in ("x", "[]", 7, '{"a":"%s"}' % ("x" * 5000), json.dumps({"a": SECRET}), '{"a":"\u2028"}'):
        assert failure(400, error="interaction_required", claims=other).claims == ""
    assert failure(400, error="invalid_grant", claims=claims).claims == ""


def test_description_is_cut_to_one_line_without_secrets_or_tokens() -> None:
    parts = SUBJECT.split(".")
    for quoted in (SECRET, "s3cr3t%2F%2Bvalue", SUBJECT, parts[1], parts[2], "eyJ0eXAiOiJK.eyJhIjoxfQaaaa.c2ln"):
        error = failure(400, error=quoted, error_description=f"bad\r\n {quoted} value " + "x" * 10_000)
        assert quoted not in str(error)
        assert "\n" not in str(error)
        assert len(str(error)) < 700


@pytest.mark.parametrize("secret", ["correct-horse-battery", "hunters", "/srv/grants/alice.json"])
def test_secret_that_looks_like_words_or_a_path_is_not_in_the_message(secret: str) -> None:
    body = json.dumps(
        {"error": "invalid_grant", "error_description": f"not refresh_token={secret}&scope=read"}
    ).encode()
    with pytest.raises(GrantFailed, match=r"refresh_token=\[credential\]") as failed:
        read_token(400, body, REQUEST._replace(mask=secret_mask((secret,))), NOW)
    assert secret not in str(failed.value)


def test_words_about_a_person_are_for_the_person_alone() -> None:
    failed = failure(401, error="invalid_client", error_description="alice may not use this client")
    assert "alice" in str(failed)
    assert "alice" not in failed.impersonal
    assert "(invalid_client): compare clientID" in failed.impersonal
    for copy in (failed.copy(), failed.at_server("default/box")):
        assert copy.impersonal == failed.impersonal
    with pytest.raises(GrantFailed) as own:
        read_token(
            401,
            b'{"error":"invalid_client","error_description":"expired"}',
            REQUEST._replace(grant=CLIENT_CREDENTIALS),
            NOW,
        )
    assert "expired" in own.value.impersonal


def test_token_of_others_is_looked_for_from_the_beginning_of_a_word_alone() -> None:
    word = "x" * 40
    assert token_answer._JWT.match(f"{word}.{word}") is not None
    assert token_answer._JWT.search(f"{word}.{word}", 1) is None, "otherwise each character begins a scan of the word"
    assert token_answer._JWT.search(word * 100) is None


def test_description_is_cut_after_secrets_are_masked_and_before_tokens_of_others_are() -> None:
    foreign = "eyJhbGciOi." + "a" * 990
    error = failure(400, error="invalid_grant", error_description=f"{foreign} {SUBJECT} tail")
    assert "“[credential] [credential]" in str(error)
    assert "tail" not in str(failure(400, error="x", error_description=f"{foreign * 2} tail"))


def test_methods_of_the_issuer_are_named_to_a_refused_client() -> None:
    request = REQUEST._replace(authentication_methods=("private_key_jwt", "tls_client_auth"))
    with pytest.raises(GrantFailed, match="private_key_jwt, tls_client_auth"):
        read_token(401, b'{"error":"invalid_client"}', request, NOW)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=5), below, max_size=3),
)
TEXTS = ("access_token", "token_type", "issued_token_type", "expires_in", "scope", "refresh_token")
MEMBERS = (*TEXTS, "error", "error_description", "error_codes", "claims")


def outcome(status: int, body: bytes) -> AccessToken | GrantFailed:
    try:
        return read_token(status, body, REQUEST, NOW).access
    except GrantFailed as error:
        return error


@settings(max_examples=examples(400))
@given(
    st.sampled_from([200, 201, 204, 400, 401, 429, 500]),
    st.binary(max_size=200)
    | st.dictionaries(st.sampled_from(MEMBERS), JSON).map(lambda members: json.dumps(members).encode()),
)
def test_reader_raises_nothing_but_grant_failures_on_any_bytes(status: int, body: bytes) -> None:
    result = outcome(status, body)
    if isinstance(result, GrantFailed):
        assert result.cause in GRANT_CAUSES
        assert str(result).isprintable()
    else:
        assert NOW < result.expires_at <= REQUEST.subject_expires_at
        assert result.header_line.count(b"\r\n") == 1
