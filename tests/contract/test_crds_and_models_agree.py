"""The committed YAML equals the models' output, every rule has an object that violates it, and every sample is
valid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from crdrules import BAD, CRDS, SAMPLES, BadObject, is_moved, load_yaml, rules_of
from fairlead_api import crd
from fairlead_api.load import load_paths, load_text
from fairlead_api.v1alpha1.lists import LIST_TYPE
from fairlead_api.v1alpha1.mcpserver import McpServer


def schemas() -> Iterator[tuple[str, Mapping[str, Any]]]:
    for manifest in crd.crd_manifests():
        yield manifest["spec"]["names"]["kind"], manifest["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def test_the_committed_crds_are_what_the_models_give() -> None:
    assert crd.outdated_files(CRDS) == [], "run hack/gen"


def test_no_crd_is_left_over_from_a_kind_that_is_gone() -> None:
    assert {path.name for path in CRDS.glob("*.yaml")} == set(crd.crd_files())


def test_each_rule_has_one_bad_object() -> None:
    rules = sorted(rule for kind, schema in schemas() for rule in rules_of(schema, kind))

    assert sorted((load_yaml(path.read_text())["kind"], BadObject.from_file(path).message) for path in BAD) == rules


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_a_manifest_on_disk_is_refused_with_the_sentence_of_the_api_server(path: Path) -> None:
    bad = BadObject.from_file(path)

    loaded = load_paths([path])

    if bad.cluster_only:
        assert loaded.problems == []
        return
    assert loaded.resources == []
    assert [(problem.field, problem.message) for problem in loaded.problems] == [(bad.field, bad.message)]
    assert loaded.problems[0].line > 0


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_a_sample_reads_without_a_problem(path: Path) -> None:
    loaded = load_paths([path])

    assert [str(problem) for problem in loaded.problems] == []
    assert len(loaded.resources) == 1


def members(schema: Mapping[str, Any], path: str = "") -> Iterator[str]:
    for name, member in schema.get("properties", {}).items():
        if is_moved(member):
            continue
        yield f"{path}.{name}"
        yield from members(member, f"{path}.{name}")
        yield from members(member.get("items", {}), f"{path}.{name}")


def member_paths(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for name, member in value.items():
            yield f"{path}.{name}"
            yield from member_paths(member, f"{path}.{name}")
    elif isinstance(value, list):
        for item in value:
            yield from member_paths(item, path)


@pytest.mark.parametrize("kind", ["McpServer", "LatencyTier", "ToolPolicy"])
def test_the_samples_of_a_kind_show_every_field(kind: str) -> None:
    """Exceptions: pod fields of core/v1, members of discovery.auth, which equal those of spec.auth, and fields that
    contradict the others.
    """
    left_out = {
        ".spec.package.executable",
        ".spec.package.args",
        ".spec.remote.caBundle",
        ".spec.openapi.caBundle",
        ".spec.auth.clientCredentials.caBundle",
        ".spec.auth.tokenExchange.caBundle",
        ".spec.auth.userConsent.caBundle",
        ".spec.discovery.auth.",
        ".spec.env.valueFrom.configMapKeyRef",
        ".spec.env.valueFrom.fieldRef",
        ".spec.env.valueFrom.resourceFieldRef",
        ".spec.envFrom.prefix",
        ".spec.envFrom.secretRef",
        ".spec.podTemplate.metadata",
        ".spec.podTemplate.spec",
        ".spec.unrestrictedPodTemplate",
    }
    schema = dict(schemas())[kind]
    shown: set[str] = set()
    for path in SAMPLES:
        manifest = load_yaml(path.read_text())
        if manifest["kind"] == kind:
            shown |= set(member_paths({"spec": manifest["spec"]}))

    missing = {path for path in members({"properties": {"spec": schema["properties"]["spec"]}}) if path not in shown}

    assert {path for path in missing if not any(path.startswith(out) for out in left_out)} == set()


def test_figures_are_whole_numbers_and_each_list_says_how_it_is_merged() -> None:
    """Kubernetes' API conventions: no floats in a spec; a list is atomic, a set, or a map by a key."""

    def odd(schema: Mapping[str, Any], path: str) -> Iterator[str]:
        if is_moved(schema):
            return
        if schema.get("type") == "number" or (schema.get("type") == "array" and LIST_TYPE not in schema):
            yield path
        for name, member in schema.get("properties", {}).items():
            yield from odd(member, f"{path}.{name}")
        yield from odd(schema["items"], f"{path}[]") if "items" in schema else ()

    assert [path for kind, schema in schemas() for path in odd(schema, kind)] == []


@pytest.mark.parametrize("path", sorted(CRDS.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_generated_file_has_no_anchors(path: Path) -> None:
    events = yaml.parse(path.read_text(), yaml.CSafeLoader)

    assert [event for event in events if isinstance(event, yaml.AliasEvent)] == []


def test_every_field_has_a_description() -> None:
    def paths_without_description(schema: Mapping[str, Any], path: str) -> Iterator[str]:
        for name, member in schema.get("properties", {}).items():
            if "description" not in member:
                yield f"{path}.{name}"
            yield from paths_without_description(member, f"{path}.{name}")
            yield from paths_without_description(member.get("items", {}), f"{path}.{name}")

    for kind, schema in schemas():
        parts = {name: schema["properties"][name] for name in ("spec", "status")}
        assert list(paths_without_description({"properties": parts}, kind)) == []


def test_every_text_and_list_of_a_spec_is_bounded() -> None:
    """The API server estimates the cost of rules by these bounds."""

    def paths_without_bounds(schema: Mapping[str, Any], path: str) -> Iterator[str]:
        if schema.get("type") == "string" and not ({"maxLength", "enum", "format"} & schema.keys()):
            yield path
        if schema.get("type") == "array" and "maxItems" not in schema:
            yield path
        for name, member in schema.get("properties", {}).items():
            yield from paths_without_bounds(member, f"{path}.{name}")
        yield from paths_without_bounds(schema["items"], f"{path}[]") if "items" in schema else ()

    for kind, schema in schemas():
        assert list(paths_without_bounds(schema["properties"]["spec"], kind)) == []


def test_output_of_kubectl_get_can_be_read_back() -> None:
    """Metadata and status that the API server sets are ignored."""
    text = """\
apiVersion: fairlead.dev/v1alpha1
kind: McpServer
metadata:
  name: docs
  namespace: tools
  uid: 0b1c
  resourceVersion: "12"
  generation: 2
  creationTimestamp: "2026-01-01T00:00:00Z"
  managedFields: [{manager: kubectl}]
spec:
  url: https://tools.example.com/mcp
status:
  tools: 3
"""
    loaded = load_text(text)

    assert loaded.problems == []
    assert loaded.of_kind(McpServer)[0].key == ("tools", "docs")
