"""Manifests of the chart for several files of values, checked by tools and by an API server."""

from __future__ import annotations

import functools
import json
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml

from controlplane import REPOSITORY, ControlPlane
from fairlead_api.v1alpha1.mcpserver import McpServer
from fairlead_app.settings import Settings as GatewaySettings
from fairlead_gateway.identity.issuers_file import load_credential_issuers
from fairlead_operator.kube.credentials import store_names
from fairlead_operator.kube.installationsecret import KEYS
from fairlead_operator.publish.configured_tiers import read_tiers
from fairlead_operator.server.kube_manifests import ManifestContext, deployment, network_policy
from fairlead_operator.settings import Settings as OperatorSettings
from helmschemas import write_schemas
from helmworld import (
    API_VERSIONS,
    CHART,
    NAMESPACE,
    Helm,
    Object,
    Refused,
    environment,
    grants,
    manifests,
    objects,
    of_kind,
    program,
    rendered_object,
)
from renderedsettings import read_settings

pytestmark = pytest.mark.timeout(120)

FILES = sorted((Path(__file__).parent / "values").glob("*.yaml"))
DEFAULT = Path(__file__).parent / "values" / "default.yaml"
each_file = pytest.mark.parametrize("values", FILES, ids=lambda path: path.stem)


@functools.cache
def render(values: Path) -> list[Object]:
    """Manifests by file of values, rendered once for all tests, which must not change them."""
    with TemporaryDirectory() as home:
        return Helm(Path(home)).template("--values", values, *API_VERSIONS)


@each_file
def test_helm_lint_finds_nothing(helm: Helm, values: Path) -> None:
    told = helm("lint", "--strict", CHART, "--values", values)
    assert "1 chart(s) linted, 0 chart(s) failed" in told


@pytest.mark.parametrize(
    "value",
    [
        "gateway.routes",
        "gateway.settings",
        "gateway.podAnnotations",
        "operator.podAnnotations",
        "identity.issuers",
        "identity.authorizationServer",
    ],
)
def test_a_value_that_is_taken_back_is_as_its_empty_default(helm: Helm, value: str) -> None:
    assert helm.template("--set", f"{value}=null") == render(DEFAULT)


