"""Requirements of the project's extras, as pyproject.toml declares them."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement

PROJECT: Final[dict[str, Any]] = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text())
EXTRAS: Final[dict[str, list[str]]] = PROJECT["project"]["optional-dependencies"]


def requirements(extra: str = "") -> set[str]:
    """Requirements of an extra, including those of the extras that it names; without a name, those of every
    installation.
    """
    listed: set[str] = set()
    for each in EXTRAS[extra] if extra else PROJECT["project"]["dependencies"]:
        inner = Requirement(each)
        if inner.name == PROJECT["project"]["name"]:
            listed = listed.union(*map(requirements, inner.extras))
        else:
            listed.add(each)
    return listed
