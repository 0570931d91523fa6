"""The images: small, without root or a shell, complete, and nothing in them that only a build needs."""

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

pytestmark = [pytest.mark.network, pytest.mark.heavy, pytest.mark.timeout(900)]

MEGABYTE = 1_000_000
BUILD_TOOLS = {f"{place}/{name}" for place in ("bin", "usr/bin", "usr/local/bin", "opt/fairlead/bin")
               for name in ("gcc", "cc", "g++", "make", "ld", "git", "uv", "cargo", "hatchling")}  # fmt: skip
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


def _needs(reason: str | None) -> None:
    if reason is not None:
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)


def _built(name: str, tmp_path_factory: pytest.TempPathFactory) -> Image:
    """Built once for all processes that run tests beside each other."""
    _needs(buildable())
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / f"{name}-image"
    with locked(folder):
        if not (folder / "manifest.json").exists():
            build(name, folder)
    return read(folder)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """Operator, gateway and command line."""
    return _built("fairlead", tmp_path_factory)


@pytest.fixture(scope="module")
def listener(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """Busybox for pods of servers on stdio."""
    return _built("fairlead-listener", tmp_path_factory)


@pytest.fixture(scope="module")
def root(image: Image) -> Path:
    """Its files."""
    _needs(None if os.geteuid() == 0 else "root is needed to run the files of an image as a pod does")
    with locked(image.folder):
        return image.unpack()


def test_it_is_small_and_stands_on_nothing(image: Image) -> None:
    (layer,) = image.layers
    assert 40 < layer.compressed / MEGABYTE < 62
    assert layer.size / MEGABYTE < 220


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


def test_no_shell_is_in_it(image: Image) -> None:
    (layer,) = image.layers
    programs = {name for name in layer.names() if "bin/" in name and not name.startswith("opt/fairlead/")}
    assert {Path(name).name for name in programs} <= {"", "python3", "python3.13", "python"}


def test_that_of_stdio_servers_is_a_busybox_without_a_library(listener: Image) -> None:
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


def test_a_root_that_is_written_to_would_have_been_noticed(image: Image, root: Path) -> None:
    (root / "srv").mkdir(exist_ok=True)
    with in_pod(image, root, "python", "-c", WRITE) as process:
        told, complaint = process.communicate(timeout=30)
    assert "Read-only file system: '/srv/x'" in told, complaint
    assert told.endswith("written\n")
