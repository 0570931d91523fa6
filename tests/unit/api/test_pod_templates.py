"""Fields of `spec.podTemplate`: fields that keep pods restricted may be set, all others are refused with their path."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairlead_api.crd import crd_manifests
from fairlead_api.load import LoadedManifests, load_text
from fairlead_api.v1alpha1.mcpserver import McpServer
from podtemplates import ALLOWED, NULLS, TEMPLATES, pod


def load_template(template: Any) -> LoadedManifests:
    head = {"apiVersion": "fairlead.dev/v1alpha1", "kind": "McpServer", "metadata": {"name": "demo"}}
    return load_text(json.dumps({**head, "spec": {"image": {"name": "demo:1"}, "podTemplate": template}}))


def overlay(template: Any) -> Any:
    loaded_text = load_template(template)
    assert loaded_text.problems == []
    (server,) = loaded_text.of_kind(McpServer)
    return None if server.spec.pod_template is None else server.spec.pod_template.overlay()


@pytest.mark.parametrize(("path", "template"), TEMPLATES)
def test_a_field_that_gives_pods_more_is_refused_by_its_path(path: str, template: dict[str, Any]) -> None:
    assert {problem.field for problem in load_template(template).problems} == {f"spec.podTemplate.{path}"}


@pytest.mark.parametrize("template", ALLOWED.values(), ids=ALLOWED.keys())
def test_fields_that_keep_a_pod_restricted_are_laid_over_it_as_written(template: dict[str, Any]) -> None:
    assert overlay(template) == template


@pytest.mark.parametrize("template", NULLS, ids=json.dumps)
def test_a_null_takes_away_nothing_that_holds_a_pod(template: dict[str, Any]) -> None:
    assert "null" not in json.dumps(overlay(template))


def test_a_typo_is_answered_with_the_field_that_was_meant() -> None:
    (problem,) = load_template(pod(nodeSelectr={"disk": "ssd"})).problems
    assert problem.message == "unknown field; did you mean nodeSelector?"


def test_a_sandbox_in_the_template_is_refused_with_its_place_and_does_not_vanish() -> None:
    (problem,) = load_template(pod(runtimeClassName="gvisor")).problems
    assert problem.message.startswith("runtimeClassName is now spec.runtimeClassName")


def test_the_definition_is_small_enough_for_kubectl_apply() -> None:
    """`kubectl apply` keeps a copy in an annotation, which has at most 262,144 bytes."""
    assert max(len(json.dumps(each)) for each in crd_manifests()) < 220_000
