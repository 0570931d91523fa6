"""`helm` refuses invalid values at once, before a pod is replaced by one that cannot start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from badsettings import BAD_VALUES, BadSettingValue
from charts.values import camel_case, settings
from helmworld import Helm, Refused

OWN_VALUES = {
    "redis": "redis.url",
    "environment": "environment",
    "watch_namespace": "watchNamespace",
    "default_tier": "defaultTier",
    "allowed_urls": "servers.allowedUrls",
    "denied_networks": "servers.deniedNetworks",
    "confined": "servers.confined",
    "gateway_approvals": "servers.gatewayApprovals",
    "api_server_networks": "servers.apiServerNetworks",
    "any_pod_templates_in": "servers.anyPodTemplatesIn",
    "prefix_style": "servers.prefixStyle",
    "prefix_retention_seconds": "servers.prefixRetentionSeconds",
    "pod_drain_seconds": "servers.podDrainSeconds",
    "secret_namespaces": "rbac.secretNamespaces",
    "pod_templates": "servers.podTemplates",
    "default_action": "servers.defaultAction",
    "user_ids": "userIds",
    "api_key_secrets": "identity.apiKeySecrets",
    "log_level": "logging.level",
    "log_format": "logging.format",
    "drain": "gateway.drain.waitSeconds",
    "grace": "gateway.drain.graceSeconds",
}
"""Chart values that set a setting, by the name of the setting."""
FROM_FIELD = {"fieldRef": {"fieldPath": "metadata.uid"}}
LONGEST_LINE = 250
"""Maximum number of characters of a line that helm prints about a value."""
OTHERS: list[tuple[str, Any]] = [
    ("nameOverride", "fair_lead"),
    ("fullnameOverride", "Foo_Bar"),
    ("commonLabels", {"cost": 42}),
    ("image.repository", "busy box"),
    ("servers.runnerImage.repository", "registry.example.com:5000/team/runner:1.2"),
    ("image.tag", "a/b"),
    ("image.digest", "latest"),
    ("environment", 123),
    ("secret.existingSecret", "My_Secret"),
    ("tiers", [{"name": "Fast", "spec": {"maxLatency": "1s"}}]),
    ("tiers", [{"name": "fast", "spec": {"maxLatenc": "1s"}}]),
    ("identity.issuers", [{"issuer": "login.example.com"}]),
    ("identity.authorizationServer", {"provider": []}),
    ("identity.authorizationServer", {"providers": [{"issuer": "corp"}]}),
    ("identity.authorizationServer", {"providers": [{"issuer": "corp", "clientId": "a", "clientSecret": "b"}]}),
    ("identity.authorizationServer", {"tokenSeconds": 3600}),
    ("identity.authorizationServer", {"registration": {}}),
    ("imagePullSecrets", ["registry"]),
    ("operator.nodeSelector", {"disk": True}),
    ("gateway.podAnnotations", {"cost": 42}),
    ("commonLabels", {"the team": "a"}),
    ("gateway.podLabels", {"team": "a b"}),
    ("operator.resources.limits", {"memory": "64mb"}),
    ("operator.resources.requests", {"cpus": 1}),
    ("operator.tolerations", [{"operator": "Equals"}]),
    ("gateway.extraEnv", [{"name": "A", "value": 1}]),
    ("gateway.dnsConfig", {"nameservers": ["dns.example.com"]}),
    ("tiers", [{"name": "fast.one", "spec": {}}]),
    ("tiers", [{"name": "fast", "spec": {"maxLatency": "soon"}}]),
    ("tiers", [{"name": "fast", "spec": {"hysteresis": 0.1}}]),
    ("operator.replicas", 4),
    ("gateway.resources", {"limit": {"memory": "1Gi"}}),
    ("gateway.maxSurge", 0),
    ("gateway.maxSurge", "0%"),
    ("gateway.podDisruptionBudget.maxUnavailable", "one"),
    ("gateway.podDisruptionBudget.maxUnavailable", -1),
    ("gateway.service.port", 99999),
    ("gateway.service.nodePort", 0),
    ("gateway.service.loadBalancerSourceRanges", ["10.0.0.0/40"]),
    ("gateway.ingress.hosts", ["https://tools.example.com"]),
    ("gateway.extraEnv", [{"value": "a"}]),
    ("gateway.autoscaling.minReplicas", 0),
    ("operator.replicas", -1),
    ("monitoring.podMonitor.interval", "often"),
    ("samples.namespace", "Team"),
    ("servers.admissionPolicy.actions", ["Warn", "Audit", "Warn"]),
]


def places(bad: BadSettingValue) -> list[str]:
    """Values of the chart that set the setting."""
    own = [OWN_VALUES[bad.name]] if bad.name in OWN_VALUES else []
    name = camel_case(bad.name)
    return own + ([f"{bad.component}.settings.{name}"] if name in settings(bad.component) else [])


def nest_values(given: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for path, value in given:
        *folders, last = path.split(".")
        inner = values
        for folder in folders:
            inner = inner.setdefault(folder, {})
        inner[last] = value
    return values


def refusal(helm: Helm, folder: Path, values: dict[str, Any]) -> str:
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    with pytest.raises(Refused) as refused:
        helm.template("--values", file)
    return str(refused.value)


def test_every_setting_of_the_chart_is_refused_with_a_value_that_it_does_not_take(helm: Helm, tmp_path: Path) -> None:
    given = {path: bad.value for bad in BAD_VALUES for path in places(bad)}
    assert len(given) > 80
    assert {"gateway.settings.callTimeout", "servers.deniedNetworks", "redis.url", "operator.settings.workers"} <= (
        given.keys()
    )
    message = refusal(helm, tmp_path, nest_values(list(given.items())))
    taken = [path for path in given if f"at '/{path.replace('.', '/')}" not in message]
    assert not taken, message
    assert [line for line in message.splitlines() if len(line) > LONGEST_LINE] == []


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("servers.allowedUrls", "host names, such as *.tools.svc, and networks, such as 192.168.0.0/16"),
        ("servers.deniedNetworks", "networks, such as 10.96.0.0/12"),
        ("gateway.settings.trustedProxies", "networks, such as 10.96.0.0/12"),
        ("gateway.service.loadBalancerSourceRanges", "networks, such as 10.96.0.0/12"),
        ("operator.dnsConfig.nameservers", "an IP address, such as 10.96.0.10 or fd00::10"),
    ],
)
def test_a_text_of_another_form_is_refused_in_words_instead_of_its_pattern(
    helm: Helm, tmp_path: Path, path: str, expected: str
) -> None:
    message = refusal(helm, tmp_path, nest_values([(path, ["http://tools.example.com"])]))
    assert f"at '/{path.replace('.', '/')}/0': value must be '{expected}'" in message
    assert "pattern" not in message


def test_an_image_with_its_tag_is_refused_with_the_value_that_takes_the_tag(helm: Helm, tmp_path: Path) -> None:
    message = refusal(helm, tmp_path, {"image": {"repository": "registry.example.com:5000/team/fairlead:1.2"}})
    assert "at '/image/repository': value must be 'an image without its tag, which goes into tag'" in message
    helm.template("--set", "image.repository=registry.example.com:5000/team/fairlead")


@pytest.mark.parametrize(("path", "value"), OTHERS, ids=[f"{path}={value}" for path, value in OTHERS])
def test_a_value_that_no_object_of_the_chart_can_have_is_refused(
    helm: Helm, tmp_path: Path, path: str, value: Any
) -> None:
    assert f"at '/{path.replace('.', '/')}" in refusal(helm, tmp_path, nest_values([(path, value)]))


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (
            {"commonLabels": {"app.kubernetes.io/name": "mine"}},
            "commonLabels has app.kubernetes.io/name, which",
        ),
        ({"operator": {"podLabels": {"helm.sh/chart": "a"}}}, "operator.podLabels has helm.sh/chart, which the chart"),
        (
            {"gateway": {"podAnnotations": {"kubectl.kubernetes.io/default-container": "a"}}},
            "gateway.podAnnotations has kubectl.kubernetes.io/default-container",
        ),
        (
            {"gateway": {"extraEnv": [{"name": "A", "value": "a", "valueFrom": FROM_FIELD}]}},
            "gateway.extraEnv: A has value and valueFrom: leave one of the two out",
        ),
        (
            {"gateway": {"extraEnv": [{"name": "A", "valueFrom": {}}]}},
            "gateway.extraEnv: valueFrom of A takes its value from one place",
        ),
        (
            {"operator": {"extraEnvFrom": [{"prefix": "A_"}]}},
            "operator.extraEnvFrom: each entry has either secretRef or configMapRef",
        ),
        (
            {"tiers": [{"name": "a", "spec": {"maxLatency": "0s"}}]},
            "tiers: spec.maxLatency of a is 0s: it must be more than 0s and at most 24h",
        ),
        (
            {"tiers": [{"name": "a", "spec": {"selection": {"cooldown": "08h17h"}}}]},
            "tiers: spec.selection.cooldown of a is 08h17h: it must be more than 0s and at most 24h",
        ),
        (
            {"tiers": [{"name": "a", "spec": {"maxLatency": "1m30s", "callTimeout": "89s"}}]},
            "tiers: spec.callTimeout of a is shorter than its maxLatency",
        ),
        (
            {"tiers": [{"name": "a", "spec": {}}, {"name": "b", "spec": {}}], "defaultTier": "c"},
            "defaultTier is c, and tiers has none of that name, but a, b: add it there, or name one of these",
        ),
    ],
)
def test_values_that_the_schema_cannot_refuse_are_refused_with_a_sentence(
    helm: Helm, tmp_path: Path, values: dict[str, Any], sentence: str
) -> None:
    assert sentence in refusal(helm, tmp_path, values)


@pytest.mark.parametrize("amount", [64, "64", "64m", "1e3", "1023Ki", "1M", 1048575, "0.5Mi"])
@pytest.mark.parametrize("path", ["operator.resources.limits.memory", "gateway.resources.requests.ephemeral-storage"])
def test_bytes_with_which_no_pod_runs_are_refused_with_a_sentence(
    helm: Helm, tmp_path: Path, path: str, amount: Any
) -> None:
    message = refusal(helm, tmp_path, nest_values([(path, amount)]))
    assert f": {path} is " in message
    assert ": it must be at least 1Mi, such as 64Mi; a number without a unit means bytes" in message


@pytest.mark.parametrize("amount", ["64Mi", "10001", "1e5"])
def test_more_cores_than_a_node_has_are_refused_with_a_sentence(helm: Helm, tmp_path: Path, amount: Any) -> None:
    path = "gateway.resources.limits.cpu"
    message = refusal(helm, tmp_path, nest_values([(path, amount)]))
    assert f": {path} is " in message
    assert ": it must be at most 10000, such as 2 or 250m; the unit is cores, not bytes" in message


@pytest.mark.parametrize(
    ("name", "request_", "limit"), [("memory", "2Gi", "512Mi"), ("cpu", 1, "500m"), ("x.y/z", 2, 1)]
)
def test_requests_above_limits_are_refused_with_a_sentence(
    helm: Helm, tmp_path: Path, name: str, request_: Any, limit: Any
) -> None:
    resources = {"requests": {name: request_}, "limits": {"memory": "8Gi", name: limit}}
    message = refusal(helm, tmp_path, {"gateway": {"resources": resources}})
    assert f": gateway.resources.requests.{name} is " in message
    assert ": requests must not exceed limits, or Kubernetes refuses the pods" in message


@pytest.mark.parametrize(
    ("name", "amounts"),
    [
        ("memory", [0, "0", "1Mi", "1024Ki", 1048576, "1.5Gi", "2e6", ".5G", "1Ti", "1E"]),
        ("cpu", [0, 1, 0.5, "250m", "500000u", ".5", "10k"]),
        ("nvidia.com/gpu", [1]),
    ],
)
def test_amounts_with_which_pods_run_are_taken(helm: Helm, tmp_path: Path, name: str, amounts: list[Any]) -> None:
    file = tmp_path / "values.yaml"
    for amount in amounts:
        file.write_text(
            yaml.safe_dump({"operator": {"resources": {"requests": {name: amount}, "limits": {name: amount}}}})
        )
        helm.template("--values", file)


def test_a_disruption_budget_that_keeps_every_node_is_refused_in_per_cent_too(helm: Helm) -> None:
    with pytest.raises(Refused, match="no node that runs a gateway could be drained"):
        helm.template("--set-string", "gateway.podDisruptionBudget.maxUnavailable=0%")
