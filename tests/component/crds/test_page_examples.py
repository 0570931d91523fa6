"""A real API server accepts every manifest of a page, a sample or an example, and the pods that result from it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from controlplane import ControlPlane
from dryruns import dry_run
from fairlead_api.v1alpha1.mcpserver import McpServer
from fairlead_operator.server.kube_manifests import ManifestContext
from fairlead_operator.server.object_plan import plan
from page_examples import ROOT, Example, examples, pages


def is_local(spec: dict[str, Any]) -> bool:
    """Whether only `fairlead up` can run a server with this source."""
    return "command" in spec or "file" in spec.get("openapi", {})


def refusals(plane: ControlPlane, namespace: str, example: Example) -> list[str]:
    """Refusals of an object by the API server and by the operator."""
    manifest = json.loads(json.dumps(example.manifest, default=str))
    manifest["metadata"].pop("namespace", None)
    status, answer = dry_run(plane, namespace, manifest)
    if status not in (200, 201):
        return [f"{example.where}: {manifest['kind']}: {answer['message']}"]
    if manifest["kind"] != "McpServer":
        return []
    problems = []
    wanted = plan(McpServer.model_validate(answer), ManifestContext("fairlead-system"))
    for kind, rendered in wanted.apply:
        typed = {"apiVersion": kind.api_version, "kind": kind.kind, **rendered}
        status, answer = dry_run(plane, namespace, typed)
        if status not in (200, 201):
            problems.append(f"{example.where}: {kind.kind} of the server: {answer['message']}")
    return problems


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_an_api_server_takes_the_manifests_of_a_page_and_the_pods_made_of_them(
    control_plane: ControlPlane, namespace: str, page: Path
) -> None:
    shown = [example for example in examples(page) if not is_local(example.manifest.get("spec", {}))]
    assert [each for example in shown for each in refusals(control_plane, namespace, example)] == []


def test_pages_of_the_kinds_and_of_pod_templates_have_tested_examples() -> None:
    names = {str(page.relative_to(ROOT)) for page in pages()}
    assert {
        "docs/configure/pod-templates.md",
        "docs/reference/kinds/mcpserver.md",
        "crds/samples/mcpserver-full.yaml",
    } <= names
    assert len(names) > 30
