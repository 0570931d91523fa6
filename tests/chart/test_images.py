"""The images are small and complete, have no root user, shell or build tools.

The tests build images with hack/images, and examine layers, configuration and unpacked files, which they run.
"""

from __future__ import annotations

import fcntl
import io
import json
import os
import shutil
import signal
import struct
import subprocess
import tarfile
import tomllib
import urllib.request
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from controlplane import REPOSITORY
from ports import free_port
from waiting import until

PT_INTERP = 3
OPAQUE = ".wh..wh..opq"
"""File in a folder of a layer that hides all that lower layers have in the folder."""
BUILD_S = 1_800
"""Limit in seconds for the build of an image. The build compiles the modules of a call to C, and other tests may use
the CPU meanwhile.
"""


@dataclass(frozen=True)
class Layer:
    """A layer: the command that created it, and its tar file."""

    made_by: str
    tar: Path

    @property
    def size(self) -> int:
        """Uncompressed size in bytes."""
        return self.tar.stat().st_size

    @property
    def compressed(self) -> int:
        """Compressed size in bytes as in a registry, without gzip's header."""
        return len(zlib.compress(self.tar.read_bytes(), 6))

    def names(self) -> set[str]:
        """Paths of the added files, without leading slash."""
        with tarfile.open(self.tar) as tar:
            return {member.name.removeprefix("./") for member in tar}

    def hidden_paths(self, root: Path) -> Iterator[Path]:
        """Paths in `root`, with the layers below, that this layer hides (OCI image specification, "Whiteouts")."""
        for whiteout in [root / name for name in self.names() if Path(name).name.startswith(".wh.")]:
            if whiteout.name == OPAQUE:
                yield from [*whiteout.parent.iterdir()] if whiteout.parent.is_dir() else []
            else:
                yield whiteout.with_name(whiteout.name.removeprefix(".wh."))


@dataclass(frozen=True)
class Image:
    """An image in a docker-archive that is unpacked in `folder`."""

    folder: Path
    config: dict[str, Any]
    layers: list[Layer]

    def unpack(self) -> Path:
        """Unpack all layers in order into a folder."""
        root = self.folder / "root"
        if root.exists():
            return root
        for layer in self.layers:
            root.mkdir(exist_ok=True)
            for gone in layer.hidden_paths(root):
                is_folder = gone.is_dir() and not gone.is_symlink()
                shutil.rmtree(gone) if is_folder else gone.unlink(missing_ok=True)
            subprocess.run(["tar", "-xf", layer.tar, "-C", root, "--exclude=.wh.*"], check=True, timeout=120)
        return root


