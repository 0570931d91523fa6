"""URLs of the wheels' metadata, and links of the README in it, from `hack/place.env`: none as long as no
place is public.

A metadata hook of hatchling: `urls` and `readme` are declared dynamic, so that no address stands in a second file.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from pathlib import Path
from typing import Any, Final

from hatchling.metadata.plugin.interface import MetadataHookInterface

PLACE: Final = "hack/place.env"
_LINK: Final = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|#|mailto:)([^)\s]+)\)")


def read_place(text: str) -> dict[str, str]:
    """Variables of an env file with lines `NAME=value` and comments. Raises ValueError for any other line."""
    values = {}
    for word in shlex.split(text, comments=True):
        name, equals, value = word.partition("=")
        if not equals:
            raise ValueError(f"{PLACE}: {word!r} is not a NAME=value")
        values[name] = value
    return values


def urls(values: dict[str, str]) -> dict[str, str]:
    """`[project.urls]` with PyPI's well-known labels; empty if no repository is public."""
    site, repository = values["FAIRLEAD_SITE_URL"], values["FAIRLEAD_REPOSITORY_URL"].rstrip("/")
    addresses = {"Documentation": site} if site else {}
    if repository:
        addresses |= {
            "Source": repository,
            "Issues": f"{repository}/issues",
            "Changelog": f"{repository}/blob/main/CHANGELOG.md",
        }
    return addresses


def files_url(values: dict[str, str], revision: str) -> str:
    """URL of the repository's files at a branch or tag, with a slash at the end; empty if no repository is public."""
    repository = values["FAIRLEAD_REPOSITORY_URL"].rstrip("/")
    return f"{repository}/blob/{revision}/" if repository else ""


def with_absolute_links(page: str, files: str, folder: str = "") -> str:
    """A page with absolute links, for package indexes, which have neither the repository's files nor its pictures."""
    if not files:
        return page
    raw = files.replace("/blob/", "/raw/", 1)

    def absolute(link: re.Match[str]) -> str:
        path, hash_sign, anchor = link[3].partition("#")
        file = posixpath.normpath(posixpath.join(folder, path))
        return f"{link[1]}[{link[2]}]({raw if link[1] else files}{file}{hash_sign}{anchor})"

    return _LINK.sub(absolute, page)


class PlaceMetadataHook(MetadataHookInterface):
    """Fills in `urls` and `readme` for every build."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set `urls` and `readme`, which pyproject.toml declares as dynamic."""
        values = read_place((Path(self.root) / PLACE).read_text("utf-8"))
        metadata["urls"] = urls(values)
        page = (Path(self.root) / "README.md").read_text("utf-8")
        text = with_absolute_links(page, files_url(values, f"v{metadata['version']}"))
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
