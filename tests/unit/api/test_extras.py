"""Extras of the Python package: the command that messages recommend also works in a clone, without a package index."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead_api.extras import requirement

ROOT = Path(__file__).parents[3]
PACKAGES = ("crds", "gateway", "operator")


@pytest.mark.parametrize(
    ("direct_url", "source"),
    [
        ('{"url": "file:///home/me/fair%20lead", "dir_info": {"editable": true}}', "/home/me/fair lead"),
        ('{"url": "file:///home/me/fairlead.whl", "archive_info": {}}', "fairlead"),
        (None, "fairlead"),
    ],
    ids=["clone", "wheel", "index"],
)
def test_a_missing_extra_is_installed_from_where_the_package_came(direct_url: str | None, source: str) -> None:
    assert requirement(direct_url) == source


def test_every_message_that_names_an_extra_asks_where_the_package_came_from() -> None:
    sources = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py") if path.name != "extras.py"]
    assert len(sources) > 500
    assert [str(path) for path in sources if "fairlead[" in path.read_text("utf-8")] == []
