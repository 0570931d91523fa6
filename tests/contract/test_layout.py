"""Packages and extras that pyproject.toml has to name; where files may stand is asked by `hack/check`."""

from __future__ import annotations

import tomllib
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


def test_every_import_package_is_in_the_wheel_and_says_that_it_is_typed() -> None:
    packages = [
        path.parent for top in ("crds", "operator", "gateway") for path in (REPOSITORY / top).glob("*/__init__.py")
    ]

    assert len(packages) >= 6
    wheel = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert {str(package.relative_to(REPOSITORY)) for package in packages} == set(wheel["packages"])
    assert [package.name for package in packages if not (package / "py.typed").exists()] == []


def test_a_laptop_installs_all_that_operator_and_gateway_need_but_for_a_cluster() -> None:
    extras = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(extras["operator"] + extras["gateway"]) - set(extras["up"]) == {"kopf>=1.45", "kubernetes>=37"}
