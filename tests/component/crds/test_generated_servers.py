"""For random McpServers that the CRD accepts, the API server also accepts the pods, or names the wrong field at
once."""

from __future__ import annotations

import json
from typing import Any, Final

from hypothesis import HealthCheck, given, settings

from controlplane import ControlPlane
from crdrules import CRDS, load_yaml
from dryruns import dry_run
from examples import examples
from fairlead_api.v1alpha1.mcpserver import McpServer
from fairlead_operator.server.kube_manifests import ManifestContext
from fairlead_operator.server.object_plan import plan
from schemastrategies import values_of

CRD: Final = load_yaml((CRDS / "fairlead.dev_mcpservers.yaml").read_text("utf-8"))
SPEC: Final = CRD["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
OF_PODS: Final = ("image", "env", "envFrom", "resources", "replicas", "podTemplate", "network", "runtimeClassName")
JUDGED_BY_THE_API_SERVER: Final = (
    ".affinity.",
    ".tolerations[",
    "ontainers[",
    ".volumes[",
    ".topologySpreadConstraints[",
    ".dnsConfig",
    ".dnsPolicy",
    "Selector.matchLabels",
)
"""Parts of a pod template or of `network` whose members depend on each other, or are nested too deeply for rules on the
names of labels."""


def specs() -> Any:
    members = {name: member for name, member in SPEC["properties"].items() if name in OF_PODS}
    return values_of({**SPEC, "properties": members, "required": ["image"]})


def causes(answer: dict[str, Any]) -> list[tuple[str, str]]:
    """Field and message of each cause."""
    listed = answer.get("details", {}).get("causes", [{"message": answer["message"]}])
    return [(cause.get("field", ""), cause["message"]) for cause in listed]


def test_a_server_that_the_crd_takes_has_pods_or_a_field_to_blame(control_plane: ControlPlane, namespace: str) -> None:
    started = 0

    @settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
    @given(specs())
    def becomes_pods(spec: dict[str, Any]) -> None:
        nonlocal started
        head = {"apiVersion": "fairlead.dev/v1alpha1", "kind": "McpServer", "metadata": {"name": "drawn"}}
        manifest = {**head, "spec": json.loads(json.dumps(spec))}
        status, answer = dry_run(control_plane, namespace, manifest)
        if status == 422:  # refused by a rule about several members
            assert all(field.startswith("spec.") for field, _ in causes(answer)), answer
            return
        assert status in (200, 201), answer
        for kind, rendered in plan(McpServer.model_validate(answer), ManifestContext("fairlead-system")).apply:
            typed = {"apiVersion": kind.api_version, "kind": kind.kind, **rendered}
            status, refusal = dry_run(control_plane, namespace, typed)
            if status == 422:
                others = [each for each in causes(refusal) if not any(p in each[0] for p in JUDGED_BY_THE_API_SERVER)]
                assert others == []
            else:
                assert status in (200, 201), refusal
                started += kind.kind == "Deployment"

    becomes_pods()
    assert started > examples(150) // 3
