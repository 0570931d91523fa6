"""Manifests of earlier releases are converted to this release, with the same settings and comments."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from fairlead_api.load import load_text
from fairlead_api.migration import migrate
from fairlead_cli.cluster.migrating import migrate_files
from fairlead_cli.failure import USAGE_ERROR, Failure

OLD = """\
# The desk's server.
apiVersion: fairlead.dev/v1alpha1
kind: McpServer
metadata: {name: desk}
spec:
  url: https://tools.example.com/mcp  # elsewhere
  hostHeader: tools  # its name
  limits:
    callsPerSecond: 0.5  # half
    retries: 2
  calibration: {enabled: false}
  tools:
    # the slow one
    - name: "search"
      latency:
        estimatedDurationMs: 180  # median
        maxDurationMs: 120000
        cacheableSeconds: 0
---
apiVersion: v1
kind:   ConfigMap
metadata: {name: mine}
---
apiVersion: fairlead.dev/v1alpha1
kind: LatencyTier
metadata: {name: fast}
spec: {maxLatency: 500ms, hysteresis: 0.1}
"""
NEW = """\
# The desk's server.
apiVersion: fairlead.dev/v1alpha1
kind: McpServer
metadata: {name: desk}
spec:
  url: https://tools.example.com/mcp  # elsewhere
  remote:
    hostHeader: tools  # its name
  limits:
    callsPerMinute: 30   # half
    retries: 2
  calibration: {probe: Never}
  tools:
    # the slow one
    - name: "search"
      latency:
        estimated: 180ms           # median
        max: 2m
        cacheable: 0s
---
apiVersion: v1
kind:   ConfigMap
metadata: {name: mine}
---
apiVersion: fairlead.dev/v1alpha1
kind: LatencyTier
metadata: {name: fast}
spec: {maxLatency: 500ms, hysteresisPercent: 10}
"""


def lines_without_comments(text: str) -> list[str]:
    return [line.partition("#")[0].rstrip() for line in text.splitlines()]


def comments(text: str) -> list[str]:
    return [line.partition("#")[2].strip() for line in text.splitlines() if "#" in line]


def test_a_file_is_rewritten_with_its_comments_order_and_other_kinds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "old.yaml"
    file.write_text(OLD)
    problems = load_text(OLD).problems
    assert problems
    assert all(" is now " in problem.message for problem in problems)

    migrate_files([file], in_place=True)

    migrated = file.read_text()
    assert lines_without_comments(migrated) == lines_without_comments(NEW)
    assert comments(migrated) == comments(OLD)
    assert load_text(migrated).problems == []
    assert "spec.limits.callsPerSecond → spec.limits.callsPerMinute" in capsys.readouterr().err


def test_a_current_manifest_is_left_byte_for_byte(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "new.yaml"
    odd = NEW.replace("metadata: {name: desk}", "metadata:   { name:  desk }")
    file.write_text(odd)

    migrate_files([file], in_place=False)

    assert capsys.readouterr().out == odd


def test_the_fields_of_ours_in_a_client_configuration_are_rewritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mcp.json"
    file.write_text('{\n    "mcpServers": {"a": {"command": "x", "fairlead": {"limits": {"callsPerSecond": 2}}}}\n}\n')

    migrate_files([file], in_place=True)

    assert '"callsPerMinute": 120' in file.read_text()
    assert file.read_text().startswith('{\n    "mcpServers"')
    capsys.readouterr()


def test_an_unreadable_file_leaves_all_as_they_are(tmp_path: Path) -> None:
    good = tmp_path / "good.yaml"
    bad = tmp_path / "bad.yaml"
    good.write_text(OLD)
    bad.write_text("{{- if .Values.own }}\nkind: Server\n{{- end }}\n")

    with pytest.raises(Failure, match=r"bad.yaml cannot be read: .*render templates first"):
        migrate_files([good, bad], in_place=True)
    assert good.read_text() == OLD


def test_a_client_configuration_with_comments_is_said_to_have_nothing_to_migrate(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text('{// mine\n"mcpServers": {}}')
    with pytest.raises(Failure, match=r"mcp.json cannot be read: .*; an mcp.json needs no migration"):
        migrate_files([file], in_place=False)


def test_values_of_another_type_are_moved_as_they_are() -> None:
    document = {"apiVersion": "fairlead.dev/v1alpha1", "kind": "LatencyTier", "spec": {"hysteresis": "x", "a": 1}}

    assert migrate(document) == ["spec.hysteresis → spec.hysteresisPercent"]
    assert document["spec"] == {"hysteresisPercent": "x", "a": 1}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"image": "a:1"}, {"image": {"name": "a:1"}}),
        (
            {"image": "a:1", "command": ["x"], "args": ["y"], "transport": "stdio", "port": 9, "env": []},
            {"image": {"name": "a:1", "command": ["x"], "args": ["y"], "transport": "stdio", "port": 9}, "env": []},
        ),
        (
            {"url": "u", "transport": "sse", "caBundle": "c"},
            {"url": "u", "remote": {"transport": "sse", "caBundle": "c"}},
        ),
        ({"command": ["x"], "args": ["y"], "transport": "stdio", "pin": True}, {"command": ["x", "y"], "pin": True}),
        ({"package": {"args": ["y"]}, "transport": "stdio"}, {"package": {"args": ["y"]}}),
        ({"url": "u", "remote": {"transport": "sse"}}, {"url": "u", "remote": {"transport": "sse"}}),
        (
            {"podTemplate": {"spec": {"nodeSelector": {"a": "b"}, "hostPID": True}}, "pin": True},
            {"unrestrictedPodTemplate": {"spec": {"nodeSelector": {"a": "b"}, "hostPID": True}}, "pin": True},
        ),
        (
            {"podTemplate": {"spec": {"runtimeClassName": "gvisor"}}},
            {"podTemplate": {"spec": {}}, "runtimeClassName": "gvisor"},
        ),
        ({"podTemplate": {"spec": {"nodeSelector": {}}}}, {"podTemplate": {"spec": {"nodeSelector": {}}}}),
    ],
    ids=lambda spec: " ".join(spec),
)
def test_members_of_one_source_go_under_it(old: dict[str, Any], new: dict[str, Any]) -> None:
    document = {"apiVersion": "fairlead.dev/v1alpha1", "kind": "McpServer", "spec": deepcopy(old)}

    changes = migrate(document)

    assert document["spec"] == new
    assert list(new) == list(document["spec"]), "in the order of before"
    assert bool(changes) is (old != new)


def test_migrate_writes_no_file_in_place_if_one_is_read_only(tmp_path: Path) -> None:
    files = [tmp_path / "writable.yaml", tmp_path / "managed.yaml"]
    for file in files:
        file.write_text(OLD)
    files[1].chmod(0o444)
    with pytest.raises(Failure, match=rf"{files[1]} is read-only and is not changed: run `chmod u\+w") as refused:
        migrate_files(files, in_place=True)
    assert refused.value.code == USAGE_ERROR
    assert [file.read_text() for file in files] == [OLD, OLD]
