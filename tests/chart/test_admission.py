"""The chart's admission policy for pod templates, as a real API server carries it out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from controlplane import ControlPlane
from fairlead_api.podtemplates import sentence
from helmworld import Helm, of_kind
from podtemplates import ALLOWED, TEMPLATES, pod
from waiting import until

pytestmark = pytest.mark.timeout(180)

KINDS = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
CURRENT = ("--kube-version", "1.34", "--api-versions", "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy")


def mcp_server(name: str, template: Any, **spec: Any) -> str:
    body = {"image": "registry.example/demo:1", **spec}
    if template is not None:
        body["podTemplate"] = template
    head = {"apiVersion": "fairlead.dev/v1alpha1", "kind": "McpServer", "metadata": {"name": name}}
    return json.dumps({**head, "spec": body})


def admitted(plane: ControlPlane, text: str, namespace: str = "team") -> str:
    """What the API server says of a try that changes nothing; empty where the server was admitted."""
    path = f"/apis/fairlead.dev/v1alpha1/namespaces/{namespace}/mcpservers?dryRun=All"
    status, answer = plane.request("POST", path, json.loads(text))
    return "" if status == 201 else str(answer["message"])


@pytest.fixture
def guarded(knowing: ControlPlane, helm: Helm) -> Iterator[ControlPlane]:
    """Namespace `exempt` may set any field."""
    made = helm.template(*CURRENT, "--set", "servers.anyPodTemplatesIn={exempt}")
    text = yaml.safe_dump_all([item for kind in KINDS for item in of_kind(made, kind)])
    knowing.kubectl("create", "namespace", "exempt", check=False)
    knowing.kubectl("apply", "-f", "-", stdin=text)
    until("in force", lambda: "hostPID" in admitted(knowing, mcp_server("x", pod(hostPID=True))), seconds=30)
    yield knowing
    knowing.kubectl("delete", "-f", "-", stdin=text)
    until("out of force", lambda: admitted(knowing, mcp_server("x", pod(hostPID=True))) == "", seconds=30)


def test_it_refuses_what_the_operator_refuses_with_the_same_sentence_and_nothing_else(guarded: ControlPlane) -> None:
    said = {path: admitted(guarded, mcp_server("demo", template)) for path, template in TEMPLATES}
    assert [path for path, words in said.items() if sentence(f"spec.podTemplate.{path}") not in words] == []
    for template in (None, *ALLOWED.values()):
        assert admitted(guarded, mcp_server("demo", template)) == ""
    assert admitted(guarded, mcp_server("demo", pod(hostPID=True)), namespace="exempt") == ""


def test_a_server_from_before_may_change_but_for_its_template(knowing: ControlPlane, request: Any) -> None:
    knowing.kubectl("create", "-n", "team", "-f", "-", stdin=mcp_server("before", pod(hostPID=True)))
    guarded: ControlPlane = request.getfixturevalue("guarded")
    patch = ("patch", "mcp", "before", "-n", "team", "--type=merge", "-p")
    guarded.kubectl(*patch, '{"spec": {"port": 9000}}')
    worse = guarded.kubectl(*patch, '{"spec": {"podTemplate": {"spec": {"hostIPC": true}}}}', check=False).stderr
    assert "this installation does not let a server set spec.podTemplate.spec.host" in worse
    guarded.kubectl(*patch, '{"spec": {"podTemplate": null}}')
    guarded.kubectl("delete", "mcp", "before", "-n", "team")


@pytest.mark.parametrize(
    "words",
    [
        ("--set", "servers.admissionPolicy.enabled=false"),
        ("--set", "servers.podTemplates=Any"),
        ("--set", "watchNamespace=team"),
    ],
)
def test_there_is_none_where_it_is_not_wanted_or_stands_in_no_namespace(helm: Helm, words: tuple[str, ...]) -> None:
    made = helm.template(*CURRENT, *words)
    assert [item["kind"] for item in made if item["kind"] in KINDS] == []


def test_there_is_none_on_a_cluster_that_does_not_know_the_kind(helm: Helm) -> None:
    made = helm.template("--kube-version", "1.29")
    assert [item["kind"] for item in made if item["kind"] in KINDS] == []
