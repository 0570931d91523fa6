"""The images: small, without root, complete, and nothing in them that only a build needs."""

from __future__ import annotations

import os
import signal
import tomllib
import urllib.request
from pathlib import Path

import pytest

from controlplane import REPOSITORY
from ports import free_port
from unpacked_images import Image, build, buildable, in_pod, is_static, locked, read
from waiting import until

pytestmark = [pytest.mark.network, pytest.mark.timeout(900)]

MEGABYTE = 1_000_000
BUILD_TOOLS = {f"{place}/{name}" for place in ("bin", "usr/bin", "usr/local/bin", "opt/fairlead/bin")
               for name in ("gcc", "cc", "g++", "make", "ld", "git", "uv", "cargo", "hatchling")}  # fmt: skip
IMPORT_ALL = """
import importlib, pkgutil, sys
failed = []
for name in ("fairlead_api", "fairlead_mcp", "fairlead_kube", "fairlead_operator", "fairlead_gateway"):
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(package.__path__, name + "."):
        if not module.name.endswith("__main__"):
            try:
                importlib.import_module(module.name)
            except ImportError as error:
                failed.append(f"{module.name}: {error}")
sys.exit("; ".join(failed) or 0)
"""


def _needs(reason: str | None) -> None:
    if reason is not None:
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """Built once for all processes that run tests beside each other."""
    _needs(buildable())
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "fairlead-image"
    with locked(folder):
        if not (folder / "manifest.json").exists():
            build("fairlead", folder)
    return read(folder)


@pytest.fixture(scope="module")
def root(image: Image) -> Path:
    """Its files."""
    _needs(None if os.geteuid() == 0 else "root is needed to run the files of an image as a pod does")
    with locked(image.folder):
        return image.unpack()


def test_it_adds_less_than_150_mb_to_its_base(image: Image) -> None:
    own = [layer for layer in image.layers if "/opt/fairlead" in layer.made_by or "busybox" in layer.made_by]
    assert len(own) == 2
    size = sum(layer.size for layer in own) / MEGABYTE
    assert 50 < size < 150, f"{size:.0f} MB"


def test_it_says_what_it_is_and_runs_as_nobody(image: Image) -> None:
    version = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["version"]
    assert image.config["Labels"]["org.opencontainers.image.version"] == version
    assert image.config["User"] == "65532:65532"
    assert image.config["Entrypoint"] == ["fairlead"]


def test_nothing_is_in_it_that_only_a_build_needs(image: Image) -> None:
    names = set().union(*(layer.names() for layer in image.layers))
    assert names.isdisjoint(BUILD_TOOLS)
    assert not any(name.startswith(("src/", "root/.cache/")) for name in names)
    assert not any("/tests/" in name and "/fairlead_" in name for name in names)


def test_its_busybox_needs_no_library(root: Path) -> None:
    assert is_static(root / "usr" / "bin" / "busybox")


def test_every_module_can_be_imported(image: Image, root: Path) -> None:
    with in_pod(image, root, "python", "-c", IMPORT_ALL) as process:
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
    with in_pod(image, root, "python", "-m", "fairlead_gateway", **environment) as process:

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


def test_a_root_that_is_written_to_would_have_been_noticed(image: Image, root: Path) -> None:
    with in_pod(image, root, "sh", "-c", "touch /srv/x; touch /tmp/x && echo written") as process:
        told, complaint = process.communicate(timeout=30)
    assert told == "written\n"
    assert "/srv/x" in complaint
