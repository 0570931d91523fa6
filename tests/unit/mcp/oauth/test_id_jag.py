"""Assertions (ID-JAG) of an identity provider. Other answers of the provider are not sent to any server."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from fairlead_mcp.oauth.errors import BAD_ANSWER, GrantFailed
from fairlead_mcp.oauth.id_jag import require_assertion
from fairlead_mcp.oauth.refusal_advice import ASSERTION_STEP
from fairlead_mcp.oauth.token_answer import TokenRequest, read_token, secret_mask

ISSUER = "https://auth.wiki.example.com"


def jwt(typ: str = "oauth-id-jag+jwt", **claims: Any) -> str:
    whole = {"aud": ISSUER, "client_id": "wiki", **claims}
    parts = [json.dumps(part).encode() for part in ({"alg": "ES256", "typ": typ}, whole)]
    return ".".join([base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts] + ["c2ln"])


def failure(token: str) -> GrantFailed:
    with pytest.raises(GrantFailed) as failed:
        require_assertion(token, ISSUER, "wiki")
    assert failed.value.cause == BAD_ANSWER
    return failed.value


def test_an_assertion_is_for_one_authorization_server_and_the_client_there() -> None:
    require_assertion(jwt(), ISSUER, "wiki")
    require_assertion(jwt(aud=[ISSUER]), ISSUER, "wiki")
    assert "aud" in str(failure(jwt(aud=[ISSUER, "https://other.example.com"])))
    assert "aud" in str(failure(jwt(aud="https://other.example.com")))
    assert "resourceClient.clientID" in str(failure(jwt(client_id="another")))


def test_an_access_token_in_place_of_an_assertion_is_sent_nowhere() -> None:
    assert "not an assertion" in str(failure(jwt("at+jwt")))


@pytest.mark.parametrize("token", ["opaque", "a.b.c", "..", "é.é.é", "W10.W10.", jwt().split(".")[0]])
def test_text_that_is_not_a_jwt_is_sent_nowhere(token: str) -> None:
    assert "not an assertion" in str(failure(token))


@pytest.mark.parametrize("kind", [None, "urn:ietf:params:oauth:token-type:access_token"])
def test_an_answer_that_is_not_of_the_type_of_assertions_is_refused(kind: str | None) -> None:
    request = TokenRequest("login:443", (), 2_000.0, secret_mask(()), grant=ASSERTION_STEP)
    body = {"access_token": jwt(), "token_type": "N_A", "issued_token_type": kind}
    with pytest.raises(GrantFailed, match="instead of an assertion") as failed:
        read_token(200, json.dumps(body).encode(), request, 1_000.0)
    assert failed.value.cause == BAD_ANSWER
