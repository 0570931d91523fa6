"""Steps of a release that build images from the locked requirements, check them, and write their SBOMs."""

from __future__ import annotations

import gzip
import io
import json
import sys
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from releasing.artefacts import ImageFacts, check_image
from releasing.faults import Fault
from releasing.versions import Version
from releasing.workplace import ROOT, Workplace, environment

IMAGES: Final = ("fairlead", "fairlead-listener")
"""Images that an installation of the chart runs. The others are servers, which a dry run does not need."""
LEVEL: Final = 6
"""gzip level of programs that push images."""


def images(workplace: Workplace, version: Version) -> list[str]:
    """Build the images from the committed lists, and check the first. Raises Fault."""
    folder = workplace.folder("images", empty=True)
    workplace.run(ROOT / "hack/images", "--tag", version.chart, "--archive", folder, *IMAGES)
    facts = image_facts("fairlead", folder / "fairlead.tar")
    check_image(facts)
    return [f"fairlead: {facts.compressed:,} bytes compressed, {len(facts.paths):,} files, user {facts.user}, no shell"]


def image_facts(name: str, archive: Path) -> ImageFacts:
    """Size, user and files of a docker-archive. Layers are compressed with `gzip -6`. Raises OSError, Fault."""
    size, paths = 0, set[str]()
    with tarfile.open(archive) as tar:
        for layer in _manifest(tar)["Layers"]:
            content = _member(tar, layer)
            size += len(zlib.compress(content, LEVEL))
        config = json.loads(_member(tar, _manifest(tar)["Config"]))["config"]
    for inner in _layers(archive):
        paths.update(member.name.removeprefix("./") for member in inner if not member.isdir())
    return ImageFacts(name, size, config.get("User", ""), frozenset(paths))


def compressed(archive: Path, into: Path) -> Path:
    """Copy of a docker-archive with compressed layers, which crane pushes unchanged. Crane's own compression is fast
    and weak.
    """
    with tarfile.open(archive) as tar, tarfile.open(into, "w") as out:
        layers = set(_manifest(tar)["Layers"])
        for member in tar:
            if member.name in layers:
                content = gzip.compress(_member(tar, member.name), LEVEL, mtime=0)
                member.size = len(content)
                out.addfile(member, io.BytesIO(content))
            else:
                out.addfile(member, tar.extractfile(member) if member.isfile() else None)
    return into


def _layers(archive: Path) -> Iterator[tarfile.TarFile]:
    with tarfile.open(archive) as tar:
        for layer in _manifest(tar)["Layers"]:
            file = tar.extractfile(layer)
            assert file is not None
            with tarfile.open(fileobj=file) as inner:
                yield inner


def _manifest(tar: tarfile.TarFile) -> dict[str, Any]:
    (manifest,) = json.loads(_member(tar, "manifest.json"))
    return dict(manifest)


def _member(tar: tarfile.TarFile, name: str) -> bytes:
    file = tar.extractfile(name)
    if file is None:
        raise Fault(f"the archive has no file {name}: it is not a docker-archive")
    return file.read()


def sboms(workplace: Workplace) -> list[str]:
    """Write the SBOMs (CycloneDX 1.6) of the environment of the step `install` and of the image. Raises Fault."""
    folder = workplace.folder("sbom", empty=True)
    venv = workplace.artefact("venv/bin", "python")
    package = describe(workplace, venv, folder / "fairlead.cdx.json")
    image = image_sbom(workplace, workplace.artefact("images", "fairlead.tar"), folder / "fairlead-image.cdx.json")
    return [f"{name}: {summarize_sbom(sbom)}" for name, sbom in (("package", package), ("image", image))]


def image_sbom(workplace: Workplace, archive: Path, into: Path) -> dict[str, Any]:
    """SBOM of a docker-archive: its Python packages, and the Debian packages of its libraries. Raises Fault."""
    root = workplace.folder("root", empty=True)
    for inner in _layers(archive):
        inner.extractall(root, filter="tar")
    sbom = describe(workplace, path_of(root, workplace.folder("log")), into)
    sbom["components"] += debian(root)
    into.write_text(json.dumps(sbom, indent=2) + "\n")
    return sbom


def describe(workplace: Workplace, python: Path, into: Path) -> dict[str, Any]:
    """SBOM of an interpreter's import path, written by cyclonedx-py. Raises Fault."""
    program = environment(workplace, "release").with_name("cyclonedx-py")
    words: list[str | Path] = [
        "environment",
        "--pyproject",
        ROOT / "pyproject.toml",
        "--of",
        "JSON",
        "--output-reproducible",
        "-o",
        into,
    ]
    workplace.run(program, *words, python)
    sbom: dict[str, Any] = json.loads(into.read_text())
    return sbom


def path_of(root: Path, folder: Path) -> Path:
    """Path of a program that prints `sys.path` as the image's interpreter would.

    Interpreters of images do not run outside of them, and cyclonedx-py needs only this output.
    """
    folders = [str(path) for path in root.glob("opt/fairlead/lib/python3*/site-packages")]
    if not folders:
        raise Fault(f"{root} has no environment in /opt/fairlead")
    program = folder / "image-path"
    program.write_text(f"#!{sys.executable}\nprint({json.dumps(folders)!r})\n")
    program.chmod(0o755)
    return program


def debian(root: Path) -> list[dict[str, Any]]:
    """SBOM components for the Debian packages of the image's libraries, from `/var/lib/dpkg/status.d`."""
    packages = []
    for path in sorted((root / "var/lib/dpkg/status.d").glob("*")):
        entry = dict(
            line.split(": ", 1) for line in path.read_text().splitlines() if ": " in line[:40] and line[0] != " "
        )
        name, version, kind = entry["Package"], entry["Version"], entry["Architecture"]
        purl = f"pkg:deb/debian/{name}@{version}?arch={kind}"
        packages.append({"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl})
    return packages


def summarize_sbom(sbom: dict[str, Any]) -> str:
    """Text with the number of components in an SBOM, and the number whose license is known. Raises Fault if there are
    no components.
    """
    components = sbom.get("components", [])
    if not components:
        raise Fault("an SBOM lists no components: cyclonedx-py found no packages")
    licensed = sum(1 for each in components if each.get("licenses"))
    return f"{len(components)} components, {licensed} with a license"
