"""Contradictory values are refused with a message that says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead_api.v1alpha1.mcpserver.spec import McpServerSpec
from fairlead_servers.table import SERVERS
from helmworld import Helm, Object, Refused

pytestmark = pytest.mark.timeout(120)

HPA = "gateway.autoscaling.enabled=true"
MCP = ("--api-versions", "fairlead.dev/v1alpha1/McpServer")
TIER = "tiers[{0}].name={1},tiers[{0}].spec.maxLatency=1s,tiers[{0}].spec.default={2}"


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ([HPA, "gateway.replicas=3"], "leave gateway.replicas out, the autoscaler decides"),
        ([HPA, "gateway.autoscaling.minReplicas=20"], r"minReplicas \(20\) is more than maxReplicas \(10\)"),
        (["image.repository=a.example/team/fairlead:1.2"], r"ends in a tag: put the tag into image\.tag"),
        (["samples.demoImage.repository=demo:1"], r"put the tag into samples\.demoImage\.tag"),
        (["gateway.settings.embedder=built-in"], r"this image has no encoder: set image\.variant to search"),
        (["gateway.podDisruptionBudget.maxUnavailable=0"], "no node that runs a gateway could be drained"),
        (
            ["gateway.service.ipFamilies={IPv6,IPv4}"],
            "set gateway.service.ipFamilyPolicy to PreferDualStack or Require",
        ),
        (["servers.gatewayApprovals=true"], "nobody could approve; name the groups of administrators"),
        (["servers.admissionPolicy.actions={Deny,Warn}"], "holds Deny and Warn: .* leave one of them out"),
        (["gateway.service.nodePort=30080"], "a Service of type ClusterIP has none: set gateway.service.type"),
        (["gateway.service.loadBalancerSourceRanges={10.0.0.0/8}"], "does nothing with gateway.service.type ClusterIP"),
        (
            [f"gateway.routes.providers.x.{each}" for each in ("baseUrl=http://x", "keyEnv=K", "keySecret.name=s")]
            + ["gateway.routes.providers.x.keySecret.key=k"],
            "providers.x has keySecret beside keyEnv or keyFile: leave two of them out",
        ),
        (
            [f"gateway.routes.providers.x.stt.{each}" for each in ("baseUrl=http://x", "keyEnv=K", "keySecret.name=s")]
            + ["gateway.routes.providers.x.stt.keySecret.key=k", "gateway.routes.providers.x.stt.model=m"]
            + [f"gateway.routes.providers.x.{each}" for each in ("kind=cascaded", "llm=m", "tts.baseUrl=http://x")]
            + ["gateway.routes.providers.x.tts.model=m"],
            "providers.x.stt has keySecret beside keyEnv or keyFile: leave two of them out",
        ),
        (["gateway.ingress.enabled=true"], "gateway.ingress.hosts is empty: name the host that clients use"),
        (["gateway.ingress.tlsSecret=cert"], "gateway.ingress is not enabled: nothing would use it"),
        (["gateway.httpRoute.enabled=true"], "parentRefs is empty: name the Gateway that it belongs to"),
        (
            ["gateway.httpRoute.enabled=true", "gateway.httpRoute.parentRefs[0].name=public"],
            "the cluster does not know HTTPRoute: install the Gateway API first",
        ),
        (
            ["gateway.httpRoute.backendTLS.caConfigMap=ca"],
            "hostname is empty: name what the certificate of the pods is for",
        ),
        (["gateway.httpRoute.backendTLS.hostname=a"], "tls.secret is empty: the pods speak HTTP"),
        (["gateway.httpRoute.backendTLS.hostname=a", "tls.secret=cert"], "httpRoute is not enabled: nothing would use"),
        (
            ["monitoring.podMonitor.enabled=true", "monitoring.serviceMonitor.enabled=true"],
            "every sample would be there twice; choose one",
        ),
        (["monitoring.podMonitor.enabled=true"], "does not know PodMonitor: install the Prometheus operator first"),
        (["monitoring.serviceMonitor.enabled=true"], "does not know ServiceMonitor: install the Prometheus operator"),
        (["monitoring.prometheusRule.enabled=true"], "does not know PrometheusRule: install the Prometheus operator"),
        (["operator.serviceAccount.create=false"], "operator.serviceAccount.name is empty: name the ServiceAccount"),
        (
            ["operator.serviceAccount.name=fairlead", "gateway.serviceAccount.name=fairlead"],
            "operator and gateway would share the ServiceAccount fairlead",
        ),
        (
            ["tls.clientCASecret=ca"],
            "tls.secret is empty: client certificates need TLS; set tls.secret",
        ),
        (["identity.serviceAccountAudiences={a}", "watchNamespace=team"], "use API keys or issuers instead"),
        (["identity.scopes={mcp}"], "identity.issuers is empty: only tokens of issuers have scopes"),
        (
            ["gateway.settings.publicUrl=https://tools.example.com/mcp"],
            "gateway.settings.publicUrl is https://tools.example.com/mcp: leave /mcp out",
        ),
        (
            ["identity.issuers[0].issuer=https://login.example.com"],
            "set gateway.settings.publicUrl to the URL that clients use",
        ),
        (
            [
                "gateway.settings.publicUrl=https://tools.example.com",
                "identity.issuers[0].issuer=https://a.example.com",
                "identity.issuers[1].issuer=https://b.example.com",
                "gateway.settings.adminGroups={admins}",
            ],
            "has the group admins without an issuer, and there are several identity.issuers: write ISSUER#admins",
        ),
        (["identity.issuers[0].issuer=http://login.example.com"], "login.example.com must be an https URL"),
        (["redis.url=redis://a", "redis.existingSecret=b"], "both set: the address comes from one of them"),
        (["grants.store=Secrets"], "grants.keysSecret is empty: name a Secret with keys"),
        (["grants.store=Redis", "grants.keysSecret=a"], "grants.store is Redis and there is none"),
        (["otel.endpoint=collector:4317"], "with otel.protocol http/protobuf it must be a URL, such as http://"),
        (["otel.headersSecret=a"], "otel.endpoint is empty: name the collector that the headers are for"),
        (["compressor.existingSecret=a"], "compressorUrl is empty: name the endpoint that the token is for"),
        (["embedder.existingSecret=a"], "embedderUrl is empty: name the endpoint that the token is for"),
        (["console.existingSecret=a"], "consoleClientId is empty: name the client that the secret is for"),
        (["gateway.settings.consoleClientId=a"], "name the provider that the client is registered with"),
        (
            [
                "gateway.settings.consoleClientId=a",
                "identity.issuers[0].issuer=https://a.example.com",
                "identity.issuers[1].issuer=https://b.example.com",
            ],
            "several identity.issuers: name one of them in gateway.settings.consoleIssuer",
        ),
        (
            [
                "gateway.settings.consoleClientId=a",
                "identity.issuers[0].issuer=https://a.example.com",
                "identity.issuers[0].audiences={tools}",
            ],
            "also set consoleUrl or publicUrl to the URL at which browsers reach the console",
        ),
        (["networkPolicy.enabled=false", "networkPolicy.egress.enabled=true"], "nothing would be bound"),
        (["gateway.settings.redisDown=closed"], "is closed and there is no Redis"),
        (["samples.demo=true"], "does not know that kind yet: install without them, then `helm upgrade"),
        ([TIER.format(0, "a", "true"), TIER.format(1, "a", "false")], "tiers has two tiers called a"),
        ([TIER.format(0, "a", "true"), TIER.format(1, "b", "true")], "2 have `default: true`: at most one can"),
        (
            [TIER.format(0, "a", "true"), "defaultTier=b"],
            "defaultTier is b, and of the tiers a has `default: true`: leave one of the two out",
        ),
    ],
)
def test_contradicting_values_are_refused(helm: Helm, values: list[str], sentence: str) -> None:
    with pytest.raises(Refused, match=sentence):
        helm.template(*(word for value in values for word in ("--set", value)))


def test_samples_stand_where_the_operator_looks(helm: Helm) -> None:
    words = ("--set", "samples.time=true", "--set", "watchNamespace=team", *MCP)
    with pytest.raises(Refused, match="in the namespace fairlead-system, and watchNamespace is team"):
        helm.template(*words)
    helm.template(*words, "--set", "samples.namespace=team")


def test_the_voice_sample_brings_servers_volumes_policies_and_the_fast_tier(helm: Helm) -> None:
    words = ("--set", "samples.voice=true", "--set", "samples.voiceImage.tag=e2e", *MCP)
    made = {(each["kind"], each["metadata"]["name"]): each for each in helm.template(*words)}
    servers = {name: each for (kind, name), each in made.items() if kind == "McpServer"}
    assert servers.keys() == SERVERS.keys()
    assert {name for kind, name in made if kind == "ToolPolicy"} == {"table", "npc", "speech"}
    for name, server in servers.items():
        image = server["spec"]["image"]
        assert (image["name"], image["args"][0], image["port"]) == ("localhost/fairlead-servers:e2e", name, 8080)
        McpServerSpec.model_validate(server["spec"])
    assert {each["metadata"]["labels"]["catalog"] for each in servers.values()} == {"voice"}
    assert "storageClassName" not in made["PersistentVolumeClaim", "memory"]["spec"]
    named = helm.template(*words, "--set", "samples.storageClassName=fast-disks")
    classes = {each["spec"]["storageClassName"] for each in named if each["kind"] == "PersistentVolumeClaim"}
    assert classes == {"fast-disks"}
    assert default_tier(helm.template(*words)) == "fast"
    assert default_tier(helm.template(*words, "--set", "defaultTier=deep")) == "deep"
    assert default_tier(helm.template(*MCP)) is None


def default_tier(made: list[Object]) -> str | None:
    (operator,) = (
        each for each in made if each["kind"] == "Deployment" and each["metadata"]["name"].endswith("operator")
    )
    environment = operator["spec"]["template"]["spec"]["containers"][0]["env"]
    return next((each["value"] for each in environment if each["name"] == "FAIRLEAD_DEFAULT_TIER"), None)


def test_a_variable_that_the_chart_sets_cannot_be_set_beside_it(helm: Helm, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text("gateway: {extraEnv: [{name: FAIRLEAD_CACHE_DIR, value: /tmp}]}")
    with pytest.raises(Refused, match="gateway: FAIRLEAD_CACHE_DIR is set twice; extraEnv cannot replace what"):
        helm.template("--values", values)
