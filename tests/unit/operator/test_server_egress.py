"""`spec.network` and `spec.runtimeClassName` in the applied objects."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead_api.bad_setting import BadSetting
from fairlead_operator.server.egress import NAME_SERVERS
from fairlead_operator.server.kube_manifests import ManifestContext
from fairlead_operator.server.object_plan import plan
from fairlead_operator.settings import Settings
from operatorfakes import mcp_server

API = "10.0.0.1/32"


def applied_spec(kind: str, **spec: Any) -> dict[str, Any]:
    """The spec of an applied object of the server."""
    wanted = plan(mcp_server(image={"name": "demo:1"}, **spec), ManifestContext("fairlead-system", api_server=(API,)))
    (manifest_of_kind,) = [manifest for each, manifest in wanted.apply if each.kind == kind]
    return dict(manifest_of_kind["spec"])


def egress(**members: Any) -> list[Any]:
    policy = applied_spec("NetworkPolicy", network={"egress": members})
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    first, *others = policy["egress"]
    assert first == NAME_SERVERS
    return list(others)


def test_without_egress_the_policy_says_nothing_of_it() -> None:
    specs: list[dict[str, Any]] = [{}, {"network": {}}]
    for spec in specs:
        policy = applied_spec("NetworkPolicy", **spec)
        assert policy["policyTypes"] == ["Ingress"]
        assert "egress" not in policy


def test_an_empty_egress_leaves_name_servers_alone() -> None:
    assert egress() == []


def test_networks_are_allowed_without_metadata_services_and_the_api_server() -> None:
    (rule,) = egress(rules=[{"cidrs": ["0.0.0.0/0", "10.0.0.0/8", "2001:db8::/32"], "ports": [443]}])
    everywhere, private, six = (peer["ipBlock"] for peer in rule["to"])
    assert {"169.254.0.0/16", "100.100.100.200/32", "168.63.129.16/32", API} <= set(everywhere["except"])
    assert private == {"cidr": "10.0.0.0/8", "except": [API]}
    assert six == {"cidr": "2001:db8::/32"}
    assert rule["ports"] == [{"port": 443, "protocol": "TCP"}]


@pytest.mark.parametrize("cidr", ["169.254.169.254/32", "100.100.100.200/32", "fd00:ec2::254/128", API])
def test_a_rule_for_what_is_denied_alone_allows_nothing(cidr: str) -> None:
    assert egress(rules=[{"cidrs": [cidr]}]) == []


def test_pods_are_selected_by_their_labels_and_their_namespaces() -> None:
    peers = [{"labels": {"app": "db"}}, {"namespaceLabels": {"team": "a"}}, {"namespaceLabels": {}}]
    (rule,) = egress(rules=[{"pods": peers}])
    assert rule == {
        "to": [
            {"podSelector": {"matchLabels": {"app": "db"}}},
            {"podSelector": {}, "namespaceSelector": {"matchLabels": {"team": "a"}}},
            {"podSelector": {}, "namespaceSelector": {}},
        ]
    }


def test_the_api_server_is_open_to_servers_that_ask_for_it_alone() -> None:
    rule, api = egress(rules=[{"cidrs": ["10.0.0.0/8"]}], kubernetesAPI=True)
    assert rule == {"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}
    assert api["to"] == [{"ipBlock": {"cidr": API}}]
    assert [port["port"] for port in api["ports"]] == [443, 6443]


def test_the_networks_of_the_api_server_are_its_service_and_those_of_the_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    settings = Settings.of(api_server_networks=("192.0.2.0/28", "192.0.2.64/32"))
    assert settings.pods.manifest_context("n").api_server == ("10.96.0.1/32", "192.0.2.0/28", "192.0.2.64/32")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "api.example.com")
    assert Settings().pods.manifest_context("n").api_server == ()
    with pytest.raises(BadSetting, match=r"FAIRLEAD_API_SERVER_NETWORKS is '10.0.0.0/33'; it takes networks"):
        Settings.of(api_server_networks=("10.0.0.0/33",))


def test_the_runtime_class_is_that_of_the_pods() -> None:
    assert applied_spec("Deployment", runtimeClassName="gvisor")["template"]["spec"]["runtimeClassName"] == "gvisor"
    assert "runtimeClassName" not in applied_spec("Deployment")["template"]["spec"]


def domain_policy(**egress: Any) -> dict[str, Any]:
    """The spec of the CiliumNetworkPolicy."""
    server = mcp_server(image={"name": "demo:1"}, network={"egress": egress})
    context = ManifestContext("fairlead-system", api_server=(API,), domain_policies=True)
    (policy,) = [manifest for kind, manifest in plan(server, context).apply if kind.kind == "CiliumNetworkPolicy"]
    return dict(policy["spec"])


def test_hosts_are_allowed_by_their_names_and_lookups_go_through_the_proxy() -> None:
    rule = {"domainNames": ["api.example.com", "*.example.org"], "ports": [443]}
    spec = domain_policy(rules=[rule, {"cidrs": ["203.0.113.0/24"]}])
    lookups, named = spec["egress"]
    assert lookups["toPorts"][0]["rules"] == {"dns": [{"matchPattern": "*"}]}
    assert named == {
        "toFQDNs": [{"matchName": "api.example.com"}, {"matchPattern": "*.example.org"}],
        "toPorts": [{"ports": [{"port": "443", "protocol": "TCP"}]}],
    }
    assert egress(rules=[rule]) == [], "the NetworkPolicy opens nothing for a name"


def test_a_name_that_leads_to_a_metadata_service_or_the_api_server_opens_nothing() -> None:
    rules = [{"domainNames": ["a.example.com"]}]
    (denied,) = domain_policy(rules=rules)["egressDeny"]
    assert {"169.254.169.254/32", "100.100.100.200/32", API} <= set(denied["toCIDR"])
    (denied,) = domain_policy(rules=rules, kubernetesAPI=True)["egressDeny"]
    assert API not in denied["toCIDR"]


def test_host_name_policies_go_when_a_server_names_no_hosts() -> None:
    context = ManifestContext("fairlead-system", domain_policies=True)
    specs: list[dict[str, Any]] = [{}, {"network": {"egress": {"rules": [{"cidrs": ["203.0.113.0/24"]}]}}}]
    for spec in specs:
        wanted = plan(mcp_server(image={"name": "demo:1"}, **spec), context)
        assert "CiliumNetworkPolicy" in {kind.kind for kind in wanted.remove}
