"""The gateway as an authorization server in the chart: its file, secrets and routes, and required values."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from fairlead_gateway.identity.issuers_file import load_credential_issuers
from helmworld import API_VERSIONS, Helm, Object, Refused, container, environment, of_kind, rendered_object
from page_examples import ROOT, values

pytestmark = pytest.mark.timeout(120)
VALUES = Path(__file__).parent / "values" / "authorization.yaml"
WELL_KNOWN = (
    "/.well-known/oauth-authorization-server",
    "/.well-known/openid-configuration",
    "/.well-known/oauth-protected-resource/servers/team/demo/mcp",
    "/oauth/authorize",
    "/oauth/callback/corp",
    "/oauth/token",
    "/servers/team/demo/mcp",
)


def test_the_gateway_reads_what_the_values_say_with_its_secret_from_a_file(helm: Helm, tmp_path: Path) -> None:
    manifests = helm.template("--values", str(VALUES))
    file = tmp_path / "identity.yaml"
    file.write_text(rendered_object(manifests, "ConfigMap", "fairlead-gateway")["data"]["identity.yaml"])
    server = load_credential_issuers(file).authorization_server
    assert server is not None
    (provider,) = server.providers
    assert provider.client_secret_file == Path("/etc/fairlead-authorization/0")
    assert server.registration is not None
    assert (server.registration.days, server.session_hours) == (30, 168)
    pod = rendered_object(manifests, "Deployment", "fairlead-gateway")["spec"]["template"]["spec"]
    (volume,) = [volume for volume in pod["volumes"] if volume["name"] == "client-secrets"]
    assert volume["projected"]["sources"] == [
        {"secret": {"name": "sign-in", "items": [{"key": "clientSecret", "path": "0"}]}}
    ]
    mounts = {mount["name"]: mount["mountPath"] for mount in container(manifests, "gateway")["volumeMounts"]}
    assert mounts["client-secrets"] == "/etc/fairlead-authorization"
    variables = environment(manifests, "gateway")
    assert variables["FAIRLEAD_GRANTS"] == "redis"
    assert "FAIRLEAD_SESSION_KEY" in variables


def test_the_page_about_it_shows_values_that_the_gateway_reads(helm: Helm, tmp_path: Path) -> None:
    page = ROOT / "docs" / "install" / "authorization-server.md"
    (shown,) = [shown for _, shown in values(page)]
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(shown))
    manifests = helm.template("--values", str(tmp_path / "values.yaml"))
    file = tmp_path / "identity.yaml"
    file.write_text(rendered_object(manifests, "ConfigMap", "fairlead-gateway")["data"]["identity.yaml"])
    server = load_credential_issuers(file).authorization_server
    assert server is not None
    assert server.client_hosts == ("claude.ai", "vscode.dev", "chatgpt.com", "zed.dev")
    (provider,) = server.providers
    assert f"/oauth/callback/{provider.issuer}`" in page.read_text()


def test_authorization_server_is_off_unless_the_values_have_it(helm: Helm) -> None:
    manifests = helm.template()
    assert not [item for item in of_kind(manifests, "ConfigMap") if "identity.yaml" in item.get("data", {})]
    assert "authorization" not in yaml.safe_dump(rendered_object(manifests, "Deployment", "fairlead-gateway"))


def test_several_providers_have_a_secret_each_and_a_public_client_none(helm: Helm, tmp_path: Path) -> None:
    several = yaml.safe_load(VALUES.read_text())
    several["identity"]["issuers"] += [{"issuer": "https://a.example"}, {"issuer": "https://b.example"}]
    several["identity"]["authorizationServer"]["providers"] += [
        {"issuer": "https://a.example", "clientId": "public"},
        {"issuer": "https://b.example", "clientId": "b", "clientSecret": {"name": "b", "key": "s"}},
    ]
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(several))
    manifests = helm.template("--values", str(file))
    identity = yaml.safe_load(rendered_object(manifests, "ConfigMap", "fairlead-gateway")["data"]["identity.yaml"])
    assert [provider.get("clientSecretFile") for provider in identity["authorizationServer"]["providers"]] == [
        "/etc/fairlead-authorization/0",
        None,
        "/etc/fairlead-authorization/2",
    ]
    assert not any("clientSecret" in provider for provider in identity["authorizationServer"]["providers"])


def test_the_routes_carry_metadata_and_endpoints_which_are_outside_of_those_of_mcp(helm: Helm) -> None:
    words = ("--set", "gateway.httpRoute.enabled=true", "--set", "gateway.httpRoute.parentRefs[0].name=public")
    manifests = helm.template("--values", str(VALUES), *words, *API_VERSIONS)
    (ingress,) = of_kind(manifests, "Ingress")
    (rule,) = ingress["spec"]["rules"]
    prefixes = [path["path"] for path in rule["http"]["paths"] if path["pathType"] == "Prefix"]
    (route,) = of_kind(manifests, "HTTPRoute")
    routed = [match["path"] for rule in route["spec"]["rules"] for match in rule["matches"]]
    for path in WELL_KNOWN:
        assert any(path.startswith(prefix) for prefix in prefixes), path
        assert any(match["type"] == "PathPrefix" and path.startswith(match["value"]) for match in routed), path


AT = "identity.authorizationServer"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([f"{AT}.clientHosts={{https://claude.ai}}"], "clientHosts has https://claude.ai, which is not a host"),
        ([f"{AT}.clientHosts={{claude.ai:443}}"], "clientHosts has claude.ai:443, which is not a host"),
        (
            [f"{AT}.registration.redirectHosts={{https://vscode.dev}}"],
            "redirectHosts has https://vscode.dev, which is n",
        ),
        ([f"{AT}.registration.redirectHosts={{127.0.0.1}}"], "redirectHosts has 127.0.0.1, which is not a host"),
        ([f"{AT}.assertions={{other}}"], "assertions names other, which identity.issuers has neither"),
        (
            [
                f"{AT}.clients[{number}].{each}"
                for number in (0, 1)
                for each in ("id=a", "redirectUris={https://a.org}")
            ],
            "clients has the id a twice",
        ),
        (
            [f"{AT}.agents.editor=nosuch"],
            "agents has nosuch as editor, which is neither an id of clients nor the https",
        ),
        (
            [f"{AT}.workloads=allow"],
            "workloads is allow, and ServiceAccounts are not accepted: set identity.serviceAcc",
        ),
        ([f"{AT}.sessionHours=6"], "unrenewedHours is 12 and sessionHours 6: no session may be longer"),
    ],
)
def test_values_with_which_the_gateway_would_not_start_are_refused_by_helm(
    helm: Helm, words: list[str], sentence: str
) -> None:
    with pytest.raises(Refused, match=re.escape(sentence)):
        helm.template("--values", str(VALUES), *(word for each in words for word in ("--set", each)))


def test_an_authorization_server_without_any_client_is_refused_by_helm(helm: Helm, tmp_path: Path) -> None:
    nobody = yaml.safe_load(VALUES.read_text())
    for part in ("clientHosts", "clients", "registration", "agents"):
        del nobody["identity"]["authorizationServer"][part]
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(nobody))
    with pytest.raises(Refused, match=r"no client could connect: set clientHosts, such as \[claude\.ai, vscode\.dev\]"):
        helm.template("--values", str(file))


@pytest.mark.parametrize(
    "host", ["localhost", "www.cursor.com:8443", "cursor://anysphere.cursor-mcp", "com.example.app:"]
)
def test_redirect_hosts_of_every_form_are_taken(helm: Helm, host: str) -> None:
    helm.template("--values", str(VALUES), "--set", f"{AT}.registration.redirectHosts={{{host}}}")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["identity.authorizationServer.providers[0].issuer=other"],
            r"providers names other, which identity\.issuers has neither as issuer nor as name",
        ),
        (["gateway.settings.publicUrl=http://tools.example.com"], r"set gateway\.settings\.publicUrl to the https URL"),
        (["grants.store=None"], r"grants\.store is None: people's sign-ins need a store; set grants\.store to Redis"),
        (["grants.store=Secrets"], r"serves from one replica: set gateway\.replicas to 1 without gateway\.autoscaling"),
        (["grants.store=Secrets", "gateway.replicas=2"], "serves from one replica"),
        (["grants.store=Secrets", "gateway.autoscaling.enabled=true"], "serves from one replica"),
    ],
)
def test_missing_parts_of_the_authorization_server_are_named(helm: Helm, words: list[str], sentence: str) -> None:
    with pytest.raises(Refused, match=sentence):
        helm.template("--values", str(VALUES), *(word for each in words for word in ("--set", each)))


def test_a_provider_has_to_be_named(helm: Helm) -> None:
    with pytest.raises(Refused, match="has no providers: name the issuer at which people sign in"):
        helm.template("--set", "identity.authorizationServer.clientHosts={claude.ai}")


def test_single_replica_can_have_its_sessions_in_secrets(helm: Helm) -> None:
    single = ("--set", "grants.store=Secrets", "--set", "gateway.replicas=1")
    manifests: list[Object] = helm.template("--values", str(VALUES), *single)
    assert environment(manifests, "gateway")["FAIRLEAD_GRANTS"] == "secrets"
