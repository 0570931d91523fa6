"""The documentation site: all pages are in its navigation, it loads nothing from other sites, and its build fails for
broken links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import docsite
import page_reader

ROOT = docsite.ROOT
MKDOCS = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))


def navigation(entry: Any) -> Iterator[str]:
    match entry:
        case str():
            yield entry
        case dict():
            yield from (page for part in entry.values() for page in navigation(part))
        case list():
            yield from (page for part in entry for page in navigation(part))


def test_every_page_is_in_the_navigation_once() -> None:
    pages = [str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")]
    assert sorted(navigation(MKDOCS["nav"])) == sorted({*pages, *docsite.ELSEWHERE.values()})


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("zensical", reason="Zensical is not installed (fairlead[docs])")
    out = tmp_path_factory.mktemp("site")
    assert docsite.build(ROOT, out, "dev") == 0
    return out


def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text("utf-8")
        assert re.findall(r"<(?:script|img|iframe|source)[^>]*\ssrc=[\"']?(?:https?:)?//[^\s>]*", text) == [], page
        assert re.findall(r"<link[^>]*rel=[\"']?(?:stylesheet|preconnect)[^>]*href=[\"']?(?:https?:)?//", text) == [], (
            page
        )


def test_the_markdown_extensions_of_the_landing_page_work(site: Path) -> None:
    """Zensical silently ignores unknown extensions."""
    landing = (site / "dev" / "index.html").read_text("utf-8")
    assert landing.count("<li>") >= 6
    for part in ('class="grid cards"', "md-button--primary", "assets/site.css", "images/overview.svg"):
        assert part in landing
    assert "{ ." not in landing


def test_commands_of_the_landing_page_are_those_of_the_readme() -> None:
    blocks = page_reader.blocks((ROOT / "docs" / "index.md").read_text("utf-8"), "sh")
    readme = (ROOT / "README.md").read_text("utf-8").splitlines()
    assert [line for block in blocks for line in block.splitlines() if line not in readme] == []


@pytest.mark.parametrize(
    ("page", "told"),
    [
        ("[x](gone.md)", "page does not exist"),
        ("[x](other.md#gone)", "anchor does not exist"),
        ("[x](other.md#there)", ""),
    ],
)
def test_a_link_that_leads_nowhere_fails_the_build(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], page: str, told: str
) -> None:
    pytest.importorskip("zensical", reason="Zensical is not installed (fairlead[docs])")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(f"# Home\n\n{page}\n")
    (tmp_path / "docs" / "other.md").write_text("# Other\n\n## There\n")
    nav = {"nav": [{"Home": "index.md"}, {"Other": "other.md"}]}
    (tmp_path / "mkdocs.yml").write_text(yaml.safe_dump({**MKDOCS, **nav}))
    (tmp_path / "hack").mkdir()
    (tmp_path / "hack" / "place.env").write_text("FAIRLEAD_REPOSITORY_URL=\nFAIRLEAD_SITE_URL=https://docs.example/\n")
    assert (docsite.build(tmp_path, tmp_path / "out", "dev") == 0) == (not told)
    assert told in capsys.readouterr().err


def test_links_out_of_the_site_lead_to_the_repository_once_it_has_an_address(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("[a](../hack/x.py) [b](../hack) [c](../CONTRIBUTING.md#d)\n")
    (tmp_path / "hack").mkdir()
    (tmp_path / "hack" / "x.py").write_text("1\n")
    (tmp_path / "CONTRIBUTING.md").write_text("# C\n\n## D\n")
    for repository, wanted in (
        ("", "[a](files/hack/x.py.txt) b [c](contribute/contributing.md#d)\n"),
        (
            "https://git.example/1",
            "[a](https://git.example/1/hack/x.py) [b](https://git.example/1/hack) [c](contribute/contributing.md#d)\n",
        ),
    ):
        folder = tmp_path / f"site{len(repository)}"
        docsite.gather(docsite.Site(root=tmp_path, folder=folder, repository=repository))
        assert (folder / "index.md").read_text() == wanted


def test_the_latest_release_is_what_a_reader_gets(tmp_path: Path) -> None:
    for version in ("dev", "0.9", "0.10"):
        (tmp_path / version).mkdir()
        docsite.publish(tmp_path, version)
    listed = yaml.safe_load((tmp_path / "versions.json").read_text())
    assert [(each["version"], each["aliases"]) for each in listed] == [("0.10", ["latest"]), ("0.9", []), ("dev", [])]
    assert "url=0.10/" in (tmp_path / "index.html").read_text()
    assert "url=../0.10/" in (tmp_path / "latest" / "index.html").read_text()
