"""Authentication to a server: with a fixed value or with tokens that the gateway obtains; valid issuers and
resources."""

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
    assert (own.grant, own.static_value) == (own.client_credentials, None)
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
    assert (auth.grant, auth.of_caller, auth.static_value) == (auth.user_consent, auth.user_consent, None)


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


def test_a_key_of_each_person_is_of_the_caller_and_no_grant() -> None:
    auth = spec(**URL, auth={"userKey": {"header": {"name": "X-API-Key"}}}).auth

    assert auth is not None
    assert auth.user_key is not None
    assert (auth.grant, auth.of_caller, auth.of_person, auth.static_value) == (None, auth.user_key, auth.user_key, None)


PROCESS = {"command": ["server"], "session": "PerClient"}


def test_a_key_in_the_environment_is_for_processes_of_one_client_each() -> None:
    keyed = {"userKey": {"env": "DESK_KEY"}}

    assert spec(**PROCESS, auth=keyed).starts_with_keys
    package = {"registry": "npm", "name": "server", "version": "1.0.0"}
    assert spec(package=package, session="PerClient", auth=keyed).starts_with_keys
    for members in ({"command": ["server"]}, {**URL, "session": "PerClient"}):
        with pytest.raises(
            ValidationError,
            match=r"userKey\.env needs command, package or an image with transport stdio, and session: PerClient",
        ):
            spec(**members, auth=keyed)


@pytest.mark.parametrize("name", ["", "9KEY", "A KEY", "A=B", "KEY\n"])
def test_the_variable_of_a_key_has_a_name(name: str) -> None:
    with pytest.raises(ValidationError):
        spec(**PROCESS, auth={"userKey": {"env": name}})


def test_lists_of_a_process_that_starts_with_a_key_have_no_credential_of_their_own() -> None:
    lists = {"auth": {"firstGrant": True}}
    with pytest.raises(ValidationError, match="a program that needs a key to start gets one for lists in env"):
        spec(**PROCESS, auth={"userKey": {"env": "DESK_KEY"}}, discovery=lists)


@pytest.mark.parametrize(
    ("members", "default", "first"),
    [
        ({**URL, "auth": {"userKey": {"header": {"name": "X-Key"}}}}, True, True),
        ({**URL, "auth": {"userKey": {"header": {"name": "X-Key"}}}}, False, False),
        ({**PROCESS, "auth": {"userKey": {"env": "DESK_KEY"}}}, True, False),
    ],
)
def test_a_server_is_listed_with_the_first_key_only_where_it_is_sent(
    members: dict[str, Any], default: bool, first: bool
) -> None:
    assert spec(**members).lists_with_first_grant(default=default) is first
