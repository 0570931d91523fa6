"""The pages of the documentation lead where they say."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)(?:#[^)]*)?\)")
_CODE = re.compile(r"```.*?```", re.DOTALL)


def pages() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=False)
    return sorted(listed.stdout.split()) or sorted(str(page.relative_to(ROOT)) for page in ROOT.glob("*.md"))


@pytest.mark.parametrize("page", pages())
def test_every_link_of_a_page_leads_to_a_file(page: str) -> None:
    text = _CODE.sub("", (ROOT / page).read_text())
    missing = [link for link in _LINK.findall(text) if not (ROOT / page).parent.joinpath(link).exists()]
    assert missing == []


def test_the_readme_leads_to_every_page() -> None:
    text = (ROOT / "README.md").read_text()
    linked = {str((ROOT / link).resolve().relative_to(ROOT)) for link in _LINK.findall(text)}
    kept = {page for page in pages() if not page.startswith("tests/")}
    below = {page for page in kept for entry in linked if page.startswith(f"{Path(entry).parent}/") and "/" in entry}
    assert kept - linked - below == {"README.md", "CHANGELOG.md"}