def test_every_object_is_as_kubeconform_wants_it(plane_with_kinds: ControlPlane, tmp_path: Path) -> None:
    """One process checks all files of values, because reading the schemas takes most of the time."""
    _, document = plane_with_kinds.request("GET", "/openapi/v2")
    location = write_schemas(document, tmp_path)
    written = [tmp_path / f"{values.stem}.yaml" for values in FILES]
    for path, values in zip(written, FILES, strict=True):
        path.write_text(manifests(render(values)))
    command = [str(program("kubeconform")), "-strict", "-summary", "-schema-location", location, *map(str, written)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    total = sum(len(render(values)) for values in FILES)
    assert f"Valid: {total}, Invalid: 0, Errors: 0, Skipped: 0" in done.stdout, done.stdout


@each_file
def test_an_api_server_would_take_every_object(plane_with_kinds: ControlPlane, values: Path) -> None:
    text = manifests(render(values))
    apply = ("apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "-f", "-")
    plane_with_kinds.kubectl(*apply, stdin=text)


@each_file
def test_every_pod_is_admitted_where_pods_have_to_be_restricted(plane_with_kinds: ControlPlane, values: Path) -> None:
    manifests = render(values)
    pods = [d["spec"]["template"] for d in of_kind(manifests, "Deployment")] + of_kind(manifests, "Pod")
    assert len(pods) == 3
    for number, pod in enumerate(pods):
        metadata = {"name": f"pod-{number}", "namespace": NAMESPACE, "labels": pod["metadata"]["labels"]}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod["spec"]}
        status, answer = plane_with_kinds.request("POST", f"/api/v1/namespaces/{NAMESPACE}/pods?dryRun=All", body)
        assert status == 201, answer


@each_file
def test_operator_and_gateway_understand_every_variable_of_the_chart(values: Path) -> None:
    read_settings(render(values))


def test_settings_arrive_as_they_were_meant() -> None:
    manifests = render(Path(__file__).parent / "values" / "large.yaml")
    ours = {
        component: {
            name: value for name, value in environment(manifests, component, "tools").items() if isinstance(value, str)
        }
        for component in ("operator", "gateway")
    }
    gateway = GatewaySettings.from_env(ours["gateway"])
    assert (gateway.calls.timeout, gateway.listening.limits.body, gateway.calls.validate) == (120.0, 16777216, False)
    assert gateway.listening.allowed_origins == ("https://a.example.com", "https://b.example.com")
    listening, log = gateway.listening, gateway.records.log
    assert (listening.drain, listening.grace, log.level) == (20.0, 120.0, "DEBUG")
    operator = OperatorSettings.from_env(ours["operator"])
    assert (operator.controller.interval_floor, operator.controller.workers) == (60.0, 32)
    assert operator.publish.default_action == "Deny"
    assert operator.pods.runner_image == "registry.example.com/fairlead-runner:0.1.0"
    assert operator.measurements.gateway_urls == (f"http://tools-gateway-ops.{NAMESPACE}.svc:9464",)


def test_the_default_tier_is_the_one_that_the_values_name_and_there_need_not_be_one(helm: Helm) -> None:
    assert default_tier(helm.template()) == ""
    tiers = ("--set", "tiers[0].name=voice", "--set", "tiers[0].spec.maxLatency=1s")
    assert default_tier(helm.template(*tiers, "--set", "defaultTier=voice")) == "voice"


def default_tier(objects: list[Object]) -> str:
    variables = {k: v for k, v in environment(objects, "operator").items() if isinstance(v, str)}
    return OperatorSettings.from_env(variables).publish.default_tier


def test_tiers_arrive_at_the_operator_as_it_reads_them(tmp_path: Path) -> None:
    manifests = render(Path(__file__).parent / "values" / "large.yaml")
    file = tmp_path / "tiers.yaml"
    file.write_text(rendered_object(manifests, "ConfigMap", "tools-operator")["data"]["tiers.yaml"])
    assert [(tier.metadata.name, tier.spec.default) for tier in read_tiers(str(file))] == [
        ("voice", True),
        ("chat", False),
    ]
    assert environment(manifests, "operator", "tools")["FAIRLEAD_TIERS"] == "/etc/fairlead/tiers.yaml"


def test_identity_values_arrive_at_the_gateway_as_it_reads_them(tmp_path: Path) -> None:
    manifests = render(Path(__file__).parent / "values" / "closed.yaml")
    file = tmp_path / "identity.yaml"
    file.write_text(rendered_object(manifests, "ConfigMap", "fairlead-gateway")["data"]["identity.yaml"])
    credential_issuers = load_credential_issuers(file)
    assert [issuer.groups_claim for issuer in credential_issuers.issuers] == ["realm_access.roles"]
    assert credential_issuers.service_accounts is not None
    assert (credential_issuers.scopes, credential_issuers.service_accounts.audiences) == (("mcp:tools",), ("fairlead",))
    variables = environment(manifests, "gateway")
    assert variables["FAIRLEAD_API_KEY_SECRETS"] == "fairlead-api-keys,partners"
    rules = rendered_object(manifests, "Role", "fairlead-gateway")["rules"]
    watched = {name for rule in rules if "watch" in rule["verbs"] for name in rule.get("resourceNames", ())}
    assert watched == {"fairlead-api-keys", "partners"}
    reviews = rendered_object(manifests, "ClusterRole", f"fairlead-{NAMESPACE}-gateway")
    assert grants(reviews) == {("authentication.k8s.io", "tokenreviews", "create")}


def test_operator_and_gateway_agree_on_where_servers_may_be() -> None:
    manifests = render(Path(__file__).parent / "values" / "closed.yaml")
    operator, gateway = (environment(manifests, component) for component in ("operator", "gateway"))
    for name, value in {
        "ALLOWED_URLS": "*.tools.svc,192.168.0.0/16",
        "DENIED_NETWORKS": "10.0.0.0/8",
        "CONFINED": "always",
    }.items():
        assert operator[f"FAIRLEAD_{name}"] == gateway[f"FAIRLEAD_{name}"] == value


def test_a_setting_that_does_not_exist_is_refused_by_the_schema(helm: Helm) -> None:
    with pytest.raises(Refused, match="callTimeOut"):
        helm.template("--set", "gateway.settings.callTimeOut=3")


@each_file
def test_the_policies_of_servers_let_in_the_pods_of_the_chart(values: Path) -> None:
    server = McpServer.model_validate({"metadata": {"name": "s", "namespace": "n"}, "spec": {"image": {"name": "i"}}})
    (rule,) = network_policy(server, ManifestContext(NAMESPACE))["spec"]["ingress"]
    (peer,) = rule["from"]
    (expression,) = peer["podSelector"]["matchExpressions"]
    assert peer["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": NAMESPACE}
    for each in of_kind(render(values), "Deployment"):
        labels = each["spec"]["template"]["metadata"]["labels"]
        assert peer["podSelector"]["matchLabels"].items() <= labels.items()
        assert labels[expression["key"]] in expression["values"]


@pytest.mark.parametrize("component", ["operator", "gateway"])
def test_pods_whose_ways_out_are_bound_reach_servers_and_each_other(component: str) -> None:
    manifests = render(Path(__file__).parent / "values" / "closed.yaml")
    spec = rendered_object(manifests, "NetworkPolicy", f"fairlead-{component}")["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    _, api, within, redis = spec["egress"]
    assert api["to"] == [{"ipBlock": {"cidr": "10.0.0.1/32"}}]
    assert redis["ports"] == [{"port": 6379}]
    own, servers = within["to"]
    for each in of_kind(manifests, "Deployment"):
        labels = each["spec"]["template"]["metadata"]["labels"]
        assert own["podSelector"]["matchLabels"].items() <= labels.items()
    server = McpServer.model_validate({"metadata": {"name": "s", "namespace": "n"}, "spec": {"image": {"name": "i"}}})
    labels = deployment(server, ManifestContext(NAMESPACE))["spec"]["template"]["metadata"]["labels"]
    assert servers["namespaceSelector"] == {}
    assert servers["podSelector"]["matchLabels"].items() <= labels.items()


def test_egress_of_a_release_for_one_namespace_leads_to_its_servers_alone(helm: Helm) -> None:
    manifests = helm.template("--set", "watchNamespace=team,networkPolicy.egress.enabled=true")
    policy = rendered_object(manifests, "NetworkPolicy", "fairlead-gateway")["spec"]
    (servers,) = [peer["namespaceSelector"] for peer in policy["egress"][2]["to"] if "namespaceSelector" in peer]
    assert servers == {"matchLabels": {"kubernetes.io/metadata.name": "team"}}


@each_file
def test_selectors_select_the_pods_of_the_chart_for_any_values(values: Path) -> None:
    manifests = render(values)
    pods = [d["spec"]["template"]["metadata"]["labels"] for d in of_kind(manifests, "Deployment")]
    selectors = [d["spec"]["selector"]["matchLabels"] for d in of_kind(manifests, "Deployment")]
    assert {tuple(sorted(selector)) for selector in selectors} == {
        ("app.kubernetes.io/component", "app.kubernetes.io/instance", "app.kubernetes.io/name")
    }
    selectors += [item["spec"]["selector"] for item in of_kind(manifests, "Service")]
    selectors += [item["spec"]["selector"]["matchLabels"] for item in of_kind(manifests, "PodDisruptionBudget")]
    selectors += [item["spec"]["podSelector"]["matchLabels"] for item in of_kind(manifests, "NetworkPolicy")]
    selectors += [item["spec"]["selector"]["matchLabels"] for item in of_kind(manifests, "PodMonitor")]
    for selector in selectors:
        assert len([labels for labels in pods if selector.items() <= labels.items()]) == 1, selector


def test_definitions_are_kept_left_out_or_removed_as_told(helm: Helm) -> None:
    policy = "helm.sh/resource-policy"
    (retained, removed, none) = (
        of_kind(helm.template(*words), "CustomResourceDefinition")
        for words in ((), ("--set", "crds.keep=false"), ("--set", "crds.install=false"))
    )
    assert len(retained) == 3
    assert {crd["metadata"]["annotations"][policy] for crd in retained} == {"keep"}
    assert all("annotations" not in crd["metadata"] for crd in removed)
    assert none == []
    for crd in retained:
        (own,) = objects((REPOSITORY / "crds" / f"fairlead.dev_{crd['spec']['names']['plural']}.yaml").read_text())
        assert crd["spec"] == own["spec"]


def test_alerts_and_dashboards_are_those_of_the_files() -> None:
    manifests = render(Path(__file__).parent / "values" / "exposed.yaml")
    (rule,) = of_kind(manifests, "PrometheusRule")
    assert rule["spec"] == yaml.safe_load((CHART / "alerts" / "fairlead.yaml").read_text())
    dashboards = rendered_object(manifests, "ConfigMap", "fairlead-dashboards")
    assert dashboards["metadata"]["labels"]["grafana_dashboard"] == "1"
    files = {path.name: path.read_text().rstrip("\n") for path in (CHART / "dashboards").glob("*.json")}
    assert {name: text.rstrip("\n") for name, text in dashboards["data"].items()} == files
    assert files


def test_the_chart_renders_the_same_twice_and_leaves_the_secret_to_the_operator(helm: Helm) -> None:
    manifests = helm.template()
    assert helm.template() == manifests
    assert of_kind(manifests, "Secret") == []
    assert environment(manifests, "operator")["FAIRLEAD_INSTALLATION_SECRET"] == "fairlead"
    keys = {"FAIRLEAD_PULL_TOKEN": "pullToken", "FAIRLEAD_SESSION_KEY": "sessionKey"}
    for variable, key in keys.items():
        assert environment(manifests, "gateway")[variable] == {"secretKeyRef": {"name": "fairlead", "key": key}}
        assert key in KEYS


RESENDS = [{"name": "timeout", "value": "1"}, {"name": "attempts", "value": "3"}]


def test_a_question_to_a_name_server_that_is_lost_is_sent_again_before_a_connection_is_given_up() -> None:
    for component in ("operator", "gateway"):
        pod = rendered_object(render(DEFAULT), "Deployment", f"fairlead-{component}")["spec"]["template"]["spec"]
        assert pod["dnsConfig"] == {"options": RESENDS}


def test_pods_are_as_the_values_of_their_component_say() -> None:
    manifests = render(Path(__file__).parent / "values" / "large.yaml")
    for component, policy in (("operator", "None"), ("gateway", None)):
        pod = rendered_object(manifests, "Deployment", f"tools-{component}")["spec"]["template"]["spec"]
        assert [each["name"] for each in pod["initContainers"] + pod["containers"]] == ["wait", component, "proxy"]
        assert (pod["runtimeClassName"], pod.get("dnsPolicy")) == ("gvisor", policy)
        assert pod["hostAliases"][0]["ip"] == "10.0.0.9"
        resolver = pod["dnsConfig"]
        assert resolver.get("nameservers") == (["10.96.0.10"] if component == "operator" else None)
        assert resolver["options"] == ([{"name": "ndots", "value": "1"}] if component == "gateway" else RESENDS)
        (spread,) = pod["topologySpreadConstraints"]
        assert spread["whenUnsatisfiable"] == "DoNotSchedule"
    assert {budget["metadata"]["name"] for budget in of_kind(manifests, "PodDisruptionBudget")} == {
        "tools-operator",
        "tools-gateway",
    }
    notes = {item["metadata"]["name"]: item["data"] for item in of_kind(manifests, "ConfigMap")}
    assert (notes["fairlead-beside"], notes["tools-text"]) == ({"note": "mapping"}, {"note": "text"})


def test_without_values_the_operator_is_spread_and_one_pod_has_no_budget(helm: Helm) -> None:
    manifests = helm.template()
    pod = rendered_object(manifests, "Deployment", "fairlead-operator")["spec"]["template"]["spec"]
    selected = {item["topologyKey"]: item["labelSelector"]["matchLabels"] for item in pod["topologySpreadConstraints"]}
    assert set(selected) == {"kubernetes.io/hostname", "topology.kubernetes.io/zone"}
    assert {labels["app.kubernetes.io/component"] for labels in selected.values()} == {"operator"}
    assert [budget["metadata"]["name"] for budget in of_kind(manifests, "PodDisruptionBudget")] == ["fairlead-gateway"]


@pytest.mark.parametrize(
    ("words", "assigned"),
    [
        ((), False),
        (("--set", "userIds=Assigned"), True),
        (("--api-versions", "security.openshift.io/v1"), True),
        (("--api-versions", "security.openshift.io/v1", "--set", "userIds=Fixed"), False),
    ],
)
def test_where_the_cluster_assigns_user_ids_no_pod_asks_for_one(
    helm: Helm, words: tuple[str, ...], assigned: bool
) -> None:
    manifests = helm.template(*words)
    pods = [d["spec"]["template"]["spec"] for d in of_kind(manifests, "Deployment")]
    pods += [item["spec"] for item in of_kind(manifests, "Pod")]
    variables = {k: v for k, v in environment(manifests, "operator").items() if isinstance(v, str)}
    server = McpServer.model_validate({"metadata": {"name": "s", "namespace": "n"}, "spec": {"image": {"name": "i"}}})
    operator = OperatorSettings.from_env(variables)
    context = operator.pods.manifest_context(operator.release.release_namespace)
    pods.append(deployment(server, context)["spec"]["template"]["spec"])
    assert len(pods) == 4
    for pod in pods:
        ids = {"runAsUser", "runAsGroup", "fsGroup"} & pod["securityContext"].keys()
        assert ids == (set() if assigned else {"runAsUser", "runAsGroup", "fsGroup"})
        assert pod["securityContext"]["runAsNonRoot"] is True


def test_names_are_derived_from_the_release_those_of_credentials_too(helm: Helm) -> None:
    assert all(
        "tools" in item["metadata"]["name"]
        for item in of_kind(helm.template("--set", "nameOverride=tools"), "Deployment")
    )
    manifests = objects(helm("template", "acme", CHART, "--namespace", NAMESPACE))
    name = environment(manifests, "operator", "acme-fairlead")["FAIRLEAD_CREDENTIALS_NAME"]
    (named,) = [
        rule
        for rule in rendered_object(manifests, "Role", "acme-fairlead-gateway")["rules"]
        if rule["verbs"] == ["get"]
    ]
    assert tuple(named["resourceNames"]) == store_names(name) == store_names("acme-fairlead-credentials")
    pod = rendered_object(manifests, "Deployment", "acme-fairlead-gateway")["spec"]["template"]["spec"]
    (mounted,) = [volume["projected"]["sources"] for volume in pod["volumes"] if volume["name"] == "credentials"]
    assert tuple(source["secret"]["name"] for source in mounted) == store_names(name)


def test_a_long_name_leaves_room_for_every_suffix(helm: Helm) -> None:
    manifests = objects(helm("template", "a" * 53, CHART, "--namespace", NAMESPACE))
    names = [item["metadata"]["name"] for item in manifests if item["kind"] == "Service"]
    assert len(names) == len(set(names)) == 3
    assert max(map(len, names)) <= 63


def test_every_value_is_described_and_no_other_is_taken() -> None:
    def walk(schema: Any, path: str, value: Any) -> None:
        if "properties" not in schema:
            assert schema["description"], path
            return
        assert schema["additionalProperties"] is False, path
        assert set(value) <= set(schema["properties"]), path
        for key, each in schema["properties"].items():
            walk(each, f"{path}.{key}", value.get(key, {}) if isinstance(value, dict) else {})

    walk(
        json.loads((CHART / "values.schema.json").read_text()),
        "",
        yaml.load((CHART / "values.yaml").read_text(), yaml.CSafeLoader),
    )