def why_not_buildable() -> str | None:
    """Why images cannot be built on this machine; None if they can."""
    can_install_buildah = os.geteuid() == 0 and shutil.which("apt-get")
    docker = subprocess.run(["sh", "-c", "docker info"], capture_output=True).returncode == 0
    if docker or shutil.which("buildah") or can_install_buildah:
        return None
    return "neither a Docker daemon nor buildah is here: no image can be built"


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Context that only one process at a time can enter."""
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def build(name: str, folder: Path) -> None:
    """Build an image, and unpack its docker-archive into `folder`."""
    command = [str(REPOSITORY / "hack" / "images"), "--tag", "test", "--archive", str(folder), name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_S)
    assert done.returncode == 0, done.stderr[-4000:]
    archive = folder / f"{name}.tar"
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="fully_trusted")
    archive.unlink()


def read(folder: Path) -> Image:
    """Read the image that `build` wrote to a folder."""
    (manifest,) = json.loads((folder / "manifest.json").read_text())
    whole = json.loads((folder / manifest["Config"]).read_text())
    made_by = [step.get("created_by", "") for step in whole["history"] if not step.get("empty_layer")]
    layers = [Layer(by, folder / path) for by, path in zip(made_by, manifest["Layers"], strict=True)]
    return Image(folder, whole["config"], layers)


def is_static(program: Path) -> bool:
    """Whether a 64-bit ELF program is static, so that it needs no loader."""
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
    """Run `command` as in a restricted pod: with the image's user, a read-only root, and /dev and /tmp from the
    runtime. It uses this machine's network, its output is piped, and it is ended afterwards.
    """
    script = (
        'mkdir -p "$0/dev" && mount --bind "$0" "$0" && mount -t tmpfs -o mode=1777 none "$0/tmp" &&'
        ' mount --bind /dev "$0/dev" && mount -o remount,ro,bind "$0" && exec env -i "$@"'
    )
    variables = [*image.config["Env"], *(f"{name}={value}" for name, value in environment.items())]
    chroot = shutil.which("chroot", path="/usr/sbin:/usr/bin")  # the image need not have this program
    assert chroot is not None
    process = subprocess.Popen(
        [
            "unshare",
            "--mount",
            "bash",
            "-c",
            script,
            str(root),
            *variables,
            chroot,
            f"--userspec={image.config['User']}",
            str(root),
            *command,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=20)


pytestmark = [pytest.mark.network, pytest.mark.heavy, pytest.mark.timeout(BUILD_S)]

MEGABYTE = 1_000_000
BUILD_TOOLS = {
    f"{directory}/{name}"
    for directory in ("bin", "usr/bin", "usr/local/bin", "opt/fairlead/bin")
    for name in ("gcc", "cc", "g++", "make", "ld", "git", "uv", "cargo", "hatchling")
}
IMPORT_ALL = """
import importlib, pkgutil, sys
OF_OTHER_EXTRAS = set("mcp mcp_types numpy onnxruntime tokenizers lancedb pyarrow ruamel textual uv".split())
failed = []
def look(name):
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in OF_OTHER_EXTRAS:
            failed.append(f"{name}: {error}")
        return
    for each in pkgutil.iter_modules(getattr(module, "__path__", ()), name + "."):
        if not each.name.endswith("__main__"):
            look(each.name)
for package in "api mcp formats search tools kube operator gateway rest llm console client cli".split():
    look(f"fairlead_{package}")
sys.exit("; ".join(failed) or 0)
"""
ASK_ALL = """
import subprocess, sys
from fairlead_cli.tree import tree
def fails(words):
    return subprocess.run(["fairlead", *words, "--help"], capture_output=True).returncode
sys.exit("; ".join(name for name, _ in tree().verbs() if fails(name.split())) or 0)
"""
WRITE = """
from pathlib import Path
try:
    Path("/srv/x").write_text("")
except OSError as error:
    print(error)
Path("/tmp/x").write_text("")
print("written")
"""


def _skip_or_fail(reason: str | None) -> None:
    """Skip the test for a reason, or fail it in CI; no-op without a reason."""
    if reason is not None:
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)


def _build_once(name: str, tmp_path_factory: pytest.TempPathFactory) -> Image:
    """The image, which is built once for all parallel test processes."""
    _skip_or_fail(why_not_buildable())
    process_folder = tmp_path_factory.getbasetemp()
    shared_folder = process_folder.parent if "PYTEST_XDIST_WORKER" in os.environ else process_folder
    folder = shared_folder / f"{name}-image"
    with lock_folder(folder):
        if not (folder / "manifest.json").exists():
            build(name, folder)
    return read(folder)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """The image with operator, gateway and command line."""
    return _build_once("fairlead", tmp_path_factory)


@pytest.fixture(scope="module")
def listener(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """The image with the listener for pods of stdio servers."""
    return _build_once("fairlead-listener", tmp_path_factory)


@pytest.fixture(scope="module")
def root(image: Image) -> Path:
    """Folder with the image's files."""
    _skip_or_fail(None if os.geteuid() == 0 else "root is needed to run the files of an image as a pod does")
    with lock_folder(image.folder):
        return image.unpack()


def layer(file: Path, *paths: str) -> Layer:
    """A layer with empty files at these paths."""
    with tarfile.open(file, "w") as tar:
        for path in paths:
            tar.addfile(tarfile.TarInfo(path))
    return Layer("", file)


