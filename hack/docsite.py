"""Builds the documentation site from docs/ and mkdocs.yml: python hack/docsite.py [--version NAME] FOLDER.

Pages are copied to a scratch folder first, since a few pages stand elsewhere in the repository and links lead to files
outside docs/, which a site does not have: hack/place.env has the address of these files. While it is empty they are
copied into the site.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from metadata import PLACE, files_url, read_place

ROOT: Final = Path(__file__).resolve().parents[1]
ELSEWHERE: Final = {
    "CHANGELOG.md": "reference/changelog.md",
    "CONTRIBUTING.md": "contribute/contributing.md",
    "README.md": "index.md",
    "SECURITY.md": "contribute/security.md",
    "charts/fairlead/README.md": "install/chart.md",
    "tests/README.md": "contribute/tests.md",
}
"""Pages outside docs/ that the site contains, and their paths there. The landing page replaces the README."""
_LINK: Final = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|#|mailto:)([^)#\s]+)(#[^)]*)?\)")
_RELEASE: Final = re.compile(r"\d+(\.\d+)*")
_CODE: Final = re.compile(r"(```.*?```)", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Site:
    """Pages of the site while they are collected in `folder`."""

    root: Path
    folder: Path
    repository: str = ""
    """Base URL for paths of the repository; if empty, files are copied into the site."""
    copied: set[str] = field(default_factory=set)

    def add(self, source: str, page: str) -> None:
        """Copy a file of the repository into the site. Links in pages are adapted."""
        target = self.folder / page
        target.parent.mkdir(parents=True, exist_ok=True)
        if not page.endswith(".md"):
            shutil.copyfile(self.root / source, target)
            return
        parts = _CODE.split((self.root / source).read_text("utf-8"))
        text = "".join(
            part if at % 2 else _LINK.sub(lambda link: self._link(link, source, page), part)
            for at, part in enumerate(parts)
        )
        target.write_text(text, "utf-8")

    def _link(self, link: re.Match[str], source: str, page: str) -> str:
        picture, label, path, anchor = link[1], link[2], link[3], link[4] or ""
        file = os.path.normpath(Path(source).parent / path)
        if file.startswith("docs/") and (self.root / file).is_file():
            target = file.removeprefix("docs/")
        elif file in ELSEWHERE:
            target = ELSEWHERE[file]
        elif not (self.root / file).exists():
            return link[0]  # the strict build reports it
        elif self.repository:
            return f"{picture}[{label}]({self.repository.rstrip('/')}/{file}{anchor})"
        elif (self.root / file).is_file():
            target = self._copy(file)
        else:
            return label  # a folder, which a site cannot show
        return f"{picture}[{label}]({os.path.relpath(target, Path(page).parent)}{anchor})"

    def _copy(self, file: str) -> str:
        """Copy a file of the repository into the site, as text that browsers display, and return its path there."""
        target = f"files/{file}" if file.endswith((".svg", ".png")) else f"files/{file}.txt"
        if file not in self.copied:
            self.copied.add(file)
            self.add(file, target)
        return target


def gather(site: Site) -> None:
    """Collect all pages, pictures and files of the site in its folder."""
    docs = site.root / "docs"
    for path in sorted(docs.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            site.add(str(path.relative_to(site.root)), str(path.relative_to(docs)))
    for source, target in ELSEWHERE.items():
        if (site.root / source).exists() and not (docs / target).exists():
            site.add(source, target)


def build(root: Path, out: Path, version: str) -> int:
    """Build one version of a repository's site below `out`, and return the exit code of Zensical, which is strict."""
    addresses = read_place((root / PLACE).read_text("utf-8"))
    text = (root / "mkdocs.yml").read_text("utf-8")
    if addresses["FAIRLEAD_SITE_URL"]:
        text += f"site_url: {json.dumps(addresses['FAIRLEAD_SITE_URL'] + version + '/')}\n"
    revision = f"v{version}" if _RELEASE.fullmatch(version) else "main"
    with tempfile.TemporaryDirectory(prefix="fairlead-docs") as scratch:
        Path(scratch, "mkdocs.yml").write_text(text, "utf-8")
        gather(Site(root=root, folder=Path(scratch, "docs"), repository=files_url(addresses, revision)))
        program = Path(sys.executable).with_name("zensical")
        done = subprocess.run(
            [program, "build", "--clean", "--strict"],
            cwd=scratch,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode:
            plain = re.sub(r"\x1b\[[\d;]*m", "", done.stdout)
            sys.stderr.write(plain.partition("Traceback")[0] or plain)
            return done.returncode
        out.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(out / version, ignore_errors=True)
        shutil.copytree(Path(scratch, "site"), out / version)
    publish(out, version)
    return 0


def publish(out: Path, version: str) -> None:
    """List the versions in `out` for the site's version selector, and redirect to the latest."""
    releases = sorted((path.name for path in out.iterdir() if _RELEASE.fullmatch(path.name)), key=_order)
    latest = releases[-1] if releases else version
    listed = [
        {"version": name, "title": name, "aliases": ["latest"] if name == latest else []}
        for name in [*reversed(releases), *(["dev"] if (out / "dev").is_dir() else [])]
    ]
    (out / "versions.json").write_text(json.dumps(listed) + "\n", "utf-8")
    leads = (
        '<!doctype html><meta charset="utf-8"><title>Fairlead</title><meta http-equiv="refresh" content="0; url={}">\n'
    )
    (out / "index.html").write_text(leads.format(f"{latest}/"), "utf-8")
    (out / "latest").mkdir(exist_ok=True)
    (out / "latest" / "index.html").write_text(leads.format(f"../{latest}/"), "utf-8")


def _order(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def main() -> int:
    """Build the site. Returns 0, or Zensical's exit code after it has printed its findings to standard error."""
    parser = argparse.ArgumentParser(prog="hack/docsite.py")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--version", default="dev", help="dev, or a release such as 0.1")
    given = parser.parse_args()
    code = build(ROOT, given.folder, given.version)
    if code == 0:
        sys.stdout.write(f"{given.folder / given.version}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
