"""Restrictions of the modules that are compiled in the image, and their use without compilation."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HOOK = ROOT / "hack" / "compilation.py"


def modules() -> list[str]:
    for node in ast.parse(HOOK.read_text()).body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == "MODULES":
            assert node.value is not None
            return list(ast.literal_eval(node.value))
    raise AssertionError("no MODULES")


@pytest.mark.parametrize("module", modules())
def test_a_compiled_module_makes_no_class_by_msgspec_nor_one_that_is_held_weakly(module: str) -> None:
    tree = ast.parse((ROOT / "gateway" / module).read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            assert not [base for base in node.bases if ast.unparse(base).endswith("Struct")], node.name
        if isinstance(node, ast.Constant):
            assert node.value != "__weakref__", "mypyc gives its classes none"


@pytest.mark.parametrize("package", ["calls", "endpoint", "policy", "upstream"])
def test_compiled_packages_do_not_import_copy(package: str) -> None:
    """`copy` silently copies none of the attributes of a compiled object."""
    for file in (ROOT / "gateway" / "fairlead_gateway" / package).glob("*.py"):
        assert "import copy\n" not in file.read_text(), file


def test_the_path_is_compiled_only_for_those_who_ask() -> None:
    hook = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]
    assert hook["custom"]["enable-by-default"] is False
    assert (ROOT / hook["custom"]["path"]) == HOOK


def test_the_image_has_the_path_compiled() -> None:
    assert "HATCH_BUILD_HOOK_ENABLE_CUSTOM=true" in (ROOT / "gateway" / "Dockerfile").read_text()
    assert "!hack/compilation.py" in (ROOT / ".dockerignore").read_text().splitlines()


def test_the_version_says_whether_the_modules_are_compiled() -> None:
    program = "from fairlead_tools.version import COMPILED; print(COMPILED)"
    completed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    from fairlead_mcp.http import heads

    assert completed.stdout.strip() == str(not heads.__file__.endswith(".py"))
