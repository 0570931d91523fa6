"""Packages the chart for publication: from the committed tree, with the published names of the images."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path
from typing import Final

from metadata import PLACE, files_url, read_place, with_absolute_links
from releasing.faults import Fault
from releasing.versions import Version
from releasing.workplace import Workplace, helm

CHART: Final = "charts/fairlead"
ALERTS: Final = f"{CHART}/alerts/fairlead.yaml"
RUNBOOKS: Final = "docs/operate/alerts.md"
LOCAL: Final = "localhost/fairlead"
"""Prefix of image names in the tree; `hack/images` builds these images."""


def published(text: str, registry: str) -> str:
    """A file of the chart with image names of a registry instead of the local ones."""
    return text.replace(LOCAL, f"{registry}/fairlead")


def page(text: str, public_place: dict[str, str], chart: str) -> str:
    """The chart's README for Artifact Hub, which has no other files of the repository: links are absolute."""
    return with_absolute_links(text, files_url(public_place, f"v{chart}"), CHART)


def with_runbook_urls(text: str, public_place: dict[str, str], chart: str) -> str:
    """Alert rules with `runbook_url`, which tools expect, instead of the page's path. Unchanged if no site exists."""
    site = public_place["FAIRLEAD_SITE_URL"]
    return text.replace(f"runbook: {RUNBOOKS}#", f"runbook_url: {site}{chart}/operate/alerts/#") if site else text


def package(workplace: Workplace, registry: str, version: Version, into: Path) -> Path:
    """Package the committed chart. The same commit and registry give the same bytes. Raises Fault."""
    source = workplace.folder("chart-source", empty=True)
    archive = workplace.folder("log") / "chart.tar"
    workplace.run("git", "archive", "-o", archive, "HEAD", CHART, PLACE)
    with tarfile.open(fileobj=io.BytesIO(archive.read_bytes())) as tar:
        tar.extractall(source, filter="data")
    readme = source / CHART / "README.md"
    place_of_release = read_place((source / PLACE).read_text("utf-8"))
    readme.write_text(page(readme.read_text("utf-8"), place_of_release, version.chart), "utf-8")
    alerts = source / ALERTS
    alerts.write_text(with_runbook_urls(alerts.read_text("utf-8"), place_of_release, version.chart), "utf-8")
    moment = int(workplace.run("git", "log", "-1", "--format=%ct"))
    for path in sorted((source / CHART).rglob("*")):
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            path.write_text(published(text, registry), encoding="utf-8")
            os.utime(path, (moment, moment))  # helm package writes the current time into the archive
    words: list[str | Path] = [
        "package",
        source / CHART,
        "-d",
        into,
        "--version",
        version.chart,
        "--app-version",
        version.chart,
    ]
    workplace.run(helm(workplace), *words)
    made = into / f"fairlead-{version.chart}.tgz"
    if not made.exists():
        raise Fault(f"helm package wrote no {made.name}")
    return made
