"""Fields of resources that pages name are in the CRDs; examples in YAML are read by the tests of each page."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from crdrules import is_moved
from fairlead_api import crd

ROOT = Path(__file__).parents[2]
FieldPath = tuple[str, ...]
_FENCED = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
_SPAN = re.compile(r"`([^`\n]+)`")
_NAME = r"[a-z][A-Za-z]*(?:\[\])?"
_FIELD = re.compile(rf"({_NAME}(?:\.{_NAME})*)(?:: .*)?")
"""Pattern of a field, optionally with its value: `latency.max`, `tools[].minTier`, `trustAnnotations: false`."""
OTHERS = frozenset(
    (
        "inputSchema",
        "outputSchema",
        "structuredContent",
        "isError",
        "patternProperties",
        "retryAfterMs",
        "shownIn",
        "offer.hidden",
        "roundTripMs",
    )
)
"""Members of MCP, of JSON Schema and of answers of the REST API."""
KUBERNETES = frozenset(
    (
        "hostPort",
        "hostPath",
        "serviceAccountToken",
        "serviceAccountName",
        "priorityClassName",
        "schedulerName",
        "nodeName",
        "seLinuxOptions",
        "resources.requests.cpu",
    )
)
"""Fields of pods and of quotas."""
OTHERS_OF_PAGES = {
    "docs/configure/credentials.md": {"trustedPeers", "leewaySeconds", "secretFile", "identity.yaml"},
    "docs/configure/openapi.md": {
        "binaryData",
        "operationId",
        "readOnly",
        "securitySchemes",
        "readOnlyHint",
        "idempotentHint",
        "destructiveHint",
    },
    "docs/configure/custom-tools.md": {"fairlead.tools"},
    "docs/configure/policies.md": {"defaultAction"},
    "docs/configure/pinning.md": {"gatewayApprovals"},
    "docs/configure/shaping.md": {"oneOf", "anyOf", "allOf", "dependentRequired"},
    "docs/configure/servers/web-search.md": {"search.formats"},
    "docs/configure/sign-in.md": {
        "authServerMetadataUrl",
        "authorizationUrl",
        "clientId",
        "clientSecret",
        "oauthScopes",
        "redirectUri",
        "tokenUrl",
    },
}
"""Other names on pages: a field of Dex, members of OpenAPI documents, annotations, ConfigMaps, `identity.yaml` and
files of MCP clients, an entry point of packages, last parts of the chart's values, and a setting of SearXNG.
"""
FILES = (".json", ".py", ".sqlite")


def paths(schema: Mapping[str, Any], above: FieldPath = (), *, moved: bool = False) -> Iterator[FieldPath]:
    """Paths of fields in a schema: with `moved`, only renamed fields; otherwise all others."""
    for name, member in (schema.get("properties") or {}).items():
        if is_moved(member) == moved:
            yield (*above, name)
        yield from paths(member, (*above, name), moved=moved)
    for nested in ("items", "additionalProperties"):
        if isinstance(schema.get(nested), Mapping):
            yield from paths(schema[nested], above, moved=moved)


def fields(*, moved: bool = False) -> set[FieldPath]:
    """All paths of all kinds, and their ends: `latency.max` stands for `spec.tools[].latency.max`."""
    versions = [version for manifest in crd.crd_manifests() for version in manifest["spec"]["versions"]]
    whole = {path for version in versions for path in paths(version["schema"]["openAPIV3Schema"], moved=moved)}
    return {path[start:] for path in whole for start in range(len(path))}


def values(of: Any, above: FieldPath = ()) -> Iterator[FieldPath]:
    """Values of the chart."""
    if isinstance(of, Mapping):
        for name, value in of.items():
            yield (*above, name)
            yield from values(value, (*above, name))


def field_paths(page: Path) -> Iterator[FieldPath]:
    """Words of a page that look like a field, because they contain a dot or an inner capital."""
    for span in _SPAN.findall(_FENCED.sub("", page.read_text())):
        match = _FIELD.fullmatch(span)
        if match and re.search(r"[.A-Z]", match[1]) and not match[1].endswith(FILES):
            yield tuple(match[1].replace("[]", "").removeprefix("fairlead.tools.").split("."))


@pytest.mark.parametrize("page", sorted(str(page.relative_to(ROOT)) for page in ROOT.glob("docs/configure/**/*.md")))
def test_every_field_that_a_page_about_configuration_names_exists(page: str) -> None:
    chart = yaml.safe_load((ROOT / "charts/fairlead/values.yaml").read_text())
    allowed = fields() | set(values(chart))
    others = OTHERS | KUBERNETES | OTHERS_OF_PAGES.get(page, set())
    missing = [
        ".".join(path) for path in field_paths(ROOT / page) if path not in allowed and ".".join(path) not in others
    ]
    assert missing == []


def test_no_page_names_a_field_by_the_name_that_it_had_before() -> None:
    before = {path[-1] for path in fields(moved=True)} - {path[-1] for path in fields()}
    assert "estimatedDurationMs" in before
    wrong = [
        f"{page.relative_to(ROOT)}: {path[-1]}"
        for page in sorted(ROOT.glob("docs/**/*.md"))
        for path in field_paths(page)
        if path[-1] in before
    ]
    assert wrong == []
