"""Secrets, images and endpoints in values appear in the right places of the manifests."""

from __future__ import annotations

import pytest

from helmworld import (
    Helm,
    container,
    environment,
)

pytestmark = pytest.mark.timeout(120)


def test_an_existing_secret_takes_the_place_of_that_of_the_operator(helm: Helm) -> None:
    manifests = helm.template("--set", "secret.existingSecret=mine")
    assert "FAIRLEAD_INSTALLATION_SECRET" not in environment(manifests, "operator")
    for component in ("operator", "gateway"):
        assert environment(manifests, component)["FAIRLEAD_PULL_TOKEN"] == {
            "secretKeyRef": {"name": "mine", "key": "pullToken"}
        }


@pytest.mark.parametrize("part", ["embedder", "compressor"])
def test_the_token_of_a_model_api_comes_from_its_secret(helm: Helm, part: str) -> None:
    url = f"gateway.settings.{part}Url=http://vllm.models:8000/v1"
    name = f"FAIRLEAD_{part.upper()}"
    variables = environment(helm.template("--set", f"{part}.existingSecret=vllm,{url}"), "gateway")
    assert variables[f"{name}_KEY"] == {"secretKeyRef": {"name": "vllm", "key": "key"}}
    assert variables[f"{name}_URL"] == "http://vllm.models:8000/v1"
    assert f"{name}_KEY" not in environment(helm.template("--set", url), "gateway")


def test_the_console_is_a_client_of_an_issuer_with_a_secret_from_its_secret(helm: Helm) -> None:
    values = {
        "identity.issuers[0].issuer": "https://login.example.com",
        "gateway.settings.publicUrl": "https://tools.example.com",
        "gateway.settings.consoleClientId": "fairlead-console",
        "gateway.settings.consoleScopes": "{groups,profile}",
    }
    words = [word for name, value in values.items() for word in ("--set", f"{name}={value}")]
    variables = environment(helm.template(*words, "--set", "console.existingSecret=sso"), "gateway")
    secret = {"secretKeyRef": {"name": "sso", "key": "clientSecret"}}
    assert variables["FAIRLEAD_CONSOLE_CLIENT_SECRET"] == secret
    assert variables["FAIRLEAD_CONSOLE_CLIENT_ID"] == "fairlead-console"
    assert variables["FAIRLEAD_CONSOLE_SCOPES"] == "groups,profile"
    assert "FAIRLEAD_CONSOLE_CLIENT_SECRET" not in environment(helm.template(*words), "gateway")


def test_a_collector_by_grpc_needs_no_scheme(helm: Helm) -> None:
    variables = environment(helm.template("--set", "otel.endpoint=collector:4317,otel.protocol=grpc"), "gateway")
    assert variables["OTEL_EXPORTER_OTLP_ENDPOINT"] == "collector:4317"


def test_a_collector_gets_the_signals_that_are_named(helm: Helm) -> None:
    endpoint = "otel.endpoint=http://collector:4317,otel.protocol=grpc"
    variables = environment(
        helm.template("--set", f"{endpoint},otel.signals={{traces,logs}},otel.headersSecret=c"), "gateway"
    )
    assert {name: value for name, value in variables.items() if name.startswith("OTEL_")} == {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4317",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
        "OTEL_EXPORTER_OTLP_HEADERS": {"secretKeyRef": {"name": "c", "key": "headers"}},
        "OTEL_TRACES_EXPORTER": "otlp",
        "OTEL_METRICS_EXPORTER": "none",
        "OTEL_LOGS_EXPORTER": "otlp",
    }
    assert not [name for name in environment(helm.template(), "gateway") if name.startswith("OTEL_")]


def test_pods_of_stdio_servers_take_busybox_from_an_image_of_its_own(helm: Helm) -> None:
    manifests = helm.template("--set", "image.tag=1.2.3,servers.listenerImage.tag=4.5.6")
    image = container(manifests, "operator")["image"]
    assert image == container(manifests, "gateway")["image"] == "localhost/fairlead:1.2.3"
    assert environment(manifests, "operator")["FAIRLEAD_LISTENER_IMAGE"] == "localhost/fairlead-listener:4.5.6"


def test_the_image_with_an_encoder_is_a_tag_of_its_own(helm: Helm) -> None:
    manifests = helm.template("--set", "image.tag=1.2.3,image.variant=search")
    assert container(manifests, "gateway")["image"] == "localhost/fairlead:1.2.3-search"
    assert environment(manifests, "operator")["FAIRLEAD_LISTENER_IMAGE"].endswith("/fairlead-listener:0.1.0")