def test_unpacked_images_lack_what_a_higher_layer_hides(tmp_path: Path) -> None:
    lower = layer(tmp_path / "1.tar", "a/kept", "a/gone", "b/old", "b/c/old", "d/old")
    upper = layer(tmp_path / "2.tar", "a/.wh.gone", f"b/{OPAQUE}", "b/new", f"e/{OPAQUE}", ".wh.d", "a/.wh.never")
    root = Image(tmp_path, {}, [lower, upper]).unpack()
    assert sorted(str(path.relative_to(root)) for path in root.rglob("*")) == ["a", "a/kept", "b", "b/new"]


def test_the_image_is_small_and_has_a_single_layer(image: Image) -> None:
    (layer,) = image.layers
    assert 40 < layer.compressed / MEGABYTE < 64
    assert layer.size / MEGABYTE < 220


def test_the_image_has_labels_and_runs_as_an_unprivileged_user(image: Image) -> None:
    version = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["version"]
    assert image.config["Labels"]["org.opencontainers.image.version"] == version
    assert image.config["User"] == "65532:65532"
    assert image.config["Entrypoint"] == ["fairlead"]


def test_the_image_holds_no_build_tools(image: Image) -> None:
    names = set().union(*(layer.names() for layer in image.layers))
    assert names.isdisjoint(BUILD_TOOLS)
    assert not any(name.startswith(("src/", "root/.cache/")) for name in names)
    assert not any("/tests/" in name and "/fairlead_" in name for name in names)


def test_the_image_has_no_shell(image: Image) -> None:
    (layer,) = image.layers
    programs = {name for name in layer.names() if "bin/" in name and not name.startswith("opt/fairlead/")}
    assert {Path(name).name for name in programs} <= {"", "python3", "python3.13", "python"}


def test_the_image_of_stdio_servers_is_a_static_busybox(listener: Image) -> None:
    root = listener.unpack()
    assert [path for path in root.rglob("*") if path.is_file()] == [root / "bin" / "busybox"]
    assert is_static(root / "bin" / "busybox")
    assert listener.config["User"] == "65532:65532"


@pytest.mark.parametrize("program", [IMPORT_ALL, ASK_ALL], ids=["modules", "verbs"])
def test_every_module_can_be_imported_and_every_verb_explains_itself(image: Image, root: Path, program: str) -> None:
    with in_pod(image, root, "python", "-c", program) as process:
        _, complaint = process.communicate(timeout=120)
        assert process.returncode == 0, complaint


def test_a_gateway_runs_without_root_on_a_root_that_it_cannot_write(image: Image, root: Path) -> None:
    port = free_port()
    (root / "srv" / "documents").mkdir(parents=True, exist_ok=True)
    settings = {
        "DOCUMENTS": "/srv/documents",
        "PORT": str(port),
        "METRICS_PORT": str(free_port()),
        "LOG_LEVEL": "DEBUG",
    }
    environment = {f"FAIRLEAD_{name}": value for name, value in settings.items()}
    with in_pod(image, root, "python", "-m", "fairlead_app", **environment) as process:

        def alive() -> bool:
            assert process.poll() is None, process.stderr and process.stderr.read()
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5) as answer:
                    return bool(answer.status == 200)
            except OSError:
                return False

        until("an answer", alive, seconds=60)
        status = Path(f"/proc/{process.pid}/status").read_text()
        assert "Uid:\t65532\t65532\t65532\t65532" in status
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def test_an_operator_says_what_it_lacks(image: Image, root: Path) -> None:
    with in_pod(image, root, "python", "-m", "fairlead_operator") as process:
        _, complaint = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "no cluster to connect to" in complaint


def test_in_pod_has_a_read_only_root_and_a_writable_tmp(image: Image, root: Path) -> None:
    (root / "srv").mkdir(exist_ok=True)
    with in_pod(image, root, "python", "-c", WRITE) as process:
        told, complaint = process.communicate(timeout=30)
    assert "Read-only file system: '/srv/x'" in told, complaint
    assert told.endswith("written\n")
