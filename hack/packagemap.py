"""The map of packages in a page for contributors: hack/packagemap.py [--check] FILE, as `hack/gen` runs it.

Each import package of the distribution has a row with the first line of its own docstring, in the order in which
pyproject.toml names them. Rows of other folders stay as they are.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path
from typing import Final

from generatedpage import run

ROOT: Final = Path(__file__).resolve().parents[1]
ROWS: Final = re.compile(r"(?:^\| `(?:crds|operator|gateway)/fairlead_\w+` \|.*\n)+", re.MULTILINE)


def page(text: str) -> str:
    """The page with the rows of all packages as they are now. Raises ValueError where it has none."""
    made, count = ROWS.subn(lambda _: "".join(map(row, packages())), text)
    if count != 1:
        raise ValueError(f"the page has {count} blocks of rows of packages; one is needed")
    return made


def packages() -> list[str]:
    """Folders of the import packages that ship."""
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    folders: list[str] = build["targets"]["wheel"]["packages"]
    return folders


def row(folder: str) -> str:
    """A row of the table: the folder, and what its package says first."""
    docstring = ast.get_docstring(ast.parse((ROOT / folder / "__init__.py").read_text("utf-8"))) or ""
    return f"| `{folder}` | {docstring.splitlines()[0].rstrip('.')} |\n"


if __name__ == "__main__":
    sys.exit(run(page))
