"""Manifests from disk: which files are read, and the messages about all others."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead_api.load import load_paths, load_text
from fairlead_api.v1alpha1.latencytier import LatencyTier
from fairlead_api.v1alpha1.mcpserver import McpServer

HEAD = "apiVersion: fairlead.dev/v1alpha1\nkind: McpServer\nmetadata: {name: docs}\n"
GOOD = HEAD + "spec: {url: https://tools.example.com/mcp}\n"
TIER = "apiVersion: fairlead.dev/v1alpha1\nkind: LatencyTier\nmetadata: {name: fast}\nspec: {}\n"


def problems_of(text: str) -> list[str]:
    return [str(problem) for problem in load_text(text, "m.yaml").problems]


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("  url: [", "m.yaml:6: not valid YAML: expected the node content, but found '<stream end>'"),
        ("  ulr: https://a/b", "m.yaml:5: spec.ulr: unknown field; did you mean url?"),
        ("  url: https://a/b\n  xyz: 1", "m.yaml:6: spec.xyz: unknown field"),
        ("  url: https://a/b\n  url: https://a/c", "m.yaml:6: the key url is repeated"),
        ("  url: https://a/b\n  pin: 'yes'", 'm.yaml:6: spec.pin: must be true or false, not "yes"'),
        ("  url: https://a/b\n  prefix: 7", "m.yaml:6: spec.prefix: must be text, not 7"),
        (
            "  image: {name: a}\n  resources: {limits: {memory: 64mb}}",
            (
                "m.yaml:6: spec.resources.limits.memory: must be a quantity such as 2, 100m or 64Mi, with a unit out "
                "of m, k, M, G, T, Ki, Mi, Gi, Ti"
            ),
        ),
        ("  url: https://a/b\n  replicas: '2'", 'm.yaml:6: spec.replicas: must be a whole number, not "2"'),
        ("  url: https://a/b\n  replicas: 2.5", "m.yaml:6: spec.replicas: must be a whole number, not 2.5"),
        (
            "  url: https://a/b\n  limits:\n    retries: 9",
            "m.yaml:7: spec.limits.retries: should be less than or equal to 5, but is 9",
        ),
        ("  url: https://a/b\n  tools: {a: 1}", 'm.yaml:6: spec.tools: must be a list, not {"a": 1}'),
        ("  url: https://a/b\n  limits: many", 'm.yaml:6: spec.limits: must be a mapping, not "many"'),
        ("  url: https://a/b\n  tools:\n  - enabled: true", "m.yaml:7: spec.tools[0].name: Required value"),
        (
            "  url: https://a/b\n  tools:\n  - name: a\n    tag: [x]",
            "m.yaml:8: spec.tools[0].tag: unknown field; did you mean tags?",
        ),
        (
            "  url: https://a/b\n  tools:\n  - name: a\n  - name: a",
            'm.yaml:8: spec.tools[1]: Duplicate value: {"name":"a"}',
        ),
        (
            "  image:\n    name: a\n    transport: http",
            (
                'm.yaml:7: spec.image.transport: Unsupported value: "http": '
                'supported values: "streamable-http", "sse", "stdio"'
            ),
        ),
        (
            "  image: a:1",
            (
                'm.yaml:5: spec.image: must be a mapping, not "a:1": write image: {name: …}, '
                "or have fairlead migrate FILE rewrite it"
            ),
        ),
        ("  url: https://a/b\n  max_result_bytes: 1", "m.yaml:6: spec.max_result_bytes: unknown field"),
        (
            "  url: https://a/b\n  trust_annotations: true",
            "m.yaml:6: spec.trust_annotations: unknown field; did you mean trustAnnotations?",
        ),
        (
            "  image: {name: a}\n  resources: {limits: {cpu: [1]}}",
            "m.yaml:6: spec.resources.limits.cpu: must be a whole number, or text such as 100m or 64Mi",
        ),
        ("  command: []", "m.yaml:5: spec.command: should have at least 1 items, but has 0"),
        ("  url: https://a/b\n  limits: {callsPerMinute: .inf}", "m.yaml:1: cannot be expressed in JSON: "),
    ],
)
def test_a_bad_field_is_named_with_file_and_line(spec: str, sentence: str) -> None:
    problems = problems_of(HEAD + "spec:\n" + spec + "\n")

    assert len(problems) == 1
    assert problems[0].startswith(sentence) if sentence.endswith(": ") else problems[0] == sentence


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("- 1\n", "m.yaml:1: must be a Kubernetes object: a mapping with apiVersion, kind, metadata and spec"),
        ("a: 1\n", "m.yaml:1: apiVersion: Required value"),
        ("apiVersion: v1\n", "m.yaml:1: kind: Required value"),
        (
            "kind: McpServer\n",
            "m.yaml:1: apiVersion: Required value; for a McpServer it is fairlead.dev/v1alpha1",
        ),
        (
            "apiVersion: fairlead.dev/v1alpha1\nkind: McpServers\n",
            "m.yaml:2: kind: McpServers is not a kind of fairlead.dev; did you mean McpServer?",
        ),
        (
            "apiVersion: fairlead.dev/v1\nkind: McpServer\n",
            "m.yaml:1: apiVersion: fairlead.dev/v1 does not exist; use fairlead.dev/v1alpha1",
        ),
        (HEAD, "m.yaml:1: spec: Required value"),
        ("a: *nothing\n", "m.yaml:1: not valid YAML: found undefined alias 'nothing'"),
        ("a: 1\nb: \x00\n", "m.yaml:2: not valid YAML: the character U+0000 is not allowed"),
    ],
)
def test_a_document_of_the_wrong_kind_is_named(text: str, sentence: str) -> None:
    assert problems_of(text) == [sentence]


def test_faults_of_a_manifest_are_told_at_once_in_the_order_of_the_rules() -> None:
    assert problems_of(HEAD + "spec:\n  replicas: 2\n  remote: {}\n") == [
        (
            "m.yaml:4: spec: set exactly one of image, package, url, openapi, command, which says where the server "
            "runs; the command of an image is image.command"
        ),
        "m.yaml:6: spec.remote: remote needs url, and remote.caBundle needs an https url",
        "m.yaml:4: spec: replicas, resources and pod templates describe pods: they need image or package",
    ]


def test_a_broken_document_costs_no_other_one() -> None:
    loaded = load_text(GOOD + "---\n{a: [}\n--- # a remark\n" + TIER + "---\n\n---\n# nothing here\n", "m.yaml")

    assert [type(resource) for resource in loaded.resources] == [McpServer, LatencyTier]
    assert [str(problem) for problem in loaded.problems] == [
        "m.yaml:6: not valid YAML: expected the node content, but found '}'"
    ]


def test_a_server_without_a_namespace_is_in_default() -> None:
    assert load_text(GOOD).of_kind(McpServer)[0].key == ("default", "docs")
    assert load_text(TIER).of_kind(LatencyTier)[0].key == ("", "fast")


def test_the_second_of_two_with_one_name_is_a_problem() -> None:
    assert problems_of(GOOD + "---\n" + GOOD) == ["m.yaml:8: metadata.name: McpServer docs is also defined in m.yaml:1"]


def test_other_kinds_and_client_configurations_are_handed_on() -> None:
    loaded = load_text("apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n---\nmcpServers: {time: {command: uvx}}\n")

    assert loaded.problems == []
    assert [(origin.line, content.get("kind")) for origin, content in loaded.others] == [(1, "Secret"), (5, None)]


def test_dates_stay_text_as_in_json() -> None:
    loaded = load_text(HEAD + "spec:\n  package: {registry: pypi, name: a, version: 2026-10-19}\n")

    package = loaded.of_kind(McpServer)[0].spec.package
    assert package is not None
    assert package.version == "2026-10-19"


def test_nulls_inside_free_content_are_kept() -> None:
    loaded = load_text(
        HEAD + "spec:\n  url: https://a/b\n  prefix:\n  tools: [{name: a, probe: {arguments: {x: null}}}]\n"
    )

    spec = loaded.of_kind(McpServer)[0].spec
    assert spec.prefix is None
    assert spec.tools[0].probe is not None
    assert spec.tools[0].probe.arguments == {"x": None}


def test_a_structure_that_holds_itself_is_a_problem_and_no_crash() -> None:
    (problem,) = problems_of(HEAD + "spec: &spec\n  url: https://a/b\n  tools: [*spec]\n")

    assert "cannot be" in problem


def test_a_folder_gives_its_files_by_name_and_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text(TIER)
    (tmp_path / "a.yml").write_text(GOOD)
    (tmp_path / "c.json").write_text('{"apiVersion": "v1", "kind": "Secret"}')
    (tmp_path / ".hidden.yaml").write_text("{")
    (tmp_path / "notes.txt").write_text("{")
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "d.yaml").write_text("{")
    (tmp_path / "e.yaml").write_bytes(b"\xff\xfe\x00")

    loaded = load_paths([tmp_path, tmp_path / "missing.yaml"])

    assert [resource.metadata.name for resource in loaded.resources] == ["docs", "fast"]
    assert len(loaded.others) == 1
    assert [(problem.file, problem.line) for problem in loaded.problems] == [
        (str(tmp_path / "e.yaml"), 0),
        (str(tmp_path / "missing.yaml"), 0),
    ]
    assert loaded.problems[1].message == "cannot be read: No such file or directory"
