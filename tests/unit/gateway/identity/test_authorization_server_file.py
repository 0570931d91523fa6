"""`authorizationServer` of identity.yaml: each mistake stops the start with a message that says what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead_api.bad_setting import BadSetting
from fairlead_gateway.identity.issuers_file import CredentialIssuers, load_credential_issuers

ISSUERS = [{"issuer": "https://login.example.com", "name": "corp"}, {"issuer": "https://partner.example"}]
PROVIDER = {"issuer": "corp", "clientId": "fairlead"}
SERVER = {"providers": [PROVIDER], "clientHosts": ["claude.ai", "vscode.dev"]}


def load(tmp_path: Path, server: dict[str, Any], **members: Any) -> CredentialIssuers:
    file = tmp_path / "identity.yaml"
    file.write_text(yaml.safe_dump({"issuers": ISSUERS, "authorizationServer": server, **members}))
    return load_credential_issuers(file)


def test_authorization_server_is_off_unless_the_file_has_it(tmp_path: Path) -> None:
    file = tmp_path / "identity.yaml"
    file.write_text(yaml.safe_dump({"issuers": ISSUERS}))
    assert load_credential_issuers(file).authorization_server is None


def test_all_that_can_be_set_is_read(tmp_path: Path) -> None:
    server = load(
        tmp_path,
        {
            "providers": [
                {**PROVIDER, "clientSecretFile": "/etc/secret", "scopes": ["profile"]},
                {"issuer": "https://partner.example", "clientId": "tools"},
            ],
            "clientHosts": ["claude.ai", "apps.example.com:8443", "*"],
            "clients": [{"id": "shop", "redirectUris": ["https://shop.example/cb"], "secretSha256": "0" * 64}],
            "registration": {"redirectHosts": ["localhost", "vscode.dev", "cursor://anysphere.cursor-mcp", "a.b:"]},
            "agents": {"claude": "https://claude.ai/oauth/mcp-oauth-client-metadata", "seller": "shop"},
            "tokenSeconds": 300,
            "assertions": ["corp"],
            "workloads": "allow",
        },
        serviceAccounts={"audiences": ["fairlead"]},
    ).authorization_server
    assert server is not None
    assert server.providers[0].client_secret_file == Path("/etc/secret")
    assert server.agent_names["shop"] == "seller"
    assert server.registration is not None
    assert (server.token_seconds, server.registration.days) == (300, 90)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"providers": []}, "authorizationServer.providers: must have at least 1 entry"),
        ({"provider": []}, "authorizationServer.provider: is unknown; did you mean providers?"),
        ({"tokens": 60}, "tokens: is unknown"),
        (
            {"providers": [{"issuer": "corp", "clientID": "fairlead"}]},
            "providers[0].clientID: is unknown; did you mean clientId?",
        ),
        ({"providers": [{**PROVIDER, "clientSecret": "x"}]}, "did you mean clientSecretFile?"),
        (
            {"providers": [{**PROVIDER, "clientHosts": ["claude.ai"]}]},
            "; clientHosts is a member of authorizationServer: move it there",
        ),
        ({"providers": [{**PROVIDER, "prompt": "none"}]}, "shows no page to sign in: omit it, or set consent"),
        ({"tokenSeconds": 3_600}, "tokenSeconds: must be at most 600"),
        (
            {"clients": [{"id": "a", "redirectUris": ["https://a/"], "secretSha256": "0" * 64 + "\n"}]},
            "must have at most 64 characters",
        ),
        ({"unrenewedHours": 24}, "must be at most 12"),
        (
            {"providers": [{**PROVIDER, "issuer": "other"}]},
            "providers names other, and issuers has corp, https://partner.example: add it there, or correct the name",
        ),
        (
            {"providers": [PROVIDER, {**PROVIDER, "issuer": "https://login.example.com"}]},
            "providers has the issuer corp twice: leave one of them out",
        ),
        ({"assertions": ["other"]}, "assertions names other, and issuers has corp"),
        ({"clientHosts": []}, "no client could connect: set clientHosts, such as"),
        ({"clientHosts": ["https://claude.ai"]}, "clientHosts has https://claude.ai, which is not a host"),
        ({"clientHosts": ["Claude.ai"]}, "clientHosts has Claude.ai, which is not a host: write a name in lower case"),
        ({"clientHosts": ["*.claude.ai"]}, "which is not a host"),
        ({"clientHosts": ["claude.ai:443"]}, "a port where it is not 443"),
        ({"clientHosts": ["10.0.0.1"]}, "which is not a host"),
        ({"clientHosts": ["localhost"]}, "which is not a host"),
        (
            {"clients": [{"id": "a", "redirectUris": ["https://a.example/"]}] * 2},
            "clients has the id a twice: leave one of them out",
        ),
        ({"clients": [{"id": "a", "redirectUris": []}]}, "must have at least 1 entry"),
        (
            {"clients": [{"id": "a", "redirectUris": ["https://a.example/"], "secretSha256": "x"}]},
            "must match the regular expression",
        ),
        (
            {"agents": {"a": "https://claude.ai/c", "b": "https://claude.ai/c"}},
            "agents has two names for the client https://claude.ai/c",
        ),
        ({"agents": {"a": "nobody"}}, "agents has nobody as a, which is neither an id of clients nor the https URL"),
        (
            {"agents": {"a": "https://claude.ai/c"}, "clients": [{"id": "a", "redirectUris": ["https://a.example/"]}]},
            "agents has the name a for https://claude.ai/c, and clients has that id: choose another name",
        ),
        ({"registration": {"redirectHosts": []}}, "must have at least 1 entry"),
        ({"registration": {"redirectHosts": ["*"]}}, "registration.redirectHosts has *, which is not a host"),
        (
            {"registration": {"redirectHosts": ["https://vscode.dev"]}},
            "which is not a host: write a name in lower case",
        ),
        ({"registration": {"redirectHosts": ["127.0.0.1"]}}, "localhost for loopback addresses"),
        ({"workloads": "allow"}, "workloads is allow, and ServiceAccounts are not accepted: set serviceAccounts"),
        ({"sessionHours": 6}, "unrenewedHours is 12 and sessionHours 6: no session may be longer"),
    ],
)
def test_a_mistake_is_refused_with_the_file_and_what_to_do(tmp_path: Path, change: dict[str, Any], says: str) -> None:
    with pytest.raises(BadSetting) as caught:
        load(tmp_path, {**SERVER, **change})
    assert says in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / "identity.yaml"))
