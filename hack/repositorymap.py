"""Writes the map of packages into docs/contribute/repository.md, from top to bottom, by their own first lines."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path
from typing import Final

import generatedpage

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDERS: Final = ("crds", "operator", "gateway")
LAYERS: Final = "layers of packages: "
"""Prefix of the name of the import contract in pyproject.toml that lists the packages in their order."""
_MAP: Final = re.compile(r"(?<=<!-- packages, written by hack/gen -->\n).*?(?=<!-- end of packages -->)", re.DOTALL)


def packages() -> list[str]:
    """Names of the import packages, the highest layer first."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    (contract,) = [contract for contract in contracts if contract["name"].startswith(LAYERS)]
    return [name.strip() for layer in contract["layers"] for name in layer.split("|")]


def row(package: str) -> str:
    """One row of the map. Raises ValueError if a package does not exist exactly once, or has no docstring."""
    (module,) = [file for folder in FOLDERS for file in ROOT.glob(f"{folder}/{package}/__init__.py")]
    text = ast.get_docstring(ast.parse(module.read_text("utf-8"))) or ""
    if not text:
        raise ValueError(f"{module.relative_to(ROOT)} needs a docstring: its first line is the package's row")
    return f"| `{module.parent.relative_to(ROOT)}` | {text.splitlines()[0].removesuffix('.')} |"


def page(there: str) -> str:
    """The page with the current map. Raises ValueError if it has no place for the map."""
    rows = ["| folder | what is in it |", "|---|---|", *map(row, packages())]
    text, count = _MAP.subn(lambda _: "\n".join(rows) + "\n", there)
    if count != 1:
        raise ValueError("the page needs `<!-- packages, written by hack/gen -->` and `<!-- end of packages -->`")
    return text


if __name__ == "__main__":
    sys.exit(generatedpage.run(page))
