"""Registration of the gateway as a client: the request, and the answers of authorization servers."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from fairlead_mcp.oauth.errors import BAD_ANSWER, CONFIGURATION, GRANT_CAUSES, PROVIDER_ERROR, GrantFailed
from fairlead_mcp.oauth.metadata import AuthorizationServerMetadata
from fairlead_mcp.oauth.registration import (
    authentication_method,
    is_current,
    is_loopback,
    manual_registration_failure,
    read_registration,
    registration_request,
)
from fairlead_mcp.oauth.stored_grant import StoredGrant

ISSUER = "https://login.example.com"
HERE = "https://gateway.example.com/sign-in/callback"
LAPTOP = "http://127.0.0.1:7007/sign-in/callback"
NOW = 1_000.0


def register(status: int = 201, method: str = "none", **members: Any) -> StoredGrant:
    body = json.dumps({"client_id": "c1", **members}).encode()
    return read_registration(status, body, ISSUER, HERE, method, NOW)


def failure(status: int, body: bytes) -> GrantFailed:
    with pytest.raises(GrantFailed) as failed:
        read_registration(status, body, ISSUER, HERE, "none", NOW)
    return failed.value


@pytest.mark.parametrize(
    ("methods", "method"),
    [
        ((), "client_secret_basic"),
        (("client_secret_post", "none"), "none"),
        (("client_secret_basic", "client_secret_post"), "client_secret_post"),
        (("private_key_jwt", "client_secret_basic"), "client_secret_basic"),
        (("private_key_jwt",), "none"),
    ],
)
def test_gateway_is_a_public_client_wherever_it_can_be(methods: tuple[str, ...], method: str) -> None:
    assert authentication_method(AuthorizationServerMetadata(ISSUER, "x", methods)) == method


@pytest.mark.parametrize(
    ("redirect_uri", "kind"),
    [
        (LAPTOP, "native"),
        ("http://[::1]:9/callback", "native"),
        ("http://localhost/callback", "native"),
        (HERE, "web"),
        ("https://localhost.example.com/", "web"),
    ],
)
def test_registration_request_says_what_kind_of_application_the_gateway_is(redirect_uri: str, kind: str) -> None:
    assert json.loads(registration_request(redirect_uri, "none", ("read", "write"))) == {
        "client_name": "Fairlead",
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "application_type": kind,
        "scope": "read write",
    }
    assert "scope" not in json.loads(registration_request(redirect_uri, "none", ()))
    assert is_loopback(redirect_uri) == (kind == "native")


def test_registration_belongs_to_its_issuer_and_redirect_uri_until_it_expires() -> None:
    client = register(
        client_secret="s", client_secret_expires_at=2_000, token_endpoint_auth_method="client_secret_post"
    )
    assert client == StoredGrant(
        ISSUER,
        "c1",
        client_secret="s",
        client_authentication="client_secret_post",
        client_expires_at=2_000.0,
        granted_at=NOW,
        redirect_uri=HERE,
    )
    assert is_current(client, 1_999)
    assert not is_current(client, 2_000)
    assert is_current(register(), 1e12)


@pytest.mark.parametrize(
    ("requested", "members", "method", "secret"),
    [
        ("none", {}, "none", ""),
        ("none", {"client_secret": "s"}, "none", ""),
        (
            "none",
            {"client_secret": "s", "token_endpoint_auth_method": "client_secret_basic"},
            "client_secret_basic",
            "s",
        ),
        ("client_secret_basic", {"client_secret": "s"}, "client_secret_basic", "s"),
        ("client_secret_basic", {}, "none", ""),
        ("client_secret_basic", {"client_secret": None, "token_endpoint_auth_method": "none"}, "none", ""),
    ],
)
def test_registered_client_authenticates_as_the_answer_says(
    requested: str, members: dict[str, Any], method: str, secret: str
) -> None:
    client = register(200, requested, client_secret_expires_at=0, **members)
    assert (client.client_authentication, client.client_secret, client.client_expires_at) == (method, secret, 0.0)


@pytest.mark.parametrize(
    "body",
    [
        b"<html>",
        b"{}",
        b"[]",
        b'{"client_id":7}',
        b'{"client_id":""}',
        b'{"client_id":"a\\nb"}',
        json.dumps({"client_id": "x" * 513}).encode(),
        json.dumps(
            {"client_id": "x", "client_secret": "y" * 513, "token_endpoint_auth_method": "client_secret_post"}
        ).encode(),
        json.dumps({"client_id": "x", "client_secret": "y", "token_endpoint_auth_method": "private_key_jwt"}).encode(),
        json.dumps({"client_id": "x", "client_secret": "y", "token_endpoint_auth_method": ["none"]}).encode(),
    ],
)
def test_answer_without_a_usable_client_is_refused(body: bytes) -> None:
    error = failure(201, body)
    assert error.cause == BAD_ANSWER
    assert "by hand" in str(error)


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (
            400,
            b'{"error":"invalid_redirect_uri","error_description":"https\\nonly"}',
            "(invalid_redirect_uri: https only)",
        ),
        (400, b"<html>", "(status 400)"),
        (404, b'{"error":{}}', "(status 404)"),
        (401, b"", "configured for (status 401)"),
        (403, b'{"error":"x"}', "configured for (status 403)"),
    ],
)
def test_refused_registration_says_what_this_provider_wants(status: int, body: bytes, words: str) -> None:
    error = failure(status, body)
    assert error.cause == CONFIGURATION
    assert words in str(error)
    assert HERE in str(error)
    assert "clientID" in str(error)


@pytest.mark.parametrize(
    ("redirect_uri", "port"), [(LAPTOP, 8765), ("http://localhost:9000/callback", 9000)], ids=["any port", "its own"]
)
def test_a_laptop_is_told_to_register_by_hand_in_words_of_its_file(redirect_uri: str, port: int) -> None:
    text = str(manual_registration_failure(ISSUER, "does not register clients on request", redirect_uri))
    assert f"the redirect URI http://localhost:{port}/callback (with any port)" in text
    assert LAPTOP not in text
    named = [f"oauth.{name}" for name in ("clientId", "callbackPort", "clientSecret", "issuer")]
    assert re.findall(r"oauth\.\w+", text) == named
    assert "secretRef" not in text


@pytest.mark.parametrize("status", [500, 503, 429])
def test_registration_that_fails_for_now_says_so(status: int) -> None:
    error = failure(status, b"")
    assert error.cause == PROVIDER_ERROR
    assert "try again" in str(error)


def outcome(status: int, body: bytes) -> StoredGrant | GrantFailed:
    try:
        return read_registration(status, body, ISSUER, HERE, "none", NOW)
    except GrantFailed as error:
        return error


@settings(max_examples=examples(300))
@given(
    st.sampled_from([200, 201, 400, 403, 500]),
    st.binary(max_size=100)
    | st.dictionaries(
        st.sampled_from(
            ["client_id", "client_secret", "client_secret_expires_at", "token_endpoint_auth_method", "error"]
        ),
        st.none() | st.integers() | st.floats() | st.text(max_size=9) | st.lists(st.text(max_size=3), max_size=2),
    ).map(lambda members: json.dumps(members).encode()),
)
def test_any_answer_gives_a_client_or_a_failure_on_one_line(status: int, body: bytes) -> None:
    result = outcome(status, body)
    if isinstance(result, GrantFailed):
        assert result.cause in GRANT_CAUSES
        assert str(result).isprintable()
    else:
        assert result.client_id.isprintable()
        assert msgspec.json.decode(msgspec.json.encode(result), type=StoredGrant) == result
