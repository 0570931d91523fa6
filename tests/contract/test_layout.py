"""Packages and extras that pyproject.toml has to name. `hack/check` checks the location of files."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from extras import EXTRAS, PROJECT, requirements

REPOSITORY = Path(__file__).resolve().parents[2]
OURS = {
    path.parent.name for top in ("crds", "operator", "gateway") for path in (REPOSITORY / top).glob("*/__init__.py")
}
OTHER_HALVES = {
    "anyio": "streams of a transport of mcp are its own",
    "markupsafe": "texts that jinja2 does not escape again",
    "mcp_types": "types of mcp's messages",
    "pydantic_core": "errors and fields of pydantic",
}
"""Modules of a declared library's interface that are in a distribution with another name."""


def test_every_import_package_is_in_the_wheel_and_says_that_it_is_typed() -> None:
    packages = [
        path.parent for top in ("crds", "operator", "gateway") for path in (REPOSITORY / top).glob("*/__init__.py")
    ]

    assert len(packages) >= 6
    wheel = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert {str(package.relative_to(REPOSITORY)) for package in packages} == set(wheel["packages"])
    assert [package.name for package in packages if not (package / "py.typed").exists()] == []


def test_a_laptop_installs_all_that_operator_and_gateway_need_but_for_a_cluster() -> None:
    cluster = requirements("operator") | requirements("gateway")
    assert {Requirement(each).name for each in cluster - requirements("up")} == {"kopf", "kubernetes"}


def test_every_library_that_a_package_imports_is_declared() -> None:
    distributions = packages_distributions()
    imported = {
        (module, name.split(".")[0])
        for folder in ("crds", "operator", "gateway")
        for module in (REPOSITORY / folder).rglob("*.py")
        for name in imports(ast.parse(module.read_text("utf-8")))
    }
    declared = {canonicalize_name(Requirement(each).name) for extra in (*EXTRAS, "") for each in requirements(extra)}
    extension_not_declared = {
        f"{name} ({module.relative_to(REPOSITORY)})"
        for module, name in imported
        if name not in sys.stdlib_module_names | OURS | OTHER_HALVES.keys()
        and not {canonicalize_name(each) for each in distributions.get(name, [name])} & declared
    }
    assert extension_not_declared == set()


def imports(tree: ast.Module) -> Iterator[str]:
    """Modules that a file imports, at any place."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
