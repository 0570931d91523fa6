"""Masking of a server's errors: secrets are removed, and the reason of the error stays."""

from __future__ import annotations

import hashlib

import pytest

from fairlead_api.documents.catalog import Credential
from fairlead_mcp import jsonrpc
from fairlead_mcp.errors import NotMcp
from fairlead_mcp.masking import Mask


def test_secrets_are_taken_out_and_paths_of_certificates_are_not() -> None:
    mask = Mask(
        Credential(
            headers={"Authorization": "Bearer s3cret"},
            env={
                "TOKEN": "t0ken",
                "SSL_CERT_FILE": "/etc/own.pem",
                "https_proxy": "http://ada:passw0rd@proxy:3128",
                "NO_PROXY": "localhost",
            },
        )
    )
    assert mask.text("t0ken and s3cret") == "[credential] and [credential]"
    assert mask.text("no file /etc/own.pem on localhost") == "no file /etc/own.pem on localhost"
    assert mask.text("cannot reach http://ada:passw0rd@proxy:3128") == "cannot reach [credential]"


LONG = "eyJ" + hashlib.sha512(b"").hexdigest()


@pytest.mark.parametrize("secret", [LONG, "hunter2!correct-horse"])
def test_secret_that_an_excerpt_cuts_is_masked_wherever_the_cut_is(secret: str) -> None:
    mask = Mask(None).with_value(f"Bearer {secret}")
    half = len(secret) // 2
    for length in range(1_000):
        quoted = jsonrpc.excerpt(f"{' ' * (length % 500)}{'x' * (length // 8)} {secret} is not good".encode())
        shown = mask.text(f"the answer is {quoted}: correct the server")
        assert secret[: min(half, 16)] not in shown


def test_word_that_begins_like_a_secret_is_shown() -> None:
    mask = Mask(Credential(token="token-of-ada"))
    text = "a wrong token… and no token"
    assert mask.text(text) == text


def test_excerpt_in_an_error_is_masked_too() -> None:
    error = Mask(None).with_value(f"Bearer {LONG}").error(NotMcp(f"got {LONG}", excerpt=f"got {LONG[:40]}…"))
    assert (str(error), error.excerpt) == ("got [credential]", "got [credential]…")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GOOGLE_OAUTH_CREDENTIALS", "/path/to/your/gcp-oauth.keys.json"),
        ("GOOGLE_APPLICATION_CREDENTIALS", r"C:\Users\Ada Lovelace\keys.json"),
        ("PRIVATE_KEY_PATH", "~/.ssh/id_ed25519.pem"),
        ("TOKEN_FILE", "/run/secrets/token"),
        ("CREDENTIALS", "credentials.json"),
        ("AUTH_ENABLED", "true"),
        ("AUTH_MODE", "none"),
        ("MAX_TOKENS", "4096"),
        ("OAUTH_ISSUER", "https://login.example.com:8443/realms/boat/v2.0"),
        ("MODE", "fast"),
        ("TZ", "Europe/Berlin"),
    ],
)
def test_values_that_are_not_secret_are_shown_whatever_their_name(name: str, value: str) -> None:
    text = f"cannot use {value}: correct it"
    assert Mask.of_process([], {name: value}).text(text) == text
    assert Mask.of_process([f"--{name}={value}"], {}).text(text) == text
    assert Mask(Credential(env={name: value})).text(text) == text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("API_KEY", "/k3v+Ab9xQ/7dPz0aK2mN4=="),
        ("API_KEY", "eyJhbGciOi.eyJzdWIiOiIx.c2lnbmF0dXJl"),
        ("API_KEY", "hunter"),
        ("PASSWORD", "/hunter2"),
        ("PASSWORD", "482913"),
        ("TOKEN", "123456789"),
        ("AUTH_URL", "https://hooks.example.com/services/T012AB/x9Yz"),
        ("AUTH_URL", "https://hooks.example.com/qwkzrtbvnmxlpfhgdsjyacuoei"),
        ("AUTH_URL", "https://example.com/?key=s3cret"),
        ("SENTRY_DSN", "https://abc123@sentry.example.com/7"),
    ],
)
def test_secret_that_resembles_a_path_or_number_is_masked(name: str, value: str) -> None:
    assert Mask.of_process([], {name: value}).text(f"got {value}") == "got [credential]"
    assert Mask(Credential(env={name: value})).text(f"got {value}") == "got [credential]"


def test_values_of_secrets_are_masked_whatever_they_look_like() -> None:
    assert Mask.of_values(["/run/secrets/token", "fast"]).text("/run/secrets/token fast") == "[credential] [credential]"
