"""Settings that make the console a client of an OpenID provider, and messages about incomplete ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairlead_api.bad_setting import BadSetting
from fairlead_app.console_client import console_client
from fairlead_app.settings import Settings
from fairlead_gateway.identity.console_client import ConsoleClient
from fairlead_gateway.identity.issuers_file import CredentialIssuers, Issuer

CORP = Issuer(issuer="https://login.example.com", name="corp")
PARTNER = Issuer(issuer="https://login.partner.example", name="partner", audiences=("tools",))
FILE = Path("identity.yaml")


def settings(**more: Any) -> Settings:
    """Settings of a gateway at tools.example.com, with additional settings."""
    return Settings.of(
        **{"identity": FILE, "public_url": "https://tools.example.com", "console_client_id": "console", **more}
    )


def client_of(credential_issuers: CredentialIssuers, **more: Any) -> ConsoleClient | None:
    made = settings(**more)
    return console_client(made.console, made.identity, credential_issuers)


def test_an_issuer_and_the_public_url_make_the_console_a_client() -> None:
    client = client_of(CredentialIssuers(issuers=(CORP,), scopes=("mcp",)), console_scopes=("groups", "openid"))
    assert client is not None
    assert (client.base, client.resource) == ("https://tools.example.com", "https://tools.example.com")
    assert client.scopes == ("openid", "mcp", "groups")
    assert client.provider == "login.example.com"


def test_of_several_issuers_one_is_named() -> None:
    both = CredentialIssuers(issuers=(CORP, PARTNER))
    client = client_of(both, console_issuer="partner")
    assert client is not None
    assert (client.issuer, client.resource) == (PARTNER, ""), "the provider decides whom its tokens are for"


def test_the_secret_is_in_no_text_of_the_client() -> None:
    client = client_of(CredentialIssuers(issuers=(CORP,)), console_client_secret="s3cret")
    assert "s3cret" not in repr(client)


def test_without_a_client_id_nobody_signs_in_so() -> None:
    assert client_of(CredentialIssuers(issuers=(CORP,)), console_client_id="") is None


@pytest.mark.parametrize(
    ("more", "issuers", "message"),
    [
        ({"console_client_id": "", "console_client_secret": "x"}, (CORP,), "set FAIRLEAD_CONSOLE_CLIENT_ID too"),
        ({}, (), "name it under `issuers`"),
        ({}, (CORP, PARTNER), "one issuer of identity.yaml: corp, partner"),
        ({"console_issuer": "other"}, (CORP,), "one issuer of identity.yaml: corp"),
        ({"public_url": ""}, (CORP,), "set FAIRLEAD_CONSOLE_URL"),
        ({"public_url": "https://example.com/tools"}, (CORP,), "to a URL without a path"),
        ({"console_url": "https://tools.example.com?a=b"}, (CORP,), "without credentials, query and fragment"),
        ({"console_url": "http://tools.example.com"}, (CORP,), "must be an https URL"),
    ],
)
def test_settings_that_cannot_work_are_refused_at_the_start(
    more: dict[str, Any], issuers: tuple[Issuer, ...], message: str
) -> None:
    with pytest.raises(BadSetting, match=message):
        client_of(CredentialIssuers(issuers=issuers), **more)


@pytest.mark.parametrize("url", ["http://127.0.0.1:8080", "http://localhost:8080", "http://[::1]:8080"])
def test_http_is_enough_for_a_console_on_this_machine(url: str) -> None:
    client = client_of(CredentialIssuers(issuers=(CORP,)), console_url=f"{url}/")
    assert client is not None
    assert client.base == url


@pytest.mark.parametrize("url", ["https://tools.example.com/mcp", "https://example.com/tools/mcp/"])
def test_a_public_url_that_ends_in_mcp_is_refused_because_endpoints_are_added_to_it(url: str) -> None:
    with pytest.raises(BadSetting, match=r"FAIRLEAD_PUBLIC_URL.* without .* and /mcp"):
        settings(public_url=url)


@pytest.mark.parametrize("url", ["https://mcp.example.com", "https://example.com/mcp-tools", "https://example.com/a/"])
def test_a_public_url_may_have_mcp_in_its_host_and_another_path(url: str) -> None:
    assert settings(public_url=url).identity.public_url == url
