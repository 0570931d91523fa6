"""OAuth clients in the files of MCP clients: the keys of each client's format, and unused keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fairlead_operator.local.configfile import Configuration, read_configuration
from fairlead_operator.local.inventory import Contents, DeclaredServer
from fairlead_operator.local.references import resolve

URL = "https://tools.example.com/mcp"
LOGIN = "https://login.example.com"


def read(entry: dict[str, Any], member: str = "mcpServers") -> Configuration:
    content = {member: {"tools": {"url": URL, **entry}}}
    configuration = read_configuration(json.dumps(content), Path("/etc/mcp.json"), {"S": "s3cret"}, lambda url: False)
    assert configuration is not None
    return configuration


def read_server(entry: dict[str, Any], member: str = "mcpServers") -> DeclaredServer:
    configuration = read(entry, member)
    assert configuration.problems == []
    return configuration.servers[0]


def consent(entry: dict[str, Any], member: str = "mcpServers") -> dict[str, Any] | None:
    """`auth.userConsent` of an entry, in the form of a manifest; None without `auth`."""
    auth = read_server(entry, member).server.spec.auth
    if auth is None:
        return None
    assert auth.user_consent is not None
    return auth.user_consent.model_dump(mode="json", by_alias=True, exclude_defaults=True)


@pytest.mark.parametrize(
    ("member", "entry", "expected"),
    [
        (
            "mcpServers",
            {
                "type": "http",
                "oauth": {
                    "clientId": "c",
                    "callbackPort": 8765,
                    "scopes": "a b a",
                    "authServerMetadataUrl": f"{LOGIN}/.well-known/oauth-authorization-server/team",
                },
            },
            {"clientID": "c", "callbackPort": 8765, "scopes": ["a", "b"], "issuer": f"{LOGIN}/team"},
        ),
        ("servers", {"type": "http", "oauth": {"clientId": "c"}}, {"clientID": "c"}),
        (
            "mcpServers",
            {"auth": {"CLIENT_ID": "c", "CLIENT_SECRET": "${env:S}", "scopes": ["a"], "issuer": LOGIN}},
            {
                "clientID": "c",
                "scopes": ["a"],
                "issuer": LOGIN,
                "secretRef": {"name": "tools", "key": "auth.CLIENT_SECRET"},
            },
        ),
        ("mcpServers", {"auth": {"clientId": "c", "callbackPort": "8765"}}, {"clientID": "c", "callbackPort": 8765}),
        (
            "mcp_servers",
            {"oauth": {"client_id": "c", "callback_port": 8765}, "scopes": ["a"], "oauth_resource": URL},
            {"clientID": "c", "callbackPort": 8765, "scopes": ["a"], "resource": URL},
        ),
        (
            "mcpServers",
            {
                "oauth": {
                    "enabled": True,
                    "clientId": "c",
                    "authorizationUrl": f"{LOGIN}/authorize",
                    "tokenUrl": f"{LOGIN}/token",
                    "scopes": ["a"],
                }
            },
            {
                "clientID": "c",
                "authorizationURL": f"{LOGIN}/authorize",
                "tokenURL": f"{LOGIN}/token",
                "scopes": ["a"],
            },
        ),
        (
            "mcpServers",
            {"oauth": {"clientId": "c", "redirectUri": "127.0.0.1:8080"}, "oauthScopes": ["a"]},
            {"clientID": "c", "callbackPort": 8080, "scopes": ["a"]},
        ),
        (
            "mcp",
            {"type": "remote", "oauth": {"clientId": "c", "scope": "a b"}},
            {"clientID": "c", "scopes": ["a", "b"]},
        ),
        (
            "mcpServers",
            {"oauth": {"client_id": "c", "redirect_uri": "http://localhost:3080/callback", "scope": "a"}},
            {"clientID": "c", "callbackPort": 3080, "scopes": ["a"]},
        ),
    ],
    ids=["Claude Code", "VS Code", "Cursor", "a port", "Codex", "Gemini CLI", "Kiro", "opencode", "LibreChat"],
)
def test_a_client_that_is_registered_by_hand_is_read_as_each_program_writes_it(
    member: str, entry: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert consent(entry, member) == expected
    assert read(entry, member).remarks == []


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"oauth": {}},
        {"oauth": False},
        {"oauth": {"enabled": False, "clientId": "c"}},
        {"auth": "oauth"},
        {"type": "sse", "oauth": {"clientId": "c"}},
        {"oauth": {"clientId": "c"}, "headers": {"Authorization": "Bearer ${S}"}},
        {"oauth": {"clientId": "c"}, "apiKey": "${S}"},
    ],
)
def test_an_entry_without_a_client_or_with_a_credential_names_no_consent(entry: dict[str, Any]) -> None:
    assert consent(entry) is None
    assert read(entry).remarks == []


def test_the_fields_of_fairlead_win_over_the_keys_of_clients() -> None:
    own = {"auth": {"userConsent": {"issuer": LOGIN, "clientID": "mine", "secret": "${S}"}}}

    assert consent({"oauth": {"clientId": "c"}, "fairlead": own}) == {
        "issuer": LOGIN,
        "clientID": "mine",
        "secretRef": {"name": "tools", "key": "fairlead.auth.userConsent.secret"},
    }


def test_the_secret_of_a_client_reaches_the_credential_and_no_manifest() -> None:
    declared = read_server({"auth": {"CLIENT_ID": "c", "CLIENT_SECRET": "${S}", "issuer": LOGIN}})

    resolved = resolve(declared, Contents())

    assert resolved.value is not None
    assert resolved.value.client_secret == "s3cret"
    assert resolved.oauth is not None
    assert (resolved.oauth.client_authentication, resolved.oauth.first_grant) == ("client_secret_basic", True)
    assert "s3cret" not in declared.server.model_dump_json() + repr(declared)


@pytest.mark.parametrize(
    ("entry", "key", "words"),
    [
        ({"oauth": {"clientId": "c", "clientName": "x"}}, "oauth.clientName", "is not used: Fairlead reads clientId"),
        ({"auth": {"CLIENT_SECRET": "x"}}, "auth.CLIENT_SECRET", "there is no client id beside it"),
        ({"oauth": {"clientId": "c", "tokenUrl": f"{LOGIN}/t"}}, "oauth", "need authorizationUrl, tokenUrl and"),
        ({"oauth": {"clientId": "c", "redirectUri": "cursor://a/b"}}, "oauth.redirectUri", "is not used"),
        ({"oauth": {"clientId": "c", "redirectUri": "127.0.0.1:99999"}}, "oauth.redirectUri", "is not used"),
        (
            {"oauth": {"clientId": "c", "redirectUri": "http://localhost:7778/oauth/callback"}},
            "oauth.redirectUri",
            "register http://localhost:7778/callback too",
        ),
        ({"oauth": {"clientId": "c", "authServerMetadataUrl": LOGIN}}, "oauth.authServerMetadataUrl", "is not used"),
        ({"oauth": {"clientId": "YOUR_CLIENT_ID"}}, "oauth.clientId", "looks like a placeholder"),
    ],
)
def test_a_key_that_is_not_used_is_named_and_its_server_runs(entry: dict[str, Any], key: str, words: str) -> None:
    configuration = read(entry)

    assert (len(configuration.servers), configuration.problems) == (1, [])
    (remark,) = configuration.remarks
    assert f"mcpServers.tools.{key}: " in str(remark)
    assert words in str(remark)


@pytest.mark.parametrize(
    ("entry", "key", "words"),
    [
        ({"oauth": {"clientId": "c", "callbackPort": 0}}, "oauth.callbackPort", "must be the number of a port"),
        ({"oauth": {"clientId": "${UNSET}"}}, "oauth.clientId", "UNSET"),
        ({"oauth": {"clientId": "c", "scope": ["a b"]}}, "oauth.scope", "must be one scope"),
        (
            {"oauth": {"clientId": "c", "authorizationUrl": "http://a.example/a", "tokenUrl": f"{LOGIN}/t"}},
            "oauth.authorizationUrl",
            "must be an https URL",
        ),
        ({"auth": {"CLIENT_ID": "c", "CLIENT_SECRET": "x"}}, "auth", "a client with a secret needs issuer"),
        ({"scopes": ["a"], "oauth_resource": "https://other.example"}, "oauth_resource", "resource must be url or"),
    ],
)
def test_a_value_that_cannot_be_used_is_named_by_the_key_of_the_client(
    entry: dict[str, Any], key: str, words: str
) -> None:
    configuration = read(entry)

    assert configuration.servers == []
    (problem,) = configuration.problems
    assert f"mcpServers.tools.{key}: " in str(problem)
    assert words in str(problem)


CODEX = """
model = "gpt-5.5"
model_reasoning_effort = "high"
approval_policy = "on-request"
sandbox_mode = "workspace-write"
file_opener = "vscode"
notify = ["python3", "/home/ada/.codex/notify.py"]
mcp_oauth_credentials_store = "auto"
mcp_oauth_callback_port = 5555
mcp_oauth_callback_url = "http://127.0.0.1:5555/callback"

