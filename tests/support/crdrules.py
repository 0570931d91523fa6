"""Material of tests about the custom resources: the rules in the CRDs, the samples, and one bad object per rule."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

REPOSITORY = Path(__file__).resolve().parents[2]
CRDS = REPOSITORY / "crds"
SAMPLES = sorted((CRDS / "samples").glob("*.yaml"))
BAD = sorted((REPOSITORY / "tests" / "component" / "crds" / "bad").glob("*.yaml"))


SPEC_PAGES = [page for page in sorted((REPOSITORY / "docs/reference/kinds").glob("*.md")) if page.stem != "index"]
_EXAMPLE = re.compile(r"^```yaml\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def examples(page: Path) -> list[dict[str, Any]]:
    """Manifests in the code blocks of a page."""
    return [load_yaml(text) for text in _EXAMPLE.findall(page.read_text("utf-8"))]


class BadObject(NamedTuple):
    """An object that violates one rule. The first line of its file names the expected field and message."""

    field: str
    message: str
    cluster_only: bool
    text: str

    @classmethod
    def from_file(cls, path: Path) -> BadObject:
        text = path.read_text("utf-8")
        first, second = text.splitlines()[:2]
        field, _, message = first.removeprefix("# ").partition(": ")
        return cls(field, message, second == "# on a cluster only", text)


def rules_of(schema: Mapping[str, Any], kind: str) -> Iterator[tuple[str, str]]:
    """Kind and message of every CEL rule in a schema, at any depth."""
    for rule in schema.get("x-kubernetes-validations", ()):
        yield kind, rule["message"]
    for name, member in schema.get("properties", {}).items():
        if name in ("containers", "initContainers"):  # in a pod template: the rules of spec.env and spec.envFrom
            continue
        if name == "discovery" and "auth" in member.get("properties", {}):  # has the same members as spec.auth
            member = _without_members_of(member, "auth")
        yield from rules_of(member, kind)
    if "items" in schema:
        yield from rules_of(schema["items"], kind)
    values = schema.get("additionalProperties")
    if isinstance(values, dict):
        yield from rules_of(values, kind)


def _without_members_of(schema: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """`schema` without the members of its member `name`."""
    return {**schema, "properties": {**schema["properties"], name: {**schema["properties"][name], "properties": {}}}}


def is_moved(schema: Mapping[str, Any]) -> bool:
    """Whether a deprecated member only names its new location."""
    return any(rule["rule"] == "false" for rule in schema.get("x-kubernetes-validations", ()))


def load_yaml(text: str) -> dict[str, Any]:
    """Parse one document as a mapping."""
    content = yaml.load(text, yaml.CSafeLoader)  # takes 30 ms for a CRD; the loader in Python takes 260
    assert isinstance(content, dict)
    return content
