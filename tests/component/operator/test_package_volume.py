"""The volume of a `package` server after an installation, and the containers that use it, without a package
registry."""

from __future__ import annotations

import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from fairlead_operator.local import runner
from neededprograms import needs

PACKAGE = ["pypi", "demo-server", "1.0"]
FILES = {
    "demo_server.py": "def main():\n    print('at your service')\n",
    "demo_server-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: demo-server\nVersion: 1.0\n",
    "demo_server-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "demo_server-1.0.dist-info/entry_points.txt": "[console_scripts]\ndemo-server = demo_server:main\n",
}
needs_uv = needs("uv")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only package index. When it is empty, nothing can be installed."""
    folder = tmp_path / "index"
    folder.mkdir()
    with zipfile.ZipFile(folder / "demo_server-1.0-py3-none-any.whl", "w") as wheel:
        for name, text in FILES.items():
            wheel.writestr(name, text)
        record = "demo_server-1.0.dist-info/RECORD"
        wheel.writestr(record, "".join(f"{name},,\n" for name in [*FILES, record]))
    monkeypatch.setenv("UV_NO_INDEX", "1")
    monkeypatch.setenv("UV_FIND_LINKS", str(folder))
    return folder


def run_installer(volume: Path) -> int:
    """Exit code of the container that installs the package."""
    volume.mkdir(exist_ok=True)
    return runner.main(PACKAGE, volume=volume, log=volume.parent / "termination-log")


def server_command(volume: Path) -> str:
    """Command that the server's container runs."""
    return subprocess.run([volume / "server"], capture_output=True, text=True, timeout=60, check=True).stdout.strip()


@needs_uv
def test_a_pod_that_starts_again_does_not_install_again(tmp_path: Path, index: Path) -> None:
    volume = tmp_path / "cache"
    assert run_installer(volume) == 0
    assert server_command(volume) == "at your service"
    shutil.rmtree(index)
    shutil.rmtree(volume / "uv", ignore_errors=True)
    assert run_installer(volume) == 0
    assert server_command(volume) == "at your service"


@needs_uv
def test_another_pod_has_a_volume_of_its_own_and_installs_for_itself(tmp_path: Path, index: Path) -> None:
    assert run_installer(tmp_path / "first") == 0
    assert run_installer(tmp_path / "second") == 0
    assert server_command(tmp_path / "second") == "at your service"
    shutil.rmtree(index)
    assert run_installer(tmp_path / "third") != 0
    assert "demo-server" in (tmp_path / "termination-log").read_text()


@needs_uv
def test_an_installation_that_was_cut_off_is_made_again(tmp_path: Path, index: Path) -> None:
    volume = tmp_path / "cache"
    assert run_installer(volume) == 0
    (half,) = [path.parent for path in (volume / "pypi").glob("*/pyvenv.cfg")]
    shutil.rmtree(half / "bin")
    (half / "bin").mkdir()
    (half / ".fairlead-installed").unlink()
    assert run_installer(volume) == 0
    assert server_command(volume) == "at your service"
