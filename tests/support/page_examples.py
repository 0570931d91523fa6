"""Manifests that pages and example files show, each with the page and the line where it begins."""

from __future__ import annotations

import functools
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from fairlead_api.v1alpha1.latencytier import LatencyTierSpec
from fairlead_api.v1alpha1.mcpserver.spec import McpServerSpec
from fairlead_api.v1alpha1.toolpolicy import ToolPolicySpec

ROOT: Final = Path(__file__).parents[2]
_BLOCK: Final = re.compile(r"^ *```ya?ml[^\n]*\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
_SPECS: Final = {"McpServer": McpServerSpec, "ToolPolicy": ToolPolicySpec, "LatencyTier": LatencyTierSpec}
_SOURCES: Final = {"url", "image", "package", "command"}


class Example(NamedTuple):
    """One object on a page."""

    where: str
    """Page and line, for example `docs/configure/tiers.md:8`."""
    manifest: dict[str, Any]


def pages() -> list[Path]:
    """Pages and files with manifests, relative to the root of the repository."""
    written = [
        ROOT / "README.md",
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("charts/**/*.md"),
        *ROOT.glob("*/**/README.md"),
    ]
    files = [*ROOT.glob("crds/samples/**/*.yaml"), *ROOT.glob("examples/**/*.yaml")]
    tracked = (path for path in written + files if not {"tests", ".venv", "node_modules"} & set(path.parts))
    return [path for path in sorted(set(tracked)) if any(True for _ in examples(path))]


def examples(page: Path) -> Iterator[Example]:
    """Objects on a page. A bare `spec` is completed to an object of the kind that has its fields."""
    for line, text in _texts(page):
        for document in yaml.load_all(text, yaml.CSafeLoader):
            manifest = _manifest(document)
            if manifest is not None:
                yield Example(f"{page.relative_to(ROOT)}:{line}", manifest)


def values(page: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Page, line and content of each block of chart values."""
    for line, text in _texts(page):
        for document in yaml.load_all(text, yaml.CSafeLoader):
            if isinstance(document, dict) and document.keys() <= _keys_of_values():
                yield f"{page.relative_to(ROOT)}:{line}", document


@functools.cache  # cached: test collection reads every page in each worker
def _keys_of_values() -> frozenset[str]:
    """Keys at the top of the chart's values.yaml."""
    return frozenset(yaml.load((ROOT / "charts/fairlead/values.yaml").read_text(), yaml.CSafeLoader))


def _texts(page: Path) -> Iterator[tuple[int, str]]:
    """First line of a YAML text, and the text."""
    text = page.read_text("utf-8")
    if page.suffix != ".md":
        yield 1, text
        return
    for block in _BLOCK.finditer(text):
        yield text.count("\n", 0, block.start(1)) + 1, textwrap.dedent(block[1])


def _manifest(document: Any) -> dict[str, Any] | None:
    """The manifest; None if the object is not a manifest."""
    if not isinstance(document, dict):
        return None
    if "apiVersion" in document and "kind" in document:
        return document
    spec = document.get("spec")
    if document.keys() != {"spec"} or not isinstance(spec, dict):
        return None
    (kind,) = [name for name, model in _SPECS.items() if spec.keys() <= _fields(model)]
    if kind == "McpServer" and not _SOURCES & spec.keys():
        spec = {"url": "https://tools.example.com/mcp", **spec}
    return {"apiVersion": "fairlead.dev/v1alpha1", "kind": kind, "metadata": {"name": "example"}, "spec": spec}


def _fields(model: Any) -> set[str]:
    return {field.alias or name for name, field in model.model_fields.items()}
