"""URLs of the wheels' metadata, from `hack/place.env`: none as long as the project has no public place.

A metadata hook of hatchling: `[project.urls]` is declared dynamic, so that no address stands in a second file.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any, Final

from hatchling.metadata.plugin.interface import MetadataHookInterface

PLACE: Final = "hack/place.env"


def read_place(text: str) -> dict[str, str]:
    """Variables of an env file of `NAME=value` lines, comments left out. Raises ValueError on any other line."""
    found = {}
    for word in shlex.split(text, comments=True):
        name, equals, value = word.partition("=")
        if not equals:
            raise ValueError(f"{PLACE}: {word!r} is no NAME=value")
        found[name] = value
    return found


def urls(place: dict[str, str]) -> dict[str, str]:
    """`[project.urls]` under PyPI's well-known labels; empty without a place."""
    site, repository = place["FAIRLEAD_SITE_URL"], place["FAIRLEAD_REPOSITORY_URL"].rstrip("/")
    found = {"Documentation": site} if site else {}
    if repository:
        found |= {
            "Source": repository,
            "Issues": f"{repository}/issues",
            "Changelog": f"{repository}/blob/main/CHANGELOG.md",
        }
    return found


class PlaceMetadataHook(MetadataHookInterface):
    """Fills in `[project.urls]` for every build."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set `urls`, which pyproject.toml declares dynamic."""
        metadata["urls"] = urls(read_place((Path(self.root) / PLACE).read_text("utf-8")))
