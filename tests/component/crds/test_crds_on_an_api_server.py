"""A real API server accepts the CRDs and the samples, and refuses violations of each rule with the rule's message."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from controlplane import ControlPlane
from crdrules import BAD, REPOSITORY, SAMPLES, SPEC_PAGES, BadObject, examples, load_yaml
from fairlead_api.documents.rules import Policy as CompiledPolicy
from fairlead_api.documents.rules import Rule, Rules
from fairlead_api.meta import ServerKey
from fairlead_api.v1alpha1.mcpserver import McpServer
from fairlead_api.v1alpha1.toolpolicy import ToolPolicy
from fairlead_operator.publish.policies import status_of
from fairlead_operator.publish.policy_review import review
from podtemplates import ALLOWED, NULLS, TEMPLATES

LOCAL = ("mcpserver-command", "mcpserver-command-with-key", "mcpserver-openapi-file")
"""Samples that only `fairlead up` supports."""
PLURALS = {"McpServer": "mcpservers", "LatencyTier": "latencytiers", "ToolPolicy": "toolpolicies"}


def create(plane: ControlPlane, namespace: str, manifest: dict[str, Any], *, dry_run: bool = True) -> tuple[int, Any]:
    """Post an object with strict field validation. Returns HTTP status and answer."""
    manifest["metadata"].pop("namespace", None)
    plural = PLURALS[manifest["kind"]]
    scope = "" if plural == "latencytiers" else f"namespaces/{namespace}/"
    query = "fieldValidation=Strict" + ("&dryRun=All" if dry_run else "")
    return plane.request("POST", f"/apis/fairlead.dev/v1alpha1/{scope}{plural}?{query}", manifest)


def mcpserver(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "fairlead.dev/v1alpha1",
        "kind": "McpServer",
        "metadata": {"name": "docs"},
        "spec": {"url": "https://tools.example.com/mcp", **spec},
    }


def without_defaults(stored: Any, wanted: Any) -> Any:
    """`stored` without the members that `wanted` lacks: an API server adds defaults inside of objects."""
    if not isinstance(wanted, dict) or not isinstance(stored, dict):
        return stored
    return {name: without_defaults(stored.get(name), value) for name, value in wanted.items()}


@pytest.mark.parametrize("path", [path for path in SAMPLES if path.stem not in LOCAL], ids=lambda path: path.stem)
def test_a_sample_is_accepted_as_it_stands(control_plane: ControlPlane, namespace: str, path: Path) -> None:
    manifest = load_yaml(path.read_text("utf-8"))
    manifest["metadata"]["name"] += "-sample"  # tiers are not namespaced, so another test may have a tier of that name
    wanted = load_yaml(path.read_text("utf-8"))

    status, answer = create(control_plane, namespace, manifest)

    assert status == 201, answer
    stored = {name: value for name, value in answer["spec"].items() if name in wanted["spec"]}
    for name, value in wanted["spec"].items():
        if name not in ("podTemplate", "tools"):
            assert without_defaults(stored[name], value) == value
        elif name != "tools":
            assert stored[name] == value


RESOURCES: list[tuple[dict[str, Any], bool]] = [
    ({"limits": {"memory": "64Mi", "cpu": 2}, "requests": {"memory": "1Mi", "cpu": "50m"}}, True),
    ({"limits": {"memory": "0.5Gi"}, "requests": {"memory": 536870912}}, True),
    ({"limits": {"memory": "1e9"}, "requests": {"memory": "1G"}}, True),
    ({"requests": {"memory": 0, "cpu": "0"}, "limits": {"ephemeral-storage": "1Gi"}}, True),
    ({"requests": {"cpu": ".5"}, "limits": {"cpu": "500000u"}}, True),
    ({"requests": {"nvidia.com/gpu": 1}, "limits": {"nvidia.com/gpu": 1}}, True),
    ({"limits": {"memory": "64m"}}, False),
    ({"limits": {"memory": 64}}, False),
    ({"requests": {"memory": "64000m"}}, False),
    ({"requests": {"ephemeral-storage": "1e3"}}, False),
    ({"limits": {"cpu": "1Mi"}}, False),
    ({"requests": {"cpu": 2}, "limits": {"cpu": "1999m"}}, False),
    ({"requests": {"memory": "1G"}, "limits": {"memory": "900Mi"}}, False),
    ({"requests": {"ephemeral-storage": "2Gi"}, "limits": {"ephemeral-storage": "1Gi"}}, False),
]


@pytest.mark.parametrize(("resources", "good"), RESOURCES, ids=[json.dumps(each) for each, _ in RESOURCES])
def test_amounts_of_resources_are_compared_alike_by_an_api_server_and_off_a_cluster(
    control_plane: ControlPlane, namespace: str, resources: dict[str, Any], good: bool
) -> None:
    manifest = mcpserver(image={"name": "demo:1"}, resources=resources)
    del manifest["spec"]["url"]

    status, answer = create(control_plane, namespace, manifest)

    assert (status == 201) is good, answer
    if good:
        McpServer.model_validate(manifest)
    else:
        with pytest.raises(ValidationError, match="must"):
            McpServer.model_validate(manifest)


def _dot_path(field: str) -> str:
    """The field path with keys of maps after dots; the API server writes them in brackets."""
    return re.sub(r"\[([A-Za-z]\w*)\]", r".\1", field)


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_an_object_that_breaks_a_rule_is_refused_with_its_sentence_alone(
    control_plane: ControlPlane, namespace: str, path: Path
) -> None:
    bad = BadObject.from_file(path)

    status, answer = create(control_plane, namespace, load_yaml(bad.text))

    assert status == 422, answer
    causes = [(_dot_path(cause["field"]), cause["message"]) for cause in answer["details"]["causes"]]
    assert [field for field, _ in causes] == [bad.field]
    assert causes[0][1].endswith(f": {bad.message}")


def test_a_local_command_is_refused_on_a_cluster_with_the_way_out(control_plane: ControlPlane, namespace: str) -> None:
    path = next(path for path in SAMPLES if "command" in path.name)

    refused = control_plane.kubectl("-n", namespace, "apply", "-f", str(path), check=False)

    assert refused.returncode == 1
    assert "spec.command: Forbidden: command runs a local child process" in refused.stderr


def test_a_quantity_with_an_unknown_unit_is_refused_in_one_sentence(
    control_plane: ControlPlane, namespace: str
) -> None:
    """A rule that reads the quantity as a number must not add its own failure."""
    server = mcpserver(image={"name": "demo:1"}, resources={"requests": {"memory": "1GB"}, "limits": {"memory": "2GB"}})
    del server["spec"]["url"]

    status, answer = create(control_plane, namespace, server)

    assert status == 422, answer
    # the API server walks the map of quantities in any order
    fields = sorted(_dot_path(cause["field"]) for cause in answer["details"]["causes"])
    assert fields == ["spec.resources.limits.memory", "spec.resources.requests.memory"]


def test_an_unknown_field_is_refused_when_validation_is_strict(control_plane: ControlPlane, namespace: str) -> None:
    status, answer = create(control_plane, namespace, mcpserver(prefx="a"))

    assert status == 400
    assert 'unknown field "spec.prefx"' in answer["message"]


def test_defaults_are_filled_in_by_the_api_server(control_plane: ControlPlane, namespace: str) -> None:
    status, answer = create(control_plane, namespace, mcpserver(limits={"concurrency": 4}))

    assert status == 201, answer
    assert answer["spec"] == {
        "url": "https://tools.example.com/mcp",
        "pin": False,
        "session": "Shared",
        "discovery": {"interval": "10m", "onDisconnect": "MarkOffline", "tools": "All"},
        "calibration": {"samples": 5, "interval": "1h"},
        "limits": {
            "concurrency": 4,
            "timeout": "60s",
            "maxTimeout": "10m",
            "retries": 1,
            "maxResultBytes": 10485760,
            "processes": 128,
        },
    }
    assert "status" not in answer


@pytest.mark.parametrize(
    ("spec", "field", "part"),
    [
        ({"remote": {"transport": "http"}}, "spec.remote.transport", '"streamable-http", "sse"'),
        ({"limits": {"retries": 9}}, "spec.limits.retries", "less than or equal to 5"),
        ({"tools": [{"name": "a"}, {"name": "a"}]}, "spec.tools[1]", '{"name":"a"}'),
        ({"tools": [{"name": "a", "tags": ["x", "x"]}]}, "spec.tools[0].tags[1]", 'Duplicate value: "x"'),
        ({"resources": {"limits": {"memory": "64mb"}}}, "spec.resources.limits.memory", "should match"),
        ({"resources": {"requests": {"cpu": -1}}}, "spec.resources.requests.cpu", "greater than or equal to 0"),
        ({"auth": {"bearer": {}}}, "spec.auth.bearer.secretRef", "Required value"),
        ({"env": "A=b"}, "spec.env", "must be of type array"),
    ],
)
def test_the_schema_refuses_what_has_the_wrong_form(
    control_plane: ControlPlane, namespace: str, spec: dict[str, Any], field: str, part: str
) -> None:
    status, answer = create(control_plane, namespace, mcpserver(**spec))

    assert status == 422, answer
    assert any(cause["field"] == field and part in cause["message"] for cause in answer["details"]["causes"]), answer


def test_kubectl_shows_transport_tools_ready_reason_and_age(control_plane: ControlPlane, namespace: str) -> None:
    status, server = create(control_plane, namespace, mcpserver(), dry_run=False)
    assert status == 201, server
    server["status"] = {
        "transport": "streamable-http",
        "tools": 7,
        "endpoint": "https://tools.example.com/mcp",
        "latency": {"slowestTool": "search", "p50Ms": 12, "p95Ms": 40},
        "conditions": [
            {
                "type": "Ready",
                "status": "False",
                "reason": "Unauthorized",
                "message": "401",
                "observedGeneration": 1,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            },
            {
                "type": "PartiallyInvalid",
                "status": "True",
                "reason": "InvalidRef",
                "message": "UnknownTool",
                "observedGeneration": 1,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            },
        ],
    }
    path = f"/apis/fairlead.dev/v1alpha1/namespaces/{namespace}/mcpservers/docs/status"
    status, answer = control_plane.request("PUT", path, server)
    assert status == 200, answer

    header, row = control_plane.kubectl("-n", namespace, "get", "mcps").stdout.splitlines()
    assert header.split() == ["NAME", "TRANSPORT", "TOOLS", "READY", "REASON", "CONFLICTED", "AGE"]
    assert row.split()[:-1] == ["docs", "streamable-http", "7", "False", "Unauthorized"]

    header, row = control_plane.kubectl("-n", namespace, "get", "mcps", "-o", "wide").stdout.splitlines()
    assert header.split()[6:-1] == ["P50", "P95", "SLOWEST", "ENDPOINT", "MESSAGE", "CONFLICT", "PROBLEM"]
    assert row.split()[5:-1] == ["12", "40", "search", "https://tools.example.com/mcp", "401", "UnknownTool"]


def test_kubectl_shows_the_columns_of_tiers_and_policies(control_plane: ControlPlane, namespace: str) -> None:
    samples = {path.stem: path for path in SAMPLES}
    control_plane.kubectl("-n", namespace, "apply", "-f", str(samples["toolpolicy-minimal"]))
    control_plane.kubectl("apply", "-f", str(samples["latencytier-full"]))
    try:
        tiers = control_plane.kubectl("get", "lt", "standard").stdout.splitlines()
        policies = control_plane.kubectl("-n", namespace, "get", "tp").stdout.splitlines()
    finally:
        control_plane.kubectl("delete", "lt", "standard")

    assert tiers[0].split() == ["NAME", "MAX", "QUANTILE", "DEFAULT", "TOOLS", "CONFLICTED", "AGE"]
    assert tiers[1].split()[:3] == ["standard", "1500ms", "p95"]
    assert policies[0].split() == ["NAME", "SERVERS", "TOOLS", "ACCEPTED", "PARTIALLY", "INVALID", "CONFLICTED", "AGE"]


def test_kubectl_shows_a_policy_of_which_a_rule_allows_nothing_as_such(
    control_plane: ControlPlane, namespace: str
) -> None:
    bad = Rule(action="Allow", tools=("*",), arguments={"type": "nothing that JSON Schema knows"})
    rules = Rules(policies=(CompiledPolicy(namespace=namespace, name="bad", every=True, rules=(bad,)),))
    reviewed = review(rules, [ServerKey(namespace, "docs")], {})[ServerKey(namespace, "bad")]
    head = {"apiVersion": "fairlead.dev/v1alpha1", "kind": "ToolPolicy", "metadata": {"name": "bad"}}
    spec = {"rules": [{"action": "Allow", "tools": ["*"], "arguments": bad.arguments}]}
    status, policy = create(control_plane, namespace, {**head, "spec": spec}, dry_run=False)
    assert status == 201, policy
    shown = status_of(ToolPolicy.model_validate(policy), reviewed, datetime.now(UTC))
    path = f"/apis/fairlead.dev/v1alpha1/namespaces/{namespace}/toolpolicies/bad/status"
    status, answer = control_plane.request("PUT", path, {**policy, "status": shown.to_wire()})
    assert status == 200, answer

    _, row = control_plane.kubectl("-n", namespace, "get", "tp", "bad").stdout.splitlines()
    assert row.split()[:4] == ["bad", "1", "True", "Invalid"]
    assert "AsExpected" not in row
    _, wide = control_plane.kubectl("-n", namespace, "get", "tp", "bad", "-o", "wide").stdout.splitlines()
    assert "rules[0].arguments is not a usable JSON Schema" in wide


def test_all_kinds_answer_to_the_category(control_plane: ControlPlane) -> None:
    listed = control_plane.kubectl("api-resources", "--categories=fairlead", "--no-headers", "-o", "name").stdout

    assert sorted(listed.split()) == sorted(f"{plural}.fairlead.dev" for plural in PLURALS.values())


def test_every_field_of_an_mcpserver_is_explained(control_plane: ControlPlane) -> None:
    explained = control_plane.kubectl("explain", "mcps.spec.tools.latency.max").stdout

    assert "the timeout of a call" in explained


def of_pods(template: dict[str, Any]) -> dict[str, Any]:
    """A server that runs in pods with this template."""
    spec = {"image": {"name": "registry.example/demo:1"}, "podTemplate": template}
    return {**mcpserver(), "spec": spec}


def test_a_pod_template_that_gives_pods_more_is_refused_by_its_field(
    control_plane: ControlPlane, namespace: str
) -> None:
    answers = [(path, *create(control_plane, namespace, of_pods(template))) for path, template in TEMPLATES]

    assert [path for path, status, _ in answers if status not in (400, 422)] == []
    assert [path for path, _, answer in answers if f"spec.podTemplate.{path}" not in answer["message"]] == []


def test_an_allowed_pod_template_is_kept_as_it_was_written(control_plane: ControlPlane, namespace: str) -> None:
    for name, template in ALLOWED.items():
        status, answer = create(control_plane, namespace, of_pods(template))

        assert (name, status, answer["spec"].get("podTemplate")) == (name, 201, template)


def test_nulls_that_would_take_away_what_holds_a_pod_are_dropped(control_plane: ControlPlane, namespace: str) -> None:
    for template in NULLS:
        status, answer = create(control_plane, namespace, of_pods(template))

        assert status == 201, answer
        assert "null" not in json.dumps(answer["spec"]["podTemplate"])


def test_a_client_that_is_not_strict_loses_the_field_and_gains_nothing(
    control_plane: ControlPlane, namespace: str
) -> None:
    path = f"/apis/fairlead.dev/v1alpha1/namespaces/{namespace}/mcpservers?fieldValidation=Ignore&dryRun=All"

    status, answer = control_plane.request("POST", path, of_pods({"spec": {"hostPath": "/", "schedulerName": "mine"}}))

    assert (status, answer["spec"]["podTemplate"]) == (201, {"spec": {}})


def test_every_field_of_a_pod_template_is_explained(control_plane: ControlPlane) -> None:
    explained = control_plane.kubectl("explain", "mcps.spec.podTemplate.spec.containers.readinessProbe.httpGet").stdout

    assert "Makes an HTTP request to the pod itself." in explained
    assert "Number or name of a port." in explained


def test_the_api_server_is_of_a_release_that_the_chart_takes(control_plane: ControlPlane) -> None:
    chart = load_yaml((REPOSITORY / "charts" / "fairlead" / "Chart.yaml").read_text())
    oldest = int(chart["kubeVersion"].removeprefix(">=1.").split(".")[0])

    _, version = control_plane.request("GET", "/version")

    assert int(version["minor"]) >= oldest


@pytest.mark.parametrize("page", SPEC_PAGES, ids=lambda path: path.stem)
def test_an_example_of_a_page_is_accepted(control_plane: ControlPlane, namespace: str, page: Path) -> None:
    answers = [create(control_plane, namespace, example) for example in examples(page)]

    assert [answer for status, answer in answers if status != 201] == []
