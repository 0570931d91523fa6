"""Server-side applies that change nothing: what an API server says of an object."""

from __future__ import annotations

import json
from typing import Any, Final

from controlplane import ControlPlane
from fairlead_kube.resources import Kind

PLURALS: Final = {
    "McpServer": "mcpservers",
    "ToolPolicy": "toolpolicies",
    "LatencyTier": "latencytiers",
    "Service": "services",
    "Secret": "secrets",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "ConfigMap": "configmaps",
}


def applied(plane: ControlPlane, path: str, manifest: dict[str, Any]) -> tuple[int, Any]:
    """Answer to a server-side apply that changes nothing, and takes no field that it does not know."""
    query = "dryRun=All&fieldManager=page&force=true&fieldValidation=Strict"
    body = json.loads(json.dumps(manifest))
    return plane.request("PATCH", f"{path}?{query}", body, content_type="application/apply-patch+yaml")


def path_of(manifest: dict[str, Any], namespace: str, plural: str) -> str:
    version = manifest["apiVersion"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    scope = "" if plural == "latencytiers" else f"namespaces/{namespace}/"
    return f"{root}/{scope}{plural}/{manifest['metadata']['name']}"


def rendered_applied(plane: ControlPlane, namespace: str, kind: Kind, rendered: dict[str, Any]) -> tuple[int, Any]:
    manifest = {"apiVersion": kind.api_version, "kind": kind.kind, **rendered}
    return applied(plane, path_of(manifest, namespace, kind.plural), manifest)
