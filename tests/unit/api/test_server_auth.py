"""Authentication to a server: by a value or by tokens that are obtained; valid issuers and resources."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from fairlead_api.documents.oauth import STANDARD_PARAMETERS
from fairlead_api.v1alpha1.mcpserver import McpServerSpec

URL = {"url": "https://tools.example.com/mcp"}


def spec(**members: Any) -> McpServerSpec:
    return McpServerSpec.model_validate(members)


def test_a_grant_is_found_behind_whichever_way_tokens_are_obtained() -> None:
    client = {"issuer": "https://login.example.com", "clientID": "fairlead", "secretRef": {"name": "client"}}
    own = spec(**URL, auth={"clientCredentials": client}).auth
    exchanged = spec(**URL, auth={"tokenExchange": client}, discovery={"auth": {"clientCredentials": client}})

    assert own is not None
    assert own.grant is not None
    assert (own.grant, own.static) == (own.client_credentials, None)
    assert exchanged.auth is not None
    assert exchanged.auth.grant is not None
    assert exchanged.auth.grant == exchanged.auth.token_exchange
    assert exchanged.discovery.auth is not None
    assert exchanged.discovery.auth.grant == exchanged.discovery.auth.client_credentials


@pytest.mark.parametrize(
    ("url", "resource", "good"),
    [
        ("https://a.example/mcp", "https://a.example/mcp", True),
        ("https://a.example/mcp", "https://a.example", True),
        ("https://a.example/mcp", "https://a.example/", True),
        ("https://a.example/one/mcp?x=1", "https://a.example/one", True),
        ("https://a.example/mcp?x=1", "https://a.example/mcp", True),
        ("https://a.example", "https://a.example/", True),
        ("https://a.example/mcp", "https://a.example/mc", False),
        ("https://a.example/mcp", "https://a.example/mcp/inner", False),
        ("https://a.example/mcp", "https://a.exampl", False),
        ("https://a.example/mcp", "http://a.example/mcp", False),
        ("https://a.example:8443/mcp", "https://a.example", False),
    ],
)
def test_a_resource_is_the_url_or_a_parent_at_the_same_origin(url: str, resource: str, good: bool) -> None:
    client = {"issuer": "https://a.example", "clientID": "f", "secretRef": {"name": "c"}, "resource": resource}

    if good:
        spec(url=url, auth={"clientCredentials": client})
    else:
        with pytest.raises(ValidationError, match="resource must be url or a parent of it"):
            spec(url=url, auth={"clientCredentials": client})


def test_a_consent_needs_no_member_and_its_grant_is_of_the_caller() -> None:
    auth = spec(**URL, auth={"userConsent": {}}).auth

    assert auth is not None
    assert auth.user_consent is not None
    assert (auth.grant, auth.of_caller, auth.static) == (auth.user_consent, auth.user_consent, None)


@pytest.mark.parametrize(
    "members",
    [
        {"command": ["server"], "auth": {"userConsent": {}}},
        {"package": {"registry": "npm", "name": "server", "version": "1.0.0"}, "auth": {"userConsent": {}}},
        {**URL, "remote": {"transport": "sse"}, "auth": {"userConsent": {}}},
    ],
    ids=["command", "package", "sse"],
)
def test_a_consent_is_for_servers_that_get_a_credential_with_each_request(members: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=r"auth is sent as an HTTP header|need transport streamable-http"):
        spec(**members)


@pytest.mark.parametrize("name", sorted(STANDARD_PARAMETERS))
def test_no_parameter_replaces_a_standard_one(name: str) -> None:
    client = {"issuer": "https://a.example", "clientID": "f", "secretRef": {"name": "c"}, "parameters": {name: "x"}}

    with pytest.raises(ValidationError, match="must not name standard parameters"):
        spec(**URL, auth={"clientCredentials": client})


@pytest.mark.parametrize(
    ("issuer", "good"),
    [
        ("https://login.example.com/realms/a", True),
        ("http://localhost:8080/realms/a", True),
        ("http://127.0.0.1:5556/dex", True),
        ("http://[::1]:5556", True),
        ("http://dex.auth.svc:5556/dex", True),
        ("http://dex.auth.svc.cluster.local/dex", True),
        ("http://login.example.com", False),
        ("http://localhost.example.com", False),
        ("http://127.0.0.1.example.com", False),
        ("http://dex.auth.svc.example.com", False),
        ("https://me@login.example.com", False),
        ("https://login.example.com/?a=b", False),
        ("https://login.example.com/#a", False),
        ("ftp://login.example.com", False),
    ],
)
def test_secrets_go_to_https_or_to_hosts_of_this_machine_and_cluster(issuer: str, good: bool) -> None:
    client = {"issuer": issuer, "clientID": "f", "secretRef": {"name": "c"}}

    if good:
        spec(**URL, auth={"tokenExchange": client})
    else:
        with pytest.raises(ValidationError, match="must be an https URL"):
            spec(**URL, auth={"tokenExchange": client})
