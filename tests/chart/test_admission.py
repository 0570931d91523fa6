"""The chart's admission policy for unrestricted pod templates, enforced by a real API server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from controlplane import ControlPlane
from fairlead_api.v1alpha1.mcpserver.podtemplate import NOT_ALLOWED
from helmworld import Helm, manifests, of_kind
from podtemplates import ALLOWED, pod, template_with_security, template_with_volume
from waiting import until

pytestmark = pytest.mark.timeout(180)

KINDS = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")


def mcp_server(name: str, unrestricted: Any = None, **spec: Any) -> str:
    body = {"image": {"name": "registry.example/demo:1"}, **spec}
    if unrestricted is not None:
        body["unrestrictedPodTemplate"] = unrestricted
    head = {"apiVersion": "fairlead.dev/v1alpha1", "kind": "McpServer", "metadata": {"name": name}}
    return json.dumps({**head, "spec": body})


def admission_error(plane: ControlPlane, text: str, namespace: str = "team") -> str:
    """Error of the API server for a dry run; empty if the request was admitted."""
    path = f"/apis/fairlead.dev/v1alpha1/namespaces/{namespace}/mcpservers?dryRun=All"
    status, answer = plane.request("POST", path, json.loads(text))
    return "" if status == 201 else str(answer["message"])


def answers(plane: ControlPlane) -> tuple[str, str]:
    """Errors of both policies, for templates and for approvals, about objects of their kinds."""
    template = pod(hostPID=True)
    approval = {"hash": "sha256:1", "by": "somebody-else"}
    return admission_error(plane, mcp_server("x", template)), admission_error(plane, mcp_server("x", approval=approval))


def in_force(plane: ControlPlane) -> bool:
    of_template, of_approval = answers(plane)
    return "servers.podTemplates" in of_template and "spec.approval.by" in of_approval


@pytest.fixture
def plane_with_policies(plane_with_kinds: ControlPlane, helm: Helm) -> Iterator[ControlPlane]:
    """API server with the policies. The namespace `exempt` may set any field."""
    made = helm.template("--set", "servers.anyPodTemplatesIn={exempt}")
    text = manifests([item for kind in KINDS for item in of_kind(made, kind)])
    plane_with_kinds.kubectl("create", "namespace", "exempt", check=False)
    plane_with_kinds.kubectl("apply", "-f", "-", stdin=text)
    # An API server applies each policy and each binding after a delay.
    until("both in force", lambda: in_force(plane_with_kinds), seconds=30)
    yield plane_with_kinds
    plane_with_kinds.kubectl("delete", "-f", "-", stdin=text)
    until("both out of force", lambda: answers(plane_with_kinds) == ("", ""), seconds=30)


def test_the_admission_policy_refuses_unrestricted_templates_in_the_words_of_the_operator(
    plane_with_policies: ControlPlane,
) -> None:
    for template in (pod(hostPID=True), pod(nodeSelector={"disk": "ssd"}), {}):
        assert NOT_ALLOWED in admission_error(plane_with_policies, mcp_server("demo", template))
    for allowed in ALLOWED.values():
        assert admission_error(plane_with_policies, mcp_server("demo", podTemplate=allowed)) == ""
    assert admission_error(plane_with_policies, mcp_server("demo", pod(hostPID=True)), namespace="exempt") == ""


def test_a_server_from_before_may_change_but_for_its_template(plane_with_kinds: ControlPlane, request: Any) -> None:
    plane_with_kinds.kubectl("create", "-n", "team", "-f", "-", stdin=mcp_server("before", pod(hostPID=True)))
    plane_with_policies: ControlPlane = request.getfixturevalue("plane_with_policies")
    patch = ("patch", "mcps", "before", "-n", "team", "--type=merge", "-p")
    plane_with_policies.kubectl(*patch, '{"spec": {"image": {"port": 9000}}}')
    worse = plane_with_policies.kubectl(
        *patch, '{"spec": {"unrestrictedPodTemplate": {"spec": {"hostIPC": true}}}}', check=False
    ).stderr
    assert NOT_ALLOWED in worse
    plane_with_policies.kubectl(*patch, '{"spec": {"unrestrictedPodTemplate": null}}')
    plane_with_policies.kubectl("delete", "mcps", "before", "-n", "team")


def test_an_approval_bears_the_name_of_who_gives_it_or_none(plane_with_policies: ControlPlane) -> None:
    user = plane_with_policies.kubectl("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}").stdout
    for by, refused in (({"by": user}, False), ({}, False), ({"by": "somebody-else"}, True)):
        answer = admission_error(plane_with_policies, mcp_server("demo", approval={"hash": "sha256:1", **by}))
        assert (f"spec.approval.by must be who makes the request, {user}" in answer) is refused, answer


TRIES = 100
SERVERS = "/apis/fairlead.dev/v1alpha1/namespaces/team/mcpservers"
MERGE, APPLY, JSON_PATCH = (
    f"application/{kind}" for kind in ("merge-patch+json", "apply-patch+yaml", "json-patch+json")
)
Try = tuple[str, str, str, Any]
"""Method, path, media type and body."""


def _creations(spec: dict[str, Any], member: str) -> Iterator[Try]:
    """Requests that create a server with a forbidden member in its spec."""
    whole = {"apiVersion": "fairlead.dev/v1alpha1", "kind": "McpServer", "metadata": {"name": "made"}, "spec": spec}
    text = json.dumps(whole)
    forbidden, empty = f'"{member}": {json.dumps(spec[member])}', f'"{member}": null'
    assert forbidden in text
    yield "POST", SERVERS, "application/json", text.encode()
    yield "POST", SERVERS, "application/yaml", yaml.safe_dump(whole).encode()
    yield "POST", SERVERS, "application/json", text.replace(forbidden, f"{empty}, {forbidden}").encode()
    yield "POST", SERVERS, "application/json", text.replace(forbidden, f"{forbidden}, {empty}").encode()
    yield "POST", SERVERS, "application/json", text.replace(forbidden, f"{forbidden}, {forbidden}").encode()
    yield "POST", SERVERS, "application/json", {**whole, "metadata": {"generateName": "made-"}}
    yield "POST", SERVERS, "application/json", {**whole, "apiVersion": "fairlead.dev/v1"}
    yield "PUT", f"{SERVERS}/made", "application/json", whole
    yield "PATCH", f"{SERVERS}/made", APPLY, whole
    for version in ("v1", "v1beta1", "v1alpha2"):
        other = {**whole, "apiVersion": f"fairlead.dev/{version}"}
        yield "POST", SERVERS.replace("v1alpha1", version), "application/json", other


def _updates(name: str, member: str, value: Any, before: dict[str, Any]) -> Iterator[Try]:
    """Requests that add a forbidden member to an existing server."""
    changed = {**before, "spec": {**before["spec"], member: value}}
    applied = {
        "apiVersion": before["apiVersion"],
        "kind": "McpServer",
        "metadata": {"name": name},
        "spec": {member: value},
    }
    operation = {"path": f"/spec/{member}", "value": value}
    for subresource in ("", "/status", "/scale", "/finalizers"):
        path = f"{SERVERS}/{name}{subresource}"
        yield "PUT", path, "application/json", changed
        yield "PATCH", path, MERGE, {"spec": {member: value}}
        yield "PATCH", path, APPLY, applied
        for verb in ("add", "replace"):
            yield "PATCH", path, JSON_PATCH, [{**operation, "op": verb}]
    path = f"{SERVERS}/{name}"
    yield "PATCH", path, JSON_PATCH, [{"op": "remove", "path": "/spec/prefix"}, {**operation, "op": "add"}]
    yield "PATCH", path, JSON_PATCH, [{"op": "copy", "from": "/spec/podTemplate", "path": f"/spec/{member}"}]
    yield "PATCH", path, JSON_PATCH, [{"op": "move", "from": "/spec/podTemplate", "path": f"/spec/{member}"}]
    yield "PATCH", path, MERGE, {"spec": None, "kind": "McpServer", member: value}
    if isinstance(value, dict):
        for part in value:
            yield "PATCH", path, JSON_PATCH, [{"op": "add", "path": f"/spec/{member}/{part}", "value": value[part]}]


def _accepted_tries(plane: ControlPlane, tries: list[Try], member: str, allowed: Any) -> list[Try]:
    """Requests, sent as dry runs, that would set a forbidden value of the member."""
    taken = []
    for method, path, kind, body in tries:
        query = "?dryRun=All&fieldValidation=Ignore"
        query += "&fieldManager=mallory&force=true" if kind == APPLY else ""
        status, answer = plane.request(method, path + query, body, content_type=kind)
        if status < 300 and answer.get("spec", {}).get(member, allowed) != allowed:
            taken.append((method, path, kind, body))
    return taken


@pytest.fixture
def servers_from_before(plane_with_kinds: ControlPlane) -> Iterator[dict[str, Any]]:
    """A server without and a server with the forbidden member, by name."""
    template = json.loads(mcp_server("before", pod(hostPID=True), prefix="p"))
    plain = json.loads(mcp_server("plain", prefix="p", podTemplate=pod(nodeSelector={"disk": "ssd"})))
    made = {each["metadata"]["name"]: plane_with_kinds.request("POST", SERVERS, each)[1] for each in (template, plain)}
    yield made
    for name in made:
        plane_with_kinds.request("DELETE", f"{SERVERS}/{name}")


def test_no_version_update_subresource_null_or_repeated_member_brings_an_unrestricted_template(
    servers_from_before: dict[str, Any], request: Any
) -> None:
    plane_with_policies: ControlPlane = request.getfixturevalue("plane_with_policies")
    member, tried = "unrestrictedPodTemplate", 0
    for template in (
        pod(hostPID=True, hostNetwork=True),
        template_with_security(privileged=True),
        template_with_volume(hostPath={"path": "/"}),
        {},
    ):
        spec = {"image": {"name": "registry.example/demo:1"}, member: template}
        tries = [*_creations(spec, member)]
        assert _accepted_tries(plane_with_policies, tries, member, None) == []
        tried += len(tries)
        for name, before in servers_from_before.items():
            tries = [*_updates(name, member, template, before)]
            assert _accepted_tries(plane_with_policies, tries, member, before["spec"].get(member)) == []
            tried += len(tries)
    assert tried >= TRIES


def test_no_version_update_subresource_null_or_repeated_member_brings_an_approval_in_the_name_of_another(
    servers_from_before: dict[str, Any], request: Any
) -> None:
    plane_with_policies: ControlPlane = request.getfixturevalue("plane_with_policies")
    member, tried = "approval", 0
    for by in ("somebody-else", "Admin", "admin ", "system:admin", "\u0430dmin"):
        approval = {"hash": "sha256:1", "by": by}
        tries = [*_creations({"image": {"name": "registry.example/demo:1"}, member: approval}, member)]
        assert _accepted_tries(plane_with_policies, tries, member, None) == []
        tried += len(tries)
        for name, before in servers_from_before.items():
            tries = [*_updates(name, member, approval, before)]
            assert _accepted_tries(plane_with_policies, tries, member, None) == []
            tried += len(tries)
    assert tried >= TRIES


@pytest.mark.parametrize(
    ("words", "left"),
    [
        (("--set", "servers.admissionPolicy.enabled=false"), []),
        (("--set", "servers.podTemplates=Any"), ["approvals"]),
        (("--set", "watchNamespace=team"), []),
    ],
)
def test_the_admission_policy_is_left_out_where_values_or_a_missing_namespace_say_so(
    helm: Helm, words: tuple[str, ...], left: list[str]
) -> None:
    made = helm.template(*words)
    names = [item["metadata"]["name"] for item in made if item["kind"] in KINDS]
    assert [name.rpartition("-")[2] for name in names] == left * 2
