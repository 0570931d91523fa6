"""Guards on where files may stand."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("folder", ["operator", "gateway", "crds"])
def test_a_top_level_folder_is_no_package(folder: str) -> None:
    """A package called `operator` would take the place of the standard library's module."""
    assert not (REPOSITORY / folder / "__init__.py").exists()


def test_no_folder_of_tests_is_a_package() -> None:
    """`tests/operator/__init__.py` would replace the standard library's `operator` for a whole run."""
    assert list((REPOSITORY / "tests").rglob("__init__.py")) == []


def test_every_import_package_is_in_the_wheel_and_says_that_it_is_typed() -> None:
    packages = [
        path.parent for top in ("crds", "operator", "gateway") for path in (REPOSITORY / top).glob("*/__init__.py")
    ]

    assert len(packages) >= 6
    wheel = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert {str(package.relative_to(REPOSITORY)) for package in packages} == set(wheel["packages"])
    assert [package.name for package in packages if not (package / "py.typed").exists()] == []


def test_no_source_file_is_longer_than_400_lines() -> None:
    sources = [path for top in ("crds", "operator", "gateway") for path in (REPOSITORY / top).rglob("*.py")]

    assert [str(path) for path in sources if len(path.read_text("utf-8").splitlines()) > 400] == []


def test_a_laptop_installs_all_that_operator_and_gateway_need_but_for_a_cluster() -> None:
    extras = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(extras["operator"] + extras["gateway"]) - set(extras["up"]) == {"kopf>=1.45", "kubernetes>=37"}
