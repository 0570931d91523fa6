"""Client authentication: the request of each method, and keys of all types."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote_plus

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, Key, OctKey, OKPKey, RSAKey

from certificates import Authority
from fairlead_api.documents.catalog import Credential
from fairlead_api.documents.oauth import CLIENT_CREDENTIALS, ENTRA_ON_BEHALF_OF, TOKEN_EXCHANGE, OAuthSettings
from fairlead_mcp.oauth.client_authentication import ClientAuthentication
from fairlead_mcp.oauth.errors import CONFIGURATION, GrantFailed
from fairlead_mcp.oauth.signing_key import ASSERTION_SECONDS, SigningKey

TOKEN_URL = "https://login.example.com/token"
ISSUER = "https://login.example.com"
SECRET = "s3cr3t:/+ %é"
RSA = RSAKey.generate_key(2048, {"kid": "mine"})


def authentication(method: str, credential: Credential, **members: Any) -> ClientAuthentication:
    settings = OAuthSettings(grant=CLIENT_CREDENTIALS, client_id="a:b c", client_authentication=method, **members)
    return ClientAuthentication(settings, credential)


def prepare(client: ClientAuthentication) -> ClientAuthentication:
    client.prepare()
    return client


def test_basic_encodes_id_and_secret_as_forms_before_base64() -> None:
    client = authentication("client_secret_basic", Credential(client_secret=SECRET))
    assert client.parameters(TOKEN_URL, 0) == {}
    name, _, value = client.header_line().decode().partition(": ")
    assert (name, value[:6], value[-2:]) == ("Authorization", "Basic ", "\r\n")
    user, _, password = base64.b64decode(value[6:]).decode("ascii").partition(":")
    assert user == "a%3Ab+c"
    assert unquote_plus(password) == SECRET
    assert ":" not in password


def test_post_and_none_send_parameters_and_no_header() -> None:
    post = authentication("client_secret_post", Credential(client_secret=SECRET))
    assert (post.header_line(), post.parameters(TOKEN_URL, 0)) == (
        b"",
        {"client_id": "a:b c", "client_secret": SECRET},
    )
    public = authentication("none", Credential())
    assert (public.header_line(), public.parameters(TOKEN_URL, 0)) == (b"", {"client_id": "a:b c"})


def test_basic_is_sent_as_post_at_entra() -> None:
    settings = OAuthSettings(grant=TOKEN_EXCHANGE, profile=ENTRA_ON_BEHALF_OF, client_id="x", token_url=TOKEN_URL)
    client = ClientAuthentication(settings, Credential(client_secret="abcd"))
    assert (client.header_line(), client.parameters(TOKEN_URL, 0)["client_secret"]) == (b"", "abcd")


def pem(key: Key) -> str:
    assert not isinstance(key, OctKey)
    return bytes(key.as_pem(private=True)).decode()


def jwk(key: Key, **members: str) -> str:
    return json.dumps({**key.as_dict(private=True), **members})


@pytest.mark.parametrize(
    ("key", "algorithm"),
    [
        (RSA, "RS256"),
        (ECKey.generate_key("P-256"), "ES256"),
        (ECKey.generate_key("P-384"), "ES384"),
        (ECKey.generate_key("P-521"), "ES512"),
        (OKPKey.generate_key("Ed25519"), "EdDSA"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_algorithm_of_an_assertion_is_that_of_the_key(key: Key, algorithm: str) -> None:
    for text in (pem(key), jwk(key)):
        signed = SigningKey(text).assertion("client", ISSUER, 1_000.7)
        header = json.loads(base64.urlsafe_b64decode(signed.partition(".")[0] + "=="))
        assert header["alg"] == algorithm
    assert SigningKey(jwk(RSA, alg="PS256")).algorithm == "PS256"
    assert SigningKey(pem(RSA), entra=True).algorithm == "PS256"


def test_assertion_names_client_and_issuer_ends_after_a_minute_and_is_used_once() -> None:
    client = prepare(authentication("private_key_jwt", Credential(private_key=jwk(RSA)), issuer=ISSUER))
    first, second = (client.parameters(TOKEN_URL, 1_000.0) for _ in range(2))
    assert first["client_assertion_type"] == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
    assert first["client_id"] == "a:b c"
    token = jwt.decode(first["client_assertion"], RSA, algorithms=["RS256"])
    assert token.header == {"alg": "RS256", "typ": "JWT", "kid": "mine"}
    jti = token.claims.pop("jti")
    assert token.claims == {"iss": "a:b c", "sub": "a:b c", "aud": ISSUER, "iat": 1000, "exp": 1000 + ASSERTION_SECONDS}
    assert jti != jwt.decode(second["client_assertion"], RSA, algorithms=["RS256"]).claims["jti"]


def audience(client: ClientAuthentication) -> Any:
    assertion = prepare(client).parameters(TOKEN_URL, 1_000.0)["client_assertion"]
    return jwt.decode(assertion, RSA, algorithms=["RS256", "PS256"]).claims["aud"]


def test_audience_of_an_assertion_is_the_issuer_and_without_one_or_at_entra_the_token_endpoint() -> None:
    credential = Credential(private_key=jwk(RSA))
    assert audience(authentication("private_key_jwt", credential, issuer=ISSUER)) == ISSUER
    assert audience(authentication("private_key_jwt", credential)) == TOKEN_URL
    entra = OAuthSettings(
        grant=TOKEN_EXCHANGE,
        profile=ENTRA_ON_BEHALF_OF,
        client_id="x",
        issuer=ISSUER,
        client_authentication="private_key_jwt",
    )
    assert audience(ClientAuthentication(entra, credential)) == TOKEN_URL


@pytest.mark.parametrize(
    ("host", "entra"),
    [
        ("login.microsoftonline.com", True),
        ("LOGIN.microsoftonline.com:443", True),
        ("login.microsoftonline.us", True),
        ("login.partner.microsoftonline.cn", True),
        ("contoso.ciamlogin.com", True),
        ("login.microsoftonline.com.example.com", False),
        ("ciamlogin.com.example.com", False),
        ("evilciamlogin.com", False),
        ("login.example.com", False),
    ],
)
def test_audience_at_hosts_of_entra_is_the_token_endpoint_for_client_credentials(host: str, entra: bool) -> None:
    issuer, token_url = f"https://{host}/tenant/v2.0", f"https://{host}/tenant/oauth2/v2.0/token"
    client = prepare(authentication("private_key_jwt", Credential(private_key=jwk(RSA)), issuer=issuer))
    assertion = client.parameters(token_url, 1_000.0)["client_assertion"]
    claims = jwt.decode(assertion, RSA, algorithms=["RS256", "PS256"]).claims
    assert claims["aud"] == (token_url if entra else issuer)


def test_certificate_beside_a_key_gives_its_thumbprints(tmp_path: Path) -> None:
    signed = SigningKey(Authority().issue()).assertion("client", ISSUER, 0)
    header = json.loads(base64.urlsafe_b64decode(signed.partition(".")[0] + "=="))
    assert {len(header["x5t"]), len(header["x5t#S256"])} == {27, 43}


UNUSABLE = dict(
    enumerate(
        [
            "",
            "{}",
            "{",
            "nonsense",
            "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----",
            jwk(OctKey.generate_key(256)),
            jwk(OKPKey.generate_key("X25519")),
            json.dumps(RSA.as_dict(private=False)),
            jwk(RSA, alg="ES256"),
            jwk(RSA, alg="none"),
            jwk(RSA, n="AA"),
            "[" * 70_000,
            '{"kty":"RSA","x":' + "[" * 5_000,
        ]
    )
)


@pytest.mark.parametrize("number", UNUSABLE)
def test_unusable_key_is_refused_without_quoting_it(number: int) -> None:
    text = UNUSABLE[number]
    with pytest.raises(GrantFailed) as failed:
        SigningKey(text)
    assert failed.value.cause == CONFIGURATION
    assert failed.value.__cause__ is None
    assert not text or text[:40] not in str(failed.value)


@pytest.mark.parametrize(
    "text",
    [
        jwk(RSA, n="A" * 1_400),
        jwk(RSA, d="A" * 1_400),
        f"-----BEGIN RSA PRIVATE KEY-----\n{base64.b64encode(bytes(6_000)).decode()}\n-----END RSA PRIVATE KEY-----",
    ],
    ids=["modulus", "exponent", "PEM"],
)
def test_rsa_key_of_another_length_is_refused_by_its_length(text: str) -> None:
    with pytest.raises(GrantFailed, match="must have 2048 to 8192 bits"):
        SigningKey(text)


def without_primes(**members: str) -> str:
    public = {name: value for name, value in RSA.as_dict(private=True).items() if name in ("kty", "n", "e", "d")}
    return json.dumps({**public, **members})


def test_rsa_key_without_its_primes_signs_unless_they_take_long_to_compute() -> None:
    jwt.decode(SigningKey(without_primes()).assertion("client", ISSUER, 0), RSA, algorithms=["RS256"])
    with pytest.raises(GrantFailed, match="of more than 4096 bits must have p, q"):
        SigningKey(without_primes(n="_" * 800))


@pytest.mark.parametrize("name", ["n", "e", "d", "p", "q", "dp", "dq", "qi"])
def test_rsa_key_whose_numbers_do_not_belong_together_is_refused(name: str) -> None:
    own = str(RSA.as_dict(private=True)[name])
    for other in ("", "AA", "AQ", "Aw", own[:-3] + ("AAA" if own[-3:] != "AAA" else "AAE"), own + "AAAA"):
        with pytest.raises(GrantFailed):
            SigningKey(jwk(RSA, **{name: other}))


def test_unusable_key_is_an_error_of_each_use_and_not_of_the_start() -> None:
    client = authentication("private_key_jwt", Credential(private_key="nonsense"))
    for _ in range(2):
        with pytest.raises(GrantFailed) as failed:
            client.prepare()
        assert failed.value.cause == CONFIGURATION


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post", "private_key_jwt", "tls", ""])
def test_method_without_its_secret_is_refused(method: str) -> None:
    with pytest.raises(GrantFailed) as failed:
        authentication(method, Credential())
    assert failed.value.cause == CONFIGURATION
