"""The CustomResourceDefinitions, generated from the pydantic models.

`python -m fairlead_api.crd [--check] DIR` writes one YAML file per kind into DIR, or reports which files are out of
date. `crd_manifests()` returns the same CRDs as Python objects.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from fairlead_api.meta import GROUP, VERSION
from fairlead_api.structural import structural_schema, without_defaults
from fairlead_api.v1alpha1.common import Resource
from fairlead_api.v1alpha1.latencytier import LatencyTier
from fairlead_api.v1alpha1.mcpserver import McpServer
from fairlead_api.v1alpha1.toolpolicy import ToolPolicy

KINDS: Final[tuple[type[Resource], ...]] = (McpServer, LatencyTier, ToolPolicy)

_HEADER: Final = "# Generated from crds/fairlead_api by hack/gen; do not edit.\n"


class _WithoutAnchors(yaml.SafeDumper):
    """YAML dumper that repeats equal values instead of using anchors, because anchors make a CRD hard to read."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


class Column(NamedTuple):
    """One column of `kubectl get`; columns with priority 1 are shown with `-o wide` only."""

    name: str
    path: str
    type: str = "string"
    priority: int = 0


def _condition(type_: str, member: str) -> str:
    return f'.status.conditions[?(@.type=="{type_}")].{member}'


_SCALE: Final = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".status.selector",
}
# Messages are shown with `-o wide` only: they include a remedy and have up to 2,000 characters. kubectl pads all rows
# to the longest message, so one failing server would wrap the lines of all servers. The reason next to Ready already
# says what to do.
_AGE: Final = Column("Age", ".metadata.creationTimestamp", "date")
COLUMNS: Final[dict[type[Resource], tuple[Column, ...]]] = {
    McpServer: (
        Column("Transport", ".status.transport"),
        Column("Tools", ".status.tools", "integer"),
        Column("Ready", _condition("Ready", "status")),
        Column("Reason", _condition("Ready", "reason")),
        Column("Conflicted", _condition("Conflicted", "status")),
        Column("P50", ".status.latency.p50Ms", "integer", 1),
        Column("P95", ".status.latency.p95Ms", "integer", 1),
        Column("Slowest", ".status.latency.slowestTool", "string", 1),
        Column("Endpoint", ".status.endpoint", "string", 1),
        Column("Message", _condition("Ready", "message"), "string", 1),
        Column("Conflict", _condition("Conflicted", "message"), "string", 1),
        Column("Problem", _condition("PartiallyInvalid", "message"), "string", 1),
        _AGE,
    ),
    LatencyTier: (
        Column("Max", ".spec.maxLatency"),
        Column("Quantile", ".spec.quantile"),
        Column(
            "Default", ".status.default", "boolean"
        ),  # from status: several tiers may request it in spec, and the installation may name another
        Column("Tools", ".status.tools", "integer"),
        Column("Conflicted", _condition("Conflicted", "status")),
        Column("Accepted", _condition("Accepted", "status"), "string", 1),
        Column("Reason", _condition("Accepted", "reason"), "string", 1),
        Column("Message", _condition("Accepted", "message"), "string", 1),
        Column("Conflict", _condition("Conflicted", "message"), "string", 1),
        _AGE,
    ),
    ToolPolicy: (
        Column("Servers", ".status.servers", "integer"),
        Column("Tools", ".status.tools", "integer"),
        Column("Accepted", _condition("Accepted", "status")),
        # Accepted is also AsExpected if parts of a policy have no effect; this column shows that by default
        Column("Partially Invalid", _condition("PartiallyInvalid", "reason")),
        Column("Conflicted", _condition("Conflicted", "status")),
        Column("Reason", _condition("Accepted", "reason"), "string", 1),
        Column("Max Tier", ".spec.tiers.max", "string", 1),
        Column("Message", _condition("Accepted", "message"), "string", 1),
        Column("Problem", _condition("PartiallyInvalid", "message"), "string", 1),
        _AGE,
    ),
}


def crd_manifests() -> list[dict[str, Any]]:
    """The CustomResourceDefinition of every kind, ready to apply; new objects that the caller may change."""
    return [_manifest(kind) for kind in KINDS]


def crd_files() -> dict[str, str]:
    """The CRDs as YAML, by file name."""
    return {
        f"{manifest['spec']['group']}_{manifest['spec']['names']['plural']}.yaml": _HEADER
        + yaml.dump(manifest, Dumper=_WithoutAnchors, sort_keys=False, allow_unicode=True, width=110)
        for manifest in crd_manifests()
    }


def _manifest(kind: type[Resource]) -> dict[str, Any]:
    singular = kind.kind_name.lower()
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": kind.kind_name,
                "listKind": f"{kind.kind_name}List",
                "plural": kind.plural,
                "singular": singular,
                "shortNames": [kind.short_name],
                "categories": ["fairlead"],
            },
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": _object_schema(kind)},
                    "subresources": {"status": {}, **({"scale": _SCALE} if kind is McpServer else {})},
                    "additionalPrinterColumns": [_column(column) for column in COLUMNS[kind]],
                }
            ],
        },
    }


def _object_schema(kind: type[Resource]) -> dict[str, Any]:
    """The schema of the whole object, with minimal schemas of apiVersion, kind and metadata: the API server validates
    these three itself.
    """
    schema = structural_schema(kind)
    members = schema["properties"]
    members["apiVersion"] = {"type": "string"}
    members["kind"] = {"type": "string"}
    members["metadata"] = {"type": "object", "properties": {"name": {"type": "string"}}}  # rules may refer to the name
    members["status"] = without_defaults(members["status"])
    schema["properties"] = {name: members[name] for name in ("apiVersion", "kind", "metadata", "spec", "status")}
    schema["required"] = ["spec"]
    return schema


def _column(column: Column) -> dict[str, Any]:
    shown: dict[str, Any] = {"name": column.name, "type": column.type, "jsonPath": column.path}
    if column.priority:
        shown["priority"] = column.priority
    return shown


def outdated_files(folder: Path) -> list[Path]:
    """Files in `folder` that are missing or differ from the generated files."""
    generated = {folder / name: content for name, content in crd_files().items()}
    return [path for path, content in generated.items() if not path.exists() or path.read_text("utf-8") != content]


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or check the files. Returns 0 on success, 1 if a checked file is out of date."""
    parser = argparse.ArgumentParser(
        prog="python -m fairlead_api.crd", description="Write Fairlead's CustomResourceDefinitions as YAML."
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="where the files belong")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file is out of date")
    options = parser.parse_args(arguments)
    stale = outdated_files(options.folder)
    if options.check:
        for path in stale:
            sys.stderr.write(f"{path} is out of date: run hack/gen\n")
        return 1 if stale else 0
    files = crd_files()
    for path in stale:
        path.write_text(files[path.name], "utf-8")
        sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
