"""Credentials for a server: which values of Secrets are valid, and how a grant is published."""

from __future__ import annotations

import json
from typing import Any

import pytest
from joserfc.jwk import ECKey

from fairlead_api.documents.catalog import Credential
from fairlead_api.documents.oauth import (
    CLIENT_CREDENTIALS,
    TOKEN_EXCHANGE,
    USER_CONSENT,
    USER_KEY,
    OAuthSettings,
    ResourceClientSettings,
    UserKeySettings,
)
from fairlead_api.v1alpha1.mcpserver import (
    ClientCredentialsAuth,
    Grant,
    McpServerSpec,
    TokenExchangeAuth,
    UserConsentAuth,
    UserKeyAuth,
)
from fairlead_operator.ports import TokenCredential
from fairlead_operator.server.presented_credentials import (
    PresentedCredential,
    ReferencedSecret,
    UnusableSecret,
    call_oauth_settings,
    present_client,
    present_key,
)

KEY = ECKey.generate_key("P-256")
PEM = KEY.as_pem(private=True)
CLIENT: dict[str, Any] = {
    "tokenURL": "https://login.example.com/token",
    "clientID": "fairlead",
    "secretRef": {"name": "client", "key": "secret"},
}


def own(**members: Any) -> ClientCredentialsAuth:
    return ClientCredentialsAuth.model_validate({**CLIENT, **members})


def exchange(**members: Any) -> TokenExchangeAuth:
    return TokenExchangeAuth.model_validate({**CLIENT, **members})


def consent(**members: Any) -> UserConsentAuth:
    return UserConsentAuth.model_validate(members)


def secret(value: bytes = b"s3cret", hosts: str | None = None, version: str = "1") -> ReferencedSecret:
    return ReferencedSecret("client", "secret", value, hosts, version)


def test_settings_have_all_that_a_grant_says() -> None:
    grant = exchange(
        issuer="https://login.example.com",
        clientAuthentication="client_secret_post",
        subjectTokenType="urn:ietf:params:oauth:token-type:jwt",
        grantsPer="Agent",
        scopes=["a", "b"],
        audience="tools",
        resource="https://tools.example.com",
        parameters={"connector_id": "dex"},
        caBundle="-----BEGIN CERTIFICATE-----",
    )

    presented = present_client(grant, secret(hosts="login.example.com"))

    assert presented.value == Credential(client_secret="s3cret")
    assert presented.oauth == OAuthSettings(
        grant=TOKEN_EXCHANGE,
        client_id="fairlead",
        client_authentication="client_secret_post",
        issuer="https://login.example.com",
        token_url="https://login.example.com/token",
        scopes=("a", "b"),
        audience="tools",
        resource="https://tools.example.com",
        parameters={"connector_id": "dex"},
        subject_token_type="urn:ietf:params:oauth:token-type:jwt",
        grants_per="Agent",
        token_hosts="login.example.com",
        ca_bundle="-----BEGIN CERTIFICATE-----",
    )


def test_a_client_of_entra_keeps_its_profile_and_a_public_client_has_no_value() -> None:
    entra = exchange(
        tokenURL="https://login.example.com/tenant/token", profile="EntraOnBehalfOf", scopes=["api://a/.default"]
    )
    public = TokenExchangeAuth.model_validate(
        {"issuer": "https://login.example.com", "clientID": "fairlead", "clientAuthentication": "none"}
    )

    settings = present_client(entra, secret()).oauth
    assert settings is not None
    assert settings.profile == "EntraOnBehalfOf"
    assert present_client(public, None).value is None


def test_settings_of_a_consent_have_all_that_the_spec_says() -> None:
    grant = consent(
        **CLIENT,
        issuer="https://login.example.com",
        authorizationURL="https://login.example.com/authorize",
        clientAuthentication="client_secret_post",
        callbackPort=8765,
        scopes=["a", "b"],
        resource="https://tools.example.com",
        parameters={"prompt": "consent"},
        caBundle="-----BEGIN CERTIFICATE-----",
    )

    presented = present_client(grant, secret(hosts="login.example.com"))

    assert presented.value == Credential(client_secret="s3cret")
    assert presented.oauth == OAuthSettings(
        grant=USER_CONSENT,
        client_id="fairlead",
        client_authentication="client_secret_post",
        issuer="https://login.example.com",
        authorization_url="https://login.example.com/authorize",
        token_url="https://login.example.com/token",
        callback_port=8765,
        scopes=("a", "b"),
        resource="https://tools.example.com",
        parameters={"prompt": "consent"},
        token_hosts="login.example.com",
        ca_bundle="-----BEGIN CERTIFICATE-----",
    )


@pytest.mark.parametrize(
    ("members", "authentication"),
    [
        ({}, "none"),
        ({"clientID": "fairlead"}, "none"),
        (
            {"issuer": "https://login.example.com", "clientID": "fairlead", "secretRef": {"name": "client"}},
            "client_secret_basic",
        ),
        ({**CLIENT, "authorizationURL": CLIENT["tokenURL"]}, "client_secret_basic"),
    ],
)
def test_a_client_of_a_consent_authenticates_if_it_has_a_secret(members: dict[str, Any], authentication: str) -> None:
    grant = consent(**members)

    settings = present_client(grant, secret() if grant.secret_ref is not None else None).oauth

    assert settings is not None
    assert settings.client_authentication == authentication


