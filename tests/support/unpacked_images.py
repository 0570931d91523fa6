"""An image as hack/images builds it, taken apart: its layers, its configuration, and its files unpacked to be run."""

from __future__ import annotations

import fcntl
import io
import json
import os
import shutil
import struct
import subprocess
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controlplane import REPOSITORY

PT_INTERP = 3


@dataclass(frozen=True)
class Layer:
    """One layer: what made it, and its tar."""

    made_by: str
    tar: Path

    @property
    def size(self) -> int:
        """Bytes, not compressed."""
        return self.tar.stat().st_size

    @property
    def compressed(self) -> int:
        """Bytes as a registry has them, with gzip but for its header."""
        return len(zlib.compress(self.tar.read_bytes(), 6))

    def names(self) -> set[str]:
        """Paths of what it adds, without a slash in front."""
        with tarfile.open(self.tar) as tar:
            return {member.name.removeprefix("./") for member in tar}


@dataclass(frozen=True)
class Image:
    """An image of a docker-archive, in `folder`."""

    folder: Path
    config: dict[str, Any]
    layers: list[Layer]

    def unpack(self) -> Path:
        """All layers on top of each other, in a folder."""
        root = self.folder / "root"
        if root.exists():
            return root
        for layer in self.layers:
            root.mkdir(exist_ok=True)
            subprocess.run(["tar", "-xf", layer.tar, "-C", root], check=True, timeout=120)
            for white in list(root.rglob(".wh.*")):
                gone = white.with_name(white.name.removeprefix(".wh."))
                shutil.rmtree(gone, ignore_errors=True) if gone.is_dir() else gone.unlink(missing_ok=True)
                white.unlink()
        return root


def buildable() -> str | None:
    """Why no image can be built here; None when one can."""
    to_be_had = os.geteuid() == 0 and shutil.which("apt-get")
    docker = subprocess.run(["sh", "-c", "docker info"], capture_output=True).returncode == 0
    if docker or shutil.which("buildah") or to_be_had:
        return None
    return "neither a Docker daemon nor buildah is here: no image can be built"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One process at a time."""
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def build(name: str, folder: Path) -> None:
    """Build one of the images, and take its archive apart."""
    command = [str(REPOSITORY / "hack" / "images"), "--tag", "test", "--archive", str(folder), name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-4000:]
    archive = folder / f"{name}.tar"
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="fully_trusted")
    archive.unlink()


def read(folder: Path) -> Image:
    """Image that `build` left in a folder."""
    (manifest,) = json.loads((folder / "manifest.json").read_text())
    whole = json.loads((folder / manifest["Config"]).read_text())
    made_by = [step.get("created_by", "") for step in whole["history"] if not step.get("empty_layer")]
    layers = [Layer(by, folder / path) for by, path in zip(made_by, manifest["Layers"], strict=True)]
    return Image(folder, whole["config"], layers)


def is_static(program: Path) -> bool:
    """Whether an ELF program of 64 bits asks for no loader."""
    data = io.BytesIO(program.read_bytes())
    data.seek(32)
    (offset,) = struct.unpack("<Q", data.read(8))
    data.seek(54)
    size, count = struct.unpack("<HH", data.read(4))
    kinds = []
    for number in range(count):
        data.seek(offset + number * size)
        kinds.append(struct.unpack("<I", data.read(4))[0])
    return PT_INTERP not in kinds


@contextmanager
def in_pod(image: Image, root: Path, *command: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """`command` as a restricted pod runs it: the image's user, a root that is read-only, a /dev and a /tmp that the
    runtime makes; ended afterwards.

    On the network of this machine. Output is piped.
    """
    script = (
        'mkdir -p "$0/dev" && mount --bind "$0" "$0" && mount -t tmpfs -o mode=1777 none "$0/tmp" &&'
        ' mount --bind /dev "$0/dev" && mount -o remount,ro,bind "$0" && exec env -i "$@"'
    )
    variables = [*image.config["Env"], *(f"{name}={value}" for name, value in environment.items())]
    chroot = shutil.which(
        "chroot", path="/usr/sbin:/usr/bin"
    )  # the root itself need not have one, nor any other program
    assert chroot is not None
    process = subprocess.Popen(
        ["unshare", "--mount", "bash", "-c", script, str(root), *variables,
         chroot, f"--userspec={image.config['User']}", str(root), *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=20)
