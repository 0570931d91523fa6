"""Checks artefacts of a release by their content, and writes the table that lists them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from releasing.faults import Fault

NOT_IN_WHEELS: Final = (".md", ".svg", ".rst", ".pyx", ".c")
"""Suffixes of files that do not belong into a wheel, except in `static` and among the servers' data."""
IMAGE_BOUND: Final = 63_000_000
"""Maximum size in bytes of the compressed layers of the image `fairlead`."""
USER: Final = "65532:65532"
SHELLS: Final = frozenset({"sh", "bash", "dash", "busybox", "ash", "zsh"})


_SERVED: Final = re.compile(r"\.dist-info/|/static/|^fairlead_servers/")


@dataclass(frozen=True)
class Artefact:
    """One file or image of a release."""

    name: str
    size: int
    """Size in bytes; for an image, that of its compressed layers."""
    digest: str
    """SHA-256 in hexadecimal digits; for an image, that of its manifest."""


@dataclass(frozen=True)
class ImageFacts:
    """Size, user and files of an image, from its archive."""

    name: str
    compressed: int
    """Size of all layers in bytes, as stored in a registry."""
    user: str
    paths: frozenset[str]
    """Paths of the files in all layers, without a leading slash."""


def unwanted(names: Iterable[str]) -> list[str]:
    """Files of a wheel that do not belong there. Files in `.dist-info` are metadata and allowed."""
    return sorted(name for name in names if name.endswith(NOT_IN_WHEELS) and not _SERVED.search(name))


def check_image(image: ImageFacts, bound: int = IMAGE_BOUND) -> None:
    """Raise Fault if an image is too large, runs as another user than 65532, or contains a shell."""
    if image.compressed > bound:
        raise Fault(f"{image.name} has {image.compressed:,} bytes compressed, over its bound of {bound:,}")
    if image.user != USER:
        raise Fault(f"{image.name} runs as {image.user or 'root'}, not as {USER}")
    shells = sorted(path for path in image.paths if path.rpartition("/")[2] in SHELLS and "bin/" in path)
    if shells:
        raise Fault(f"{image.name} has a shell: {shells[0]}")


def file_artefact(path: Path) -> Artefact:
    """Artefact for a file, with the digest of its content. Raises OSError."""
    content = path.read_bytes()
    return Artefact(path.name, len(content), hashlib.sha256(content).hexdigest())


def table(artefacts: Sequence[Artefact]) -> str:
    """Markdown table of a release's artefacts, by name."""
    rows = [f"| `{each.name}` | {each.size:,} | `{each.digest}` |" for each in sorted(artefacts, key=lambda a: a.name)]
    return "\n".join(["| artefact | bytes | SHA-256 |", "|---|--:|---|", *rows]) + "\n"