[sandbox_workspace_write]
network_access = false

[history]
persistence = "save-all"

[tui]
notifications = ["agent-turn-complete", "approval-requested"]

[projects."/home/ada/shop"]
trust_level = "trusted"

[mcp_servers.context7]
command = "npx"
args = ["-y", "@upstash/context7-mcp@1.0.30"]
startup_timeout_sec = 20

[mcp_servers.linear]
url = "https://mcp.linear.app/mcp"

[mcp_servers.tickets]
url = "https://tools.example.com/mcp"
scopes = ["tickets:read"]
oauth_resource = "https://tools.example.com"
tool_timeout_sec = 90
enabled_tools = ["search", "open"]

[mcp_servers.tickets.oauth]
client_id = "codex-desktop"

[mcp_servers.drive]
url = "https://drive.example.com/mcp"
required = true

[mcp_servers.drive.oauth]
client_id = "drive-client"
callback_port = 6666

[mcp_servers.drive.tools.delete]
approval_mode = "prompt"

[profiles.quick]
model = "gpt-5.5-mini"
approval_policy = "never"
"""
"""The whole `config.toml` of a user of Codex, with the keys of its configuration reference."""


def codex(text: str) -> Configuration:
    configuration = read_configuration(text, Path("/home/ada/.codex/config.toml"), {}, lambda url: False)
    assert configuration is not None
    return configuration


def test_the_port_that_codex_has_for_all_servers_is_that_of_each_registered_client_without_its_own() -> None:
    configuration = codex(CODEX)

    assert configuration.problems == []
    assert [str(remark) for remark in configuration.remarks if "oauth" in str(remark)] == []
    servers = {declared.server.metadata.name: declared.server.spec for declared in configuration.servers}
    assert list(servers) == ["context7", "linear", "tickets", "drive"]
    consents = {name: None if spec.auth is None else spec.auth.user_consent for name, spec in servers.items()}
    ports = {name: consent.callback_port for name, consent in consents.items() if consent is not None}
    assert ports == {"tickets": 5555, "drive": 6666}
    tickets = consents["tickets"]
    assert tickets is not None
    assert (tickets.client_id, tickets.scopes) == ("codex-desktop", ["tickets:read"])


def test_a_port_of_codex_that_cannot_be_one_is_named_by_its_key() -> None:
    (problem,) = codex(CODEX.replace("_port = 5555", "_port = 99999")).problems
    assert problem.field == "mcp_servers.tickets.mcp_oauth_callback_port"
    assert "must be the number of a port" in problem.message
