"""Secrets under `fairlead.auth` of an `mcp.json`: they come from variables and files, and only the credential contains
them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fairlead_api.client_files.servers import ConfiguredServer, translate
from fairlead_operator.local.configfile import Configuration, read_configuration
from fairlead_operator.local.inventory import Contents, DeclaredServer
from fairlead_operator.local.references import resolve
from fairlead_operator.ports import TokenCredential

ENVIRON = {"CLIENT_SECRET": "s3cret", "LISTS": "lists-token", "CLIENT": "fairlead", "HOME": "/home/me"}
ISSUER = {"issuer": "https://login.example.com", "clientID": "${CLIENT}"}
URL = "https://tools.example.com/mcp"


def read(own: dict[str, Any], folder: Path = Path("/etc"), **entry: Any) -> Configuration:
    content = {"mcpServers": {"tools": {"url": URL, **entry, "fairlead": own}}}
    configuration = read_configuration(json.dumps(content), folder / "mcp.json", ENVIRON, lambda url: False)
    assert configuration is not None
    return configuration


def read_server(own: dict[str, Any], folder: Path = Path("/etc"), **entry: Any) -> DeclaredServer:
    configuration = read(own, folder, **entry)
    assert [str(problem) for problem in (*configuration.problems, *configuration.remarks)] == []
    return configuration.servers[0]


def test_tokens_are_exchanged_with_a_secret_of_the_environment() -> None:
    exchange = {**ISSUER, "secret": "${CLIENT_SECRET}", "scopes": ["read"]}
    declared = read_server(
        {"auth": {"tokenExchange": exchange}, "discovery": {"auth": {"bearer": {"secret": "${LISTS}"}}}}
    )

    resolved = resolve(declared, Contents())

    assert resolved.verdict.ok
    assert resolved.value is not None
    assert (resolved.value.client_secret, resolved.value.headers) == ("s3cret", {})
    assert resolved.oauth is not None
    assert (resolved.oauth.client_id, resolved.oauth.scopes) == ("fairlead", ("read",))
    assert resolved.operator_credential.value is not None
    assert resolved.operator_credential.value.headers == {"Authorization": "Bearer lists-token"}
    told = [declared.server.model_dump_json(), repr(declared)]
    assert not any(secret in text for text in told for secret in ("s3cret", "lists-token"))


def test_the_operator_lists_without_a_credential_where_none_is_given_for_lists() -> None:
    declared = read_server({"auth": {"tokenExchange": {**ISSUER, "secret": "${CLIENT_SECRET}"}}})

    assert resolve(declared, Contents()).operator_credential.value is None


def test_headers_of_the_entry_go_beside_the_token() -> None:
    grant = {"clientCredentials": {**ISSUER, "secret": "${CLIENT_SECRET}"}}
    resolved = resolve(read_server({"auth": grant}, headers={"X-Tenant": "a"}), Contents())

    operator = resolved.operator_credential.value
    assert isinstance(operator, TokenCredential)
    assert (operator.client_secret, operator.headers) == ("s3cret", {"X-Tenant": "a"})
    assert resolved.value is not None
    assert (resolved.value.client_secret, resolved.value.headers) == ("s3cret", {"X-Tenant": "a"})


def test_a_private_key_comes_from_a_file_beside_the_configuration(tmp_path: Path) -> None:
    key = "-----BEGIN PRIVATE KEY-----\nMIGH\n-----END PRIVATE KEY-----\n"
    (tmp_path / "key.pem").write_text(key)
    grant = {**ISSUER, "clientAuthentication": "private_key_jwt", "secretFile": "key.pem"}

    resolved = resolve(read_server({"auth": {"clientCredentials": grant}}, tmp_path), Contents())

    assert resolved.value is not None
    assert resolved.value.private_key == key.strip()


@pytest.mark.parametrize(
    ("own", "field", "words"),
    [
        ({"auth": {"tokenExchange": ISSUER}}, "auth.tokenExchange", "secret or secretFile has the client's secret"),
        ({"auth": {"clientCredentials": ISSUER}}, "auth.clientCredentials", "set secret, as ${NAME}, or secretFile"),
        (
            {"auth": {"clientCredentials": {**ISSUER, "secret": "${UNSET}"}}},
            "auth.clientCredentials.secret",
            "UNSET",
        ),
        (
            {"auth": {"clientCredentials": {**ISSUER, "secret": "${UNSET:-}"}}},
            "auth.clientCredentials.secret",
            "is empty",
        ),
        (
            {"auth": {"clientCredentials": {**ISSUER, "secret": "a", "secretFile": "b"}}},
            "auth.clientCredentials.secret",
            "has the same purpose as secretFile",
        ),
        (
            {"auth": {"clientCredentials": {**ISSUER, "secretFile": "gone.pem"}}},
            "auth.clientCredentials.secretFile",
            "gone.pem cannot be read",
        ),
        (
            {"auth": {"bearer": {"secret": "a"}}, "discovery": {"auth": {"bearer": {"secret": "a"}}}},
            "discovery.auth",
            "discovery.auth needs auth.tokenExchange",
        ),
        (
            {"auth": {"clientCredentials": {**ISSUER, "secret": "a", "resource": "https://other.example.com"}}},
            "auth",
            "resource must be url or a parent of it",
        ),
    ],
)
def test_a_fault_is_told_in_the_keys_of_the_file(own: dict[str, Any], field: str, words: str) -> None:
    (problem,) = read(own).problems

    assert problem.field == f"mcpServers.tools.fairlead.{field}"
    assert words in problem.message
    assert problem.line > 0


def test_a_second_authorization_is_refused() -> None:
    grant = {"clientCredentials": {**ISSUER, "secret": "${CLIENT_SECRET}"}}

    (problem,) = read({"auth": grant}, headers={"authorization": "Bearer x"}).problems

    assert "sends the header Authorization, but the field headers or apiKey also sets it" in problem.message


def test_a_secret_that_cannot_be_used_is_named_by_its_key_in_the_file() -> None:
    grant = {**ISSUER, "clientAuthentication": "private_key_jwt", "secret": "${CLIENT_SECRET}"}

    verdict = resolve(read_server({"auth": {"clientCredentials": grant}}), Contents()).verdict

    assert verdict.cause == "SecretValueInvalid"
    assert verdict.message.startswith("fairlead.auth.clientCredentials.secret is not a private key")


def test_a_command_takes_no_tokens() -> None:
    content = {
        "mcpServers": {
            "tools": {"command": "x", "fairlead": {"auth": {"clientCredentials": {**ISSUER, "secret": "a"}}}}
        }
    }
    configuration = read_configuration(json.dumps(content), Path("/etc/mcp.json"), ENVIRON, lambda url: False)

    assert configuration is not None
    (problem,) = configuration.problems
    assert problem.message == "auth is sent as an HTTP header; pass a credential to a command in env"


def test_secrets_of_a_translated_entry_do_not_show_in_its_text() -> None:
    grant = {"clientCredentials": {**ISSUER, "secret": "${CLIENT_SECRET}"}}
    entry = ConfiguredServer("tools", {"url": URL, "fairlead": {"auth": grant}}, ())

    translated = translate(entry, ENVIRON)

    assert list(translated.secrets.values()) == ["s3cret"]
    assert "s3cret" not in repr(translated)
