"""Providers of models in the values become a file that the gateway can read, with keys from Secrets."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from fairlead_app.configuration import load_models
from fairlead_models.cascaded_engines import CascadedProvider
from fairlead_models.providers import Provider
from helmworld import CHART, Helm, Object, Refused, environment, rendered_object

pytestmark = pytest.mark.timeout(120)

LARGE = Path(__file__).parent / "values" / "large.yaml"
KINDS = [
    word
    for kind in (
        "gateway.networking.k8s.io/v1/HTTPRoute",
        "monitoring.coreos.com/v1/PodMonitor",
        "monitoring.coreos.com/v1/PrometheusRule",
        "monitoring.coreos.com/v1/ServiceMonitor",
    )
    for word in ("--api-versions", kind)
]


def test_providers_arrive_at_the_gateway_as_it_reads_them_with_keys_from_secrets(helm: Helm, tmp_path: Path) -> None:
    manifests = helm.template("--values", LARGE, *KINDS)
    file = tmp_path / "routes.yaml"
    file.write_text(rendered_object(manifests, "ConfigMap", "tools-gateway")["data"]["routes.yaml"])
    read = load_models(file)
    assert environment(manifests, "gateway", "tools")["FAIRLEAD_ROUTES"] == "/etc/fairlead/routes.yaml"
    assert [target.provider for target in read.providers.targets("fairlead/default")[1]] == ["openai", "anthropic"]
    files = {name: provider.key_file for name, provider in read.providers.by_name.items()}
    pod = rendered_object(manifests, "Deployment", "tools-gateway")["spec"]["template"]["spec"]
    (mount,) = [each for each in pod["containers"][0]["volumeMounts"] if each["name"] == "provider-keys"]
    (volume,) = [each for each in pod["volumes"] if each["name"] == "provider-keys"]
    mounted = {
        f"{mount['mountPath']}/{item['path']}": (source["secret"]["name"], item["key"])
        for source in volume["projected"]["sources"]
        for item in source["secret"]["items"]
    }
    assert mounted == {
        files["openai"]: ("model-keys", "openai"),
        files["anthropic"]: ("model-keys", "claude"),
        read.providers.cascaded["voice"].stt.key_file: ("model-keys", "openai"),
    }
    assert files["vllm"] is None


def test_a_change_of_providers_rolls_no_pod(helm: Helm) -> None:
    def pod(port: int) -> Object:
        words = ("--set", f"gateway.routes.providers.vllm.baseUrl=http://vllm:{port}/v1")
        manifests = helm.template(*words)
        return dict(rendered_object(manifests, "Deployment", "fairlead-gateway")["spec"]["template"])

    assert pod(1) == pod(2)


def test_the_schema_knows_every_member_of_a_provider(helm: Helm) -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    gateway = schema["properties"]["gateway"]["properties"]["routes"]["properties"]
    each = gateway["providers"]["additionalProperties"]
    members = set(each["else"]["properties"])
    assert set(each["then"]["properties"]) == {field.encode_name for field in msgspec.structs.fields(CascadedProvider)}
    assert members == {field.encode_name for field in msgspec.structs.fields(Provider)} | {"keySecret"}
    with pytest.raises(Refused, match="keySecrets"):
        helm.template("--set", "gateway.routes.providers.x.baseUrl=http://x,gateway.routes.providers.x.keySecrets=y")
