"""JSON schemas, in kubeconform's layout, of all kinds of an API server, derived from its OpenAPI document."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_GROUPS = "x-kubernetes-group-version-kind"
_ANYTHING = ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-int-or-string")


def write_schemas(document: dict[str, Any], folder: Path) -> str:
    """Write the schemas of an OpenAPI document (`/openapi/v2`). Returns the value of kubeconform's
    `-schema-location`.
    """
    definitions = document["definitions"]
    for definition in definitions.values():
        _close(definition)
    # Quantities and ports are strings or numbers in fact, and strings alone in this version of the document.
    for name in ("api.resource.Quantity", "util.intstr.IntOrString"):
        (full,) = [key for key in definitions if key.endswith(f"pkg.{name}")]
        definitions[full] = {}
    (folder / "_definitions.json").write_text(json.dumps({"definitions": definitions}))
    for name, definition in definitions.items():
        for gvk in definition.get(_GROUPS, ()):
            file = "-".join(filter(None, (gvk["kind"], gvk["group"].split(".")[0], gvk["version"]))).lower()
            reference = f"file://{folder}/_definitions.json#/definitions/{name}"
            (folder / f"{file}.json").write_text(json.dumps({"$ref": reference}))
    return f"{folder}/{{{{ .ResourceKind }}}}{{{{ .KindSuffix }}}}.json"


def _close(schema: Any) -> None:
    """Refuse members that no schema names."""
    if isinstance(schema, list):
        for each in schema:
            _close(each)
    elif isinstance(schema, dict):
        if isinstance(schema.get("properties"), dict) and not any(schema.get(word) for word in _ANYTHING):
            schema.setdefault("additionalProperties", False)
        for each in schema.values():
            _close(each)
