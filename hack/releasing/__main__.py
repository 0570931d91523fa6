"""The command behind `hack/release`: a dry run of all steps, and the parts that the release workflow asks for."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import tomllib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from releasing import chart
from releasing.artefacts import Artefact, file_artefact, table
from releasing.cluster import cluster
from releasing.faults import Fault
from releasing.images import image_sbom, images, sboms, summarize_sbom
from releasing.packages import installation, wheels
from releasing.registry import CHARTS, publish, registry
from releasing.versions import UNRELEASED, Version, agreed, changelog_section
from releasing.workplace import GO_PROGRAMS, ROOT, Workplace, elapsed, go_program

REGISTRY: Final = "FAIRLEAD_REGISTRY"
"""Environment variable with the prefix of images and chart; hack/place.env contains its public value."""
STEPS: Final = ("tree", "wheels", "install", "image", "sbom", "registry", "cluster", "docs", "table")


def steps_of(only: str | None, first: str | None) -> tuple[str, ...]:
    """Steps to run. Raises Fault for an unknown name."""
    name = only or first
    if name is None:
        return STEPS
    if name not in STEPS:
        raise Fault(f"there is no step {name}; the steps are {', '.join(STEPS)}")
    return (name,) if only else STEPS[STEPS.index(name) :]


def version_of(tag: str | None) -> Version:
    """Version in the files of this tree. Raises Fault if they disagree."""
    package = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    lines = (ROOT / chart.CHART / "Chart.yaml").read_text().splitlines()
    chart_lines = dict(line.split(": ", 1) for line in lines if line.startswith(("version: ", "appVersion: ")))
    return agreed(package, chart_lines["version"].strip('"'), chart_lines["appVersion"].strip('"'), tag)


def notes(version: Version, *, tagged: bool) -> str:
    """Release note: the changelog's section of the version, or the unreleased section. Raises Fault."""
    return changelog_section((ROOT / "CHANGELOG.md").read_text(), version.chart if tagged else UNRELEASED)


def tree(workplace: Workplace) -> list[str]:
    """Check that the tree is committed, and that tag, files and changelog agree. Raises Fault."""
    if changed := workplace.run("git", "status", "--porcelain").strip():
        raise Fault(f"the tree has what is not committed, first: {changed.splitlines()[0]}")
    tags = [tag for tag in workplace.run("git", "tag", "--points-at", "HEAD").split() if tag.startswith("v")]
    tag = tags[0] if tags else None
    version = version_of(tag)
    note = workplace.out / "notes.md"
    note.write_text(notes(version, tagged=tag is not None))
    entries = sum(line.startswith("- ") for line in note.read_text().splitlines())
    return [f"version {version.chart}, {tag or 'no tag yet'}; release note of {entries} entries"]


def docs(workplace: Workplace) -> list[str]:
    """Build the site, if the tree has one. Raises Fault."""
    if not (ROOT / "hack/docs").exists():
        return ["left out: hack/docs is not in this tree"]
    workplace.run(ROOT / "hack/docs", "--strict")
    return ["the site builds strictly"]


def summary(workplace: Workplace, version: Version) -> list[str]:
    """Write the table of artefacts. Raises Fault."""
    files = [
        *(workplace.out / "dist").iterdir(),
        *(workplace.out / "chart").iterdir(),
        *(workplace.out / "sbom").iterdir(),
    ]
    artefacts: list[Artefact] = [file_artefact(path) for path in files]
    with registry(workplace) as served:
        for name in ("fairlead", "fairlead-listener", f"{CHARTS}/fairlead"):
            reference = served.reference(name, version.chart)
            artefacts.append(served.artefact(f"{name}:{version.chart} (registry)", reference))
    text = table(artefacts)
    (workplace.out / "artefacts.md").write_text(text)
    return text.splitlines()


def dry_run(workplace: Workplace, names: Sequence[str]) -> None:
    """Run the steps and print the result of each. Raises Fault at the first failure."""
    version = version_of(None)
    work: dict[str, Callable[[Workplace], list[str]]] = {
        "tree": tree,
        "wheels": wheels,
        "install": installation,
        "image": partial(images, version=version),
        "sbom": sboms,
        "registry": partial(publish, version=version),
        "cluster": partial(cluster, version=version),
        "docs": docs,
        "table": partial(summary, version=version),
    }
    begin = time.monotonic()
    for number, name in enumerate(STEPS, start=1):
        if name not in names:
            continue
        since = time.monotonic()
        print(f"{number}/{len(STEPS)} {name} (at {elapsed(begin)})", flush=True)
        try:
            lines = work[name](workplace)
        except Fault as error:
            raise Fault(f"step {name}: {error}\n  hack/release --dry-run --from {name} goes on here") from error
        for line in lines:
            print(f"    {line}")
        print(f"    {name}: {elapsed(since)}", flush=True)
    print(f"all is well after {elapsed(begin)}; artefacts are in {os.path.relpath(workplace.out, ROOT)}")


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """Parse options and verbs."""
    parser = argparse.ArgumentParser(prog="hack/release", description="hack/release --help tells more")
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--only", metavar="STEP")
    parser.add_argument("--from", dest="first", metavar="STEP")
    parser.add_argument("verb", nargs="?", choices=["version", "notes", "chart", "sbom", "tool"])
    parser.add_argument("word", nargs="?")
    options = parser.parse_args(words)
    if options.dry_run == bool(options.verb) or (options.verb in ("chart", "sbom", "tool") and not options.word):
        parser.error("give --dry-run, or one of: version [TAG], notes [TAG], chart FOLDER, sbom ARCHIVE, tool NAME")
    return options


def verb(name: str, word: str | None, workplace: Workplace) -> str:
    """Result of one of the verbs. Raises Fault."""
    if name == "tool":
        if word not in GO_PROGRAMS:
            raise Fault(f"there is no tool {word}; there are {', '.join(GO_PROGRAMS)}")
        return str(go_program(workplace, word))
    if name == "chart":
        address = os.environ.get(REGISTRY)
        if not address:
            raise Fault(
                f"{REGISTRY} is not set, neither here nor in hack/place.env: it names where images are published"
            )
        into = Path(word or ".").resolve()
        into.mkdir(parents=True, exist_ok=True)
        return str(chart.package(workplace, address, version_of(None), into))
    if name == "sbom":
        into = workplace.folder("sbom") / "fairlead-image.cdx.json"
        return summarize_sbom(image_sbom(workplace, Path(word or "").resolve(), into))
    version = version_of(word)
    return version.chart if name == "version" else notes(version, tagged=word is not None).rstrip()


def main(words: Sequence[str]) -> int:
    """Return exit code 0 if all steps succeeded, else 1."""
    options = parsed(words)
    out = ROOT / "dist" / "release"
    out.mkdir(parents=True, exist_ok=True)
    workplace = Workplace(out, out / "commands.log")
    try:
        if options.dry_run:
            dry_run(workplace, steps_of(options.only, options.first))
        else:
            print(verb(options.verb, options.word, workplace))
    except Fault as error:
        print(f"hack/release: {error}", file=sys.stderr)
        return 1
    except (OSError, json.JSONDecodeError, KeyError) as error:
        print(f"hack/release: {type(error).__name__}: {error}; {workplace.log} has what commands said", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
