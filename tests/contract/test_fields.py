"""Every field of a spec has a row in FIELDS.md that names a test of its behaviour."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from crdrules import is_moved
from fairlead_api import crd

TESTS = Path(__file__).resolve().parents[1]
PAGE = Path(__file__).parent / "FIELDS.md"
_ROW = re.compile(r"^\| `(?P<field>[^`]+)` \| (?P<tests>.+) \|$")
_TEST = re.compile(r"`([^`:]+)::([^`]+)`")


def leaves(schema: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Paths of fields without subfields; `[]` stands for the items of a list."""
    if schema.get("type") == "array":
        yield from leaves(schema["items"], f"{path}[]")
    elif path == "podTemplate":  # fields of a pod, which are merged into it as a whole
        yield path
    elif members := schema.get("properties"):
        for name, member in members.items():
            if not is_moved(member):
                yield from leaves(member, f"{path}.{name}" if path else name)
    else:
        yield path


def fields() -> dict[str, list[str]]:
    """Fields of the generated CRDs, by kind."""
    by_kind = {}
    for manifest in crd.crd_manifests():
        schema = manifest["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        by_kind[manifest["spec"]["names"]["kind"]] = list(leaves(schema["properties"]["spec"]))
    return by_kind


def rows() -> dict[str, dict[str, list[tuple[str, str]]]]:
    """File and name of each test, by kind and field."""
    by_kind: dict[str, dict[str, list[tuple[str, str]]]] = {}
    kind = ""
    for line in PAGE.read_text().splitlines():
        if line.startswith("## "):
            kind = line.removeprefix("## ")
            by_kind[kind] = {}
        elif row := _ROW.match(line):
            assert row["field"] not in by_kind[kind], f"{kind}: {row['field']} twice"
            by_kind[kind][row["field"]] = _TEST.findall(row["tests"])
    return by_kind


def functions(path: str) -> set[str]:
    """Names of the test functions in a file."""
    tree = ast.parse((TESTS / path).read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_field_has_a_row_and_every_row_a_field() -> None:
    assert {kind: sorted(listed) for kind, listed in rows().items()} == {
        kind: sorted(listed) for kind, listed in fields().items()
    }


@pytest.mark.parametrize("kind", sorted(fields()))
def test_every_row_names_a_test_that_exists(kind: str) -> None:
    missing = {
        field: tests
        for field, tests in rows()[kind].items()
        if not tests or any(name not in functions(path) for path, name in tests)
    }
    assert missing == {}
