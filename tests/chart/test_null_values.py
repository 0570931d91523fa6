"""Values that are set to null: Helm takes their defaults away, from a member as from a whole section."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from charts.values import NEEDED
from helmworld import CHART, Helm, Refused
from renderedsettings import read_settings

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
DEFAULTS = yaml.safe_load((CHART / "values.yaml").read_text())


def paths(schema: Mapping[str, Any], defaults: Any, path: str = "") -> Iterator[str]:
    """Paths of all values that the chart has a default for, sections before their members."""
    for name, member in schema["properties"].items():
        if name in defaults:
            where = f"{path}.{name}".lstrip(".")
            yield where
            if member.get("properties") and defaults[name]:
                yield from paths(member, defaults[name], where)


ALL = [*paths(SCHEMA, DEFAULTS)]
SECTIONS = [path for path in ALL if any(other.startswith(f"{path}.") for other in ALL)]
NEEDED_VALUES = (CHART / NEEDED).read_text().split()


def null_at(given: Iterable[str]) -> str:
    """Values in which everything at these paths is null."""
    given, values = set(given), dict[str, Any]()
    for path in given:
        if any(path.startswith(f"{other}.") for other in given):
            continue  # null with its section
        *folders, last = path.split(".")
        inner = values
        for folder in folders:
            inner = inner.setdefault(folder, {})
        inner[last] = None
    return yaml.safe_dump(values)


def refused(helm: Helm, file: Path, given: Iterable[str]) -> list[str]:
    """Paths that the refusal of null at the `given` paths names."""
    file.write_text(null_at(given))
    with pytest.raises(Refused, match="null takes the default away; leave the value out") as refusal:
        helm.template("--values", file)
    sentence = str(refusal.value).partition(": null takes")[0]
    return sentence.rpartition("): ")[2].split(", ")


def test_every_section_that_is_null_is_refused_with_a_sentence_that_names_it(helm: Helm, tmp_path: Path) -> None:
    assert {"logging", "grants", "samples", "gateway.service", "networkPolicy.egress"} <= set(SECTIONS)
    for depth in {path.count(".") for path in SECTIONS}:
        given = [path for path in SECTIONS if path.count(".") == depth]
        optional = [path for path in given if path not in NEEDED_VALUES]
        assert refused(helm, tmp_path / "values.yaml", given) == [path for path in given if path not in optional]
        assert all("resources" in path or "ecurityContext" in path for path in optional), optional


def test_each_top_level_section_that_is_null_alone_ends_in_no_error_of_a_template(helm: Helm, tmp_path: Path) -> None:
    for section in [path for path in NEEDED_VALUES if path in SECTIONS and "." not in path]:
        assert refused(helm, tmp_path / "values.yaml", [section]) == [section]


def test_switches_numbers_and_texts_that_are_null_are_refused_together(helm: Helm, tmp_path: Path) -> None:
    leaves = [path for path in NEEDED_VALUES if path not in SECTIONS]
    assert {"grants.store", "samples.voice", "logging.level", "servers.admissionPolicy.actions"} <= set(leaves)
    assert refused(helm, tmp_path / "values.yaml", leaves) == leaves


def test_all_other_values_that_are_null_are_as_empty(helm: Helm, tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    others = [path for path in ALL if path not in NEEDED_VALUES]
    assert {"gateway.routes", "rbac.secretNamespaces", "operator.resources"} <= set(others)
    file.write_text(null_at(others))
    read_settings(helm.template("--values", file))
