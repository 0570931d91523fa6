"""Issuers whose keys are not fetched by TLS: refused, unless they are on this machine or the configuration allows
them."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from fairlead_api.bad_setting import BadSetting
from fairlead_gateway.identity.issuers_file import Issuer, load_credential_issuers
from fairlead_gateway.identity.jwt_authenticator import Tokens
from fairlead_gateway.identity.refusal import UNAVAILABLE
from issuers import HERE, JWKS, issuing


def load_issuer(folder: Path, **issuer: Any) -> Issuer:
    file = folder / "identity.yaml"
    file.write_text(json.dumps({"issuers": [issuer]}))
    return load_credential_issuers(file).issuers[0]


@pytest.mark.parametrize(
    "issuer",
    [
        {"issuer": "http://login.example.com"},
        {"issuer": "http://10.1.2.3/realm"},
        {"issuer": "http://127.0.0.1.example.com"},
        {"issuer": "https://login.example.com", "jwksUri": "http://login.example.com/keys"},
        {"issuer": "https://login.example.com", "jwksUri": "http://127.0.0.1/keys"},
        {"issuer": "http://127.0.0.1:8080", "jwksUri": "http://login.example.com/keys"},
    ],
)
def test_an_issuer_without_tls_is_refused_with_the_way_out(tmp_path: Path, issuer: dict[str, str]) -> None:
    with pytest.raises(BadSetting, match=r"must be an https URL: .* set `allowHttp: true`"):
        load_issuer(tmp_path, **issuer)
    assert load_issuer(tmp_path, **issuer, allowHttp=True).issuer == issuer["issuer"]


@pytest.mark.parametrize("url", ["http://127.0.0.1:8080/realm", "http://[::1]:8080", "http://localhost", "https://a.b"])
def test_an_issuer_on_this_machine_needs_no_tls(tmp_path: Path, url: str) -> None:
    assert load_issuer(tmp_path, issuer=url, jwksUri=url + "/keys").issuer == url


async def test_a_discovery_that_leads_to_keys_without_tls_is_not_followed(caplog: pytest.LogCaptureFixture) -> None:
    """The address `0` counts as another machine, but connections to it stay on this machine."""
    async with issuing() as issuer:
        issuer.keys_at = issuer.url.replace("127.0.0.1", "0") + JWKS
        tokens = Tokens([Issuer(issuer=issuer.url)], address=HERE, now=time.time, clock=time.monotonic)
        assert await tokens.look_up(issuer.token(aud=HERE)) is UNAVAILABLE
        assert f"must be an https URL, but is {issuer.keys_at!r}" in caplog.text
