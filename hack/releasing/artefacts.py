"""Artefacts of a release, judged by what is in them, and the table that lists them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from releasing.faults import Fault

NOT_IN_WHEELS: Final = (".md", ".svg", ".rst", ".pyx", ".c")
"""Ends of names of files that a wheel has no use for, but where they are data: in `static`, and of servers."""
IMAGE_BOUND: Final = 60_000_000
"""Bytes of the compressed layers of the image `fairlead`."""
USER: Final = "65532:65532"
SHELLS: Final = frozenset({"sh", "bash", "dash", "busybox", "ash", "zsh"})


_SERVED: Final = re.compile(r"\.dist-info/|/static/|^fairlead_servers/")


@dataclass(frozen=True)
class Artefact:
    """One file or image of a release."""

    name: str
    size: int
    """Bytes; of an image, those of its compressed layers."""
    digest: str
    """SHA-256 in hexadecimal digits; of an image, that of its manifest."""


@dataclass(frozen=True)
class ImageFacts:
    """Size, user and files of an image, as its archive holds them."""

    name: str
    compressed: int
    """Bytes of all its layers, as a registry has them."""
    user: str
    paths: frozenset[str]
    """Files of all its layers, without a slash in front."""


def unwanted(names: Iterable[str]) -> list[str]:
    """Files of a wheel that no wheel should have; those of `.dist-info` are metadata."""
    return sorted(name for name in names if name.endswith(NOT_IN_WHEELS) and not _SERVED.search(name))


def check_image(image: ImageFacts, bound: int = IMAGE_BOUND) -> None:
    """Raises Fault when an image is too large, runs as another user than 65532, or has a shell."""
    if image.compressed > bound:
        raise Fault(f"{image.name} has {image.compressed:,} bytes compressed, over its bound of {bound:,}")
    if image.user != USER:
        raise Fault(f"{image.name} runs as {image.user or 'root'}, not as {USER}")
    shells = sorted(path for path in image.paths if path.rpartition("/")[2] in SHELLS and "bin/" in path)
    if shells:
        raise Fault(f"{image.name} has a shell: {shells[0]}")


def file_artefact(path: Path) -> Artefact:
    """A file, by its content. Raises OSError."""
    content = path.read_bytes()
    return Artefact(path.name, len(content), hashlib.sha256(content).hexdigest())


def table(artefacts: Sequence[Artefact]) -> str:
    """Markdown table of a release's artefacts, by name."""
    rows = [f"| `{each.name}` | {each.size:,} | `{each.digest}` |" for each in sorted(artefacts, key=lambda a: a.name)]
    return "\n".join(["| artefact | bytes | SHA-256 |", "|---|--:|---|", *rows]) + "\n"
