"""Server-side applies as a dry run: whether an API server accepts an object."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from controlplane import ControlPlane

_CLUSTER_SCOPED: Final = {
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "LatencyTier",
    "Namespace",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
}


def dry_run(plane: ControlPlane, namespace: str, manifest: Mapping[str, Any]) -> tuple[int, Any]:
    """Status and answer of a server-side apply as a dry run, which rejects unknown fields."""
    query = "dryRun=All&fieldManager=page&force=true&fieldValidation=Strict"
    body = json.loads(json.dumps(manifest))
    path = f"{_path(manifest, namespace)}?{query}"
    return plane.request("PATCH", path, body, content_type="application/apply-patch+yaml")


def _path(manifest: Mapping[str, Any], namespace: str) -> str:
    version = manifest["apiVersion"]
    kind = manifest["kind"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    scope = "" if kind in _CLUSTER_SCOPED else f"/namespaces/{namespace}"
    return f"{root}{scope}/{_plural(kind.lower())}/{manifest['metadata']['name']}"


def _plural(kind: str) -> str:
    if kind.endswith("y"):
        return f"{kind[:-1]}ies"
    return f"{kind}es" if kind.endswith("s") else f"{kind}s"
