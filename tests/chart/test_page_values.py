"""The chart accepts the values that pages show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from helmworld import Helm, of_kind
from page_examples import ROOT, values

WRITTEN = [*ROOT.glob("docs/**/*.md"), ROOT / "charts/fairlead/README.md"]
KINDS = [
    word
    for kind in ("PodMonitor", "ServiceMonitor", "PrometheusRule")
    for word in ("--api-versions", f"monitoring.coreos.com/v1/{kind}")
]
"""Kinds of the Prometheus operator, which values on a page may enable."""
SHOWN = [example for page in sorted(WRITTEN) for example in values(page)]


@pytest.mark.parametrize(("where", "shown"), SHOWN, ids=[where for where, _ in SHOWN])
def test_values_of_a_page_render(helm: Helm, tmp_path: Path, where: str, shown: dict[str, Any]) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(shown))
    rendered = helm.template("--values", file, *KINDS)
    assert len(of_kind(rendered, "Deployment")) == 2


def test_values_of_the_charts_readme_are_tested() -> None:
    assert any(where.startswith("charts/fairlead/README.md") for where, _ in SHOWN)
