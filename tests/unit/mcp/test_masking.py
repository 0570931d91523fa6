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
    mask = Mask(None).adding(f"Bearer {secret}")
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
    error = Mask(None).adding(f"Bearer {LONG}").error(NotMcp(f"got {LONG}", excerpt=f"got {LONG[:40]}…"))
    assert (str(error), error.excerpt) == ("got [credential]", "got [credential]…")
