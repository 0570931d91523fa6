"""Golden files of the objects of image servers: `NAME.in.yaml` is the McpServer, `NAME.out.yaml` the applied objects.

`UPDATE_GOLDEN=1 pytest tests/unit/operator/test_manifests.py` rewrites the files; read the difference afterwards.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead_api.v1alpha1.mcpserver import McpServer
from fairlead_operator.server.kube_manifests import ManifestContext
from fairlead_operator.server.object_plan import plan
from fairlead_operator.settings import PodSettings
from operatorfakes import mcp_server

CONTEXT = ManifestContext("fairlead-system")
GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "operator"
INPUTS = sorted(GOLDEN.glob("*.in.yaml"))


def render(server: McpServer, context: ManifestContext) -> list[dict[str, Any]]:
    """The manifests that the operator applies, as YAML."""
    return [
        {"apiVersion": kind.api_version, "kind": kind.kind, **manifest}
        for kind, manifest in plan(server, context).apply
    ]


@pytest.mark.parametrize("path", INPUTS, ids=[path.name.removesuffix(".in.yaml") for path in INPUTS])
def test_a_server_becomes_the_objects_of_its_golden_file(path: Path) -> None:
    server = McpServer.model_validate(yaml.safe_load(path.read_text()))
    restricted = server.spec.unrestricted_pod_template is None
    objects = render(
        server, ManifestContext("fairlead-system", "secrets-1" if server.spec.env_from else "", restricted=restricted)
    )
    expected = path.with_name(path.name.replace(".in.", ".out."))
    if os.environ.get("UPDATE_GOLDEN"):
        expected.write_text(yaml.safe_dump_all(objects, sort_keys=False, allow_unicode=True, width=110))
    assert objects == list(yaml.safe_load_all(expected.read_text()))


def test_golden_files_of_manifests_exist() -> None:
    assert len(INPUTS) >= 3


def test_a_server_that_runs_elsewhere_has_no_objects_and_gives_up_those_it_had() -> None:
    wanted = plan(mcp_server(), ManifestContext("fairlead-system"))
    assert wanted.apply == ()
    assert {kind.kind for kind in wanted.remove} == {
        "Deployment",
        "Service",
        "ServiceAccount",
        "NetworkPolicy",
        "PodDisruptionBudget",
    }


def test_a_single_replica_has_no_disruption_budget_and_leaves_its_number_to_an_autoscaler() -> None:
    wanted = plan(mcp_server(image={"name": "demo:1"}), ManifestContext("fairlead-system"))
    kinds = [kind.kind for kind, _ in wanted.apply]
    assert "PodDisruptionBudget" not in kinds
    assert [kind.kind for kind in wanted.remove] == ["PodDisruptionBudget"]
    assert kinds[-1] == "Deployment", "pods come last"
    deployment = wanted.apply[-1][1]
    assert "replicas" not in deployment["spec"]


@pytest.mark.parametrize(
    ("grace", "expected"),
    [(None, {"sleep": {"seconds": 10}}), (60, {"sleep": {"seconds": 10}}), (5, {"sleep": {"seconds": 2}}), (1, None)],
)
def test_a_pod_over_http_serves_on_while_its_address_is_known_and_no_longer_than_its_grace_period(
    grace: int | None, expected: dict[str, Any] | None
) -> None:
    template = {} if grace is None else {"podTemplate": {"spec": {"terminationGracePeriodSeconds": grace}}}
    spec = pod_spec({"image": {"name": "example/a:1"}, **template})
    assert spec["containers"][0]["lifecycle"].get("preStop") == expected


@pytest.mark.parametrize(("seconds", "grace"), [(10, 30), (40, 80)])
@pytest.mark.parametrize("image", [{"name": "a:1"}, {"name": "a:1", "transport": "stdio", "command": ["a"]}])
def test_pods_serve_on_for_as_long_as_the_installation_says_and_have_time_for_their_last_answers(
    image: dict[str, Any], seconds: int, grace: int
) -> None:
    spec = pod_spec({"image": image}, PodSettings(pod_drain_seconds=seconds).manifest_context("fairlead-system"))
    hook = spec["containers"][0]["lifecycle"]["preStop"]
    assert hook.get("sleep", {}).get("seconds") == seconds or hook["exec"]["command"][1:] == ["sleep", str(seconds)]
    assert spec["terminationGracePeriodSeconds"] == grace


def test_a_hook_of_the_spec_stays_as_it_is() -> None:
    hook = {"sleep": {"seconds": 4}}
    container = {"name": "server", "lifecycle": {"preStop": hook}}
    template = {"spec": {"terminationGracePeriodSeconds": 5, "containers": [container]}}
    spec = pod_spec({"image": {"name": "example/a:1"}, "podTemplate": template})
    assert spec["containers"][0]["lifecycle"]["preStop"] == hook


def pod_spec(spec: dict[str, Any], context: ManifestContext = CONTEXT) -> dict[str, Any]:
    """The spec of the pods of a server."""
    server = McpServer.model_validate({"metadata": {"name": "a", "namespace": "team"}, "spec": spec})
    *_, deployment = render(server, context)
    pods: dict[str, Any] = deployment["spec"]["template"]["spec"]
    return pods