@pytest.mark.parametrize(
    ("discovery", "default", "first_grant", "interval_s"),
    [
        ({"interval": "5m"}, True, True, 300.0),
        ({}, False, False, 0.0),
        ({"auth": {"firstGrant": True}}, False, True, 600.0),
        ({"auth": {"bearer": {"secretRef": {"name": "lists"}}}}, True, False, 0.0),
    ],
)
def test_a_server_is_listed_with_the_first_grant_where_the_spec_or_the_platform_says_so(
    discovery: dict[str, Any], default: bool, first_grant: bool, interval_s: float
) -> None:
    spec = McpServerSpec.model_validate(
        {"url": "https://tools.example.com/mcp", "auth": {"userConsent": {}}, "discovery": discovery}
    )
    calls = PresentedCredential(oauth=OAuthSettings(grant=USER_CONSENT))

    settings = call_oauth_settings(calls, spec, first_grant=default)

    assert settings is not None
    assert (settings.first_grant, settings.listing_interval_s) == (first_grant, interval_s)


@pytest.mark.parametrize("key", [PEM, json.dumps(KEY.as_dict(private=True)).encode()], ids=["PEM", "JWK"])
def test_a_private_key_is_one_in_pem_or_a_jwk(key: bytes) -> None:
    presented = present_client(own(clientAuthentication="private_key_jwt"), secret(key + b"\n"))

    assert presented.value == Credential(private_key=key.decode().strip())


@pytest.mark.parametrize(
    ("grant", "referenced", "cause", "words"),
    [
        (own(), secret(hosts="other.example.com"), "HostNotAllowed", "the token endpoint is at https://login.example"),
        (own(), secret(hosts=" "), "HostNotAllowed", "is empty, so it may not be sent anywhere"),
        (own(tokenURL=None, issuer="https://a.example"), secret(hosts=","), "HostNotAllowed", "is empty"),
        (own(), secret(b"\n"), "SecretKeyMissing", "has no value under the key secret"),
        (own(), secret(b"a\nb"), "SecretValueInvalid", "line breaks or control characters"),
        (own(), secret(b"\xff\xfe"), "SecretValueInvalid", "is not text in UTF-8"),
        (own(), secret(PEM), "SecretValueInvalid", "is a private key, which must not be sent"),
        (own(clientAuthentication="private_key_jwt"), secret(), "SecretValueInvalid", "is not a private key"),
        (
            own(clientAuthentication="private_key_jwt"),
            secret(json.dumps(KEY.as_dict(private=False)).encode()),
            "SecretValueInvalid",
            "is not a private key",
        ),
        (own(clientAuthentication="private_key_jwt"), secret(b"{" * 9000), "SecretValueInvalid", "not a private key"),
    ],
)
def test_a_value_that_may_not_be_used_is_refused_and_never_quoted(
    grant: Grant, referenced: ReferencedSecret, cause: str, words: str
) -> None:
    with pytest.raises(UnusableSecret, match=words) as refused:
        present_client(grant, referenced)

    assert refused.value.cause == cause
    assert "s3cret" not in str(refused.value)
    assert "s3cret" not in repr(referenced)


def test_the_operator_presents_a_client_whose_hash_follows_secret_and_settings() -> None:
    first = present_client(own(), secret()).operator_credential

    assert isinstance(first.value, TokenCredential)
    assert (first.value.client_secret, first.value.oauth.grant) == ("s3cret", CLIENT_CREDENTIALS)
    assert "s3cret" not in repr(first)
    assert present_client(own(), secret()).operator_credential.hash == first.hash
    assert present_client(own(), secret(version="2")).operator_credential.hash != first.hash
    assert present_client(own(scopes=["more"]), secret()).operator_credential.hash != first.hash


def test_settings_of_a_key_have_all_that_the_spec_says() -> None:
    auth = UserKeyAuth.model_validate(
        {
            "header": {"name": "Authorization", "prefix": "Token"},
            "description": "a key to read",
            "helpURL": "https://desk.example.com/keys",
            "startsWith": ["dk_"],
        }
    )

    presented = present_key(auth)

    assert presented.value is None
    assert presented.oauth == OAuthSettings(
        grant=USER_KEY,
        user_key=UserKeySettings(
            header="Authorization",
            prefix="Token",
            description="a key to read",
            help_url="https://desk.example.com/keys",
            starts_with=("dk_",),
        ),
    )
    assert present_key(UserKeyAuth(env="DESK_KEY")).oauth == OAuthSettings(
        grant=USER_KEY, user_key=UserKeySettings(env="DESK_KEY")
    )


def test_the_client_at_the_servers_own_authorization_server_has_a_secret_of_its_own() -> None:
    client = {
        "issuer": "https://auth.example.com",
        "clientID": "wiki",
        "clientAuthentication": "client_secret_post",
        "secretRef": {"name": "wiki", "key": "token"},
        "caBundle": "-----BEGIN CERTIFICATE-----",
    }
    grant = exchange(issuer="https://login.example.com", profile="IdJag", resourceClient=client)
    presented = present_client(grant, secret(), secret(b"another", "auth.example.com", "2"))
    assert presented.value == Credential(client_secret="s3cret", resource_client_secret="another")
    assert presented.version == "1 2"
    assert presented.oauth is not None
    assert presented.oauth.profile == "IdJag"
    assert presented.oauth.resource_client == ResourceClientSettings(
        client_id="wiki",
        client_authentication="client_secret_post",
        issuer="https://auth.example.com",
        token_hosts="auth.example.com",
        ca_bundle="-----BEGIN CERTIFICATE-----",
    )
