"""The chart's admission policy for unrestricted pod templates, as a real API server carries it out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from controlplane import ControlPlane
from fairlead_api.v1alpha1.mcpserver.podtemplate import NOT_ALLOWED
from helmworld import Helm, manifests, of_kind
from podtemplates import ALLOWED, pod
from waiting import until

pytestmark = pytest.mark.timeout(180)

KINDS = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")


def mcp_server(name: str, unrestricted: Any = None, **spec: Any) -> str:
    body = {"image": {"name": "registry.example/demo:1"}, **spec}
    if unrestricted is not None:
        body["unrestrictedPodTemplate"] = unrestricted
    head = {"apiVersion": "fairlead.dev/v1alpha1", "kind": "McpServer", "metadata": {"name": name}}
    return json.dumps({**head, "spec": body})


def admitted(plane: ControlPlane, text: str, namespace: str = "team") -> str:
    """What the API server says of a try that changes nothing; empty where the server was admitted."""
    path = f"/apis/fairlead.dev/v1alpha1/namespaces/{namespace}/mcpservers?dryRun=All"
    status, answer = plane.request("POST", path, json.loads(text))
    return "" if status == 201 else str(answer["message"])


def answers(plane: ControlPlane) -> tuple[str, str]:
    """What each of both policies, of templates and of approvals, says now of what it is for."""
    template = pod(hostPID=True)
    approval = {"hash": "sha256:1", "by": "somebody-else"}
    return admitted(plane, mcp_server("x", template)), admitted(plane, mcp_server("x", approval=approval))


def in_force(plane: ControlPlane) -> bool:
    of_template, of_approval = answers(plane)
    return "servers.podTemplates" in of_template and "spec.approval.by" in of_approval


@pytest.fixture
def guarded(knowing: ControlPlane, helm: Helm) -> Iterator[ControlPlane]:
    """Namespace `exempt` may set any field."""
    made = helm.template("--set", "servers.anyPodTemplatesIn={exempt}")
    text = manifests([item for kind in KINDS for item in of_kind(made, kind)])
    knowing.kubectl("create", "namespace", "exempt", check=False)
    knowing.kubectl("apply", "-f", "-", stdin=text)
    # An API server takes up each policy and each binding in its own time.
    until("both in force", lambda: in_force(knowing), seconds=30)
    yield knowing
    knowing.kubectl("delete", "-f", "-", stdin=text)
    until("both out of force", lambda: answers(knowing) == ("", ""), seconds=30)


def test_it_refuses_any_unrestricted_template_with_the_words_of_the_operator(guarded: ControlPlane) -> None:
    for template in (pod(hostPID=True), pod(nodeSelector={"disk": "ssd"}), {}):
        assert NOT_ALLOWED in admitted(guarded, mcp_server("demo", template))
    for allowed in ALLOWED.values():
        assert admitted(guarded, mcp_server("demo", podTemplate=allowed)) == ""
    assert admitted(guarded, mcp_server("demo", pod(hostPID=True)), namespace="exempt") == ""


def test_a_server_from_before_may_change_but_for_its_template(knowing: ControlPlane, request: Any) -> None:
    knowing.kubectl("create", "-n", "team", "-f", "-", stdin=mcp_server("before", pod(hostPID=True)))
    guarded: ControlPlane = request.getfixturevalue("guarded")
    patch = ("patch", "mcps", "before", "-n", "team", "--type=merge", "-p")
    guarded.kubectl(*patch, '{"spec": {"image": {"port": 9000}}}')
    worse = guarded.kubectl(
        *patch, '{"spec": {"unrestrictedPodTemplate": {"spec": {"hostIPC": true}}}}', check=False
    ).stderr
    assert NOT_ALLOWED in worse
    guarded.kubectl(*patch, '{"spec": {"unrestrictedPodTemplate": null}}')
    guarded.kubectl("delete", "mcps", "before", "-n", "team")


def test_an_approval_bears_the_name_of_who_gives_it_or_none(guarded: ControlPlane) -> None:
    user = guarded.kubectl("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}").stdout
    for by, refused in (({"by": user}, False), ({}, False), ({"by": "somebody-else"}, True)):
        said = admitted(guarded, mcp_server("demo", approval={"hash": "sha256:1", **by}))
        assert (f"spec.approval.by must be who makes the request, {user}" in said) is refused, said


@pytest.mark.parametrize(
    ("words", "left"),
    [
        (("--set", "servers.admissionPolicy.enabled=false"), []),
        (("--set", "servers.podTemplates=Any"), ["approvals"]),
        (("--set", "watchNamespace=team"), []),
    ],
)
def test_there_is_none_where_it_is_not_wanted_or_stands_in_no_namespace(
    helm: Helm, words: tuple[str, ...], left: list[str]
) -> None:
    made = helm.template(*words)
    names = [item["metadata"]["name"] for item in made if item["kind"] in KINDS]
    assert [name.rpartition("-")[2] for name in names] == left * 2
