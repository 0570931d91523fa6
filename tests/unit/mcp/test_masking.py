"""Masking of a server's errors: its secrets go, and nothing that says what is wrong."""

from __future__ import annotations

from fairlead_api.documents.catalog import Credential
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
