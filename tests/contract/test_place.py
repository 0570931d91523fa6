"""The project's public URL is in one file, from which packages and chart take it. No other URL is made up."""

from __future__ import annotations

import email
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from zipfile import ZipFile

import yaml

ROOT = Path(__file__).resolve().parents[2]
PLACE = ROOT / "hack" / "place.env"


def place_values() -> dict[str, str]:
    lines = [line for line in PLACE.read_text().splitlines() if not line.startswith("#")]
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


README = "![A picture](docs/a.svg) of [a page](docs/b.md#part), [one elsewhere](https://example.com/c) and [here](#d)\n"


def metadata_of_a_wheel(folder: Path, variables: str) -> tuple[list[str], str]:
    """`Project-URL` and description of a wheel with one empty package, built with the project's hook."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    hook = project["tool"]["hatch"]["metadata"]["hooks"]["custom"]["path"]
    (folder / "hack").mkdir()
    shutil.copy(ROOT / hook, folder / hook)
    (folder / "hack" / "place.env").write_text(variables)
    (folder / "empty.py").write_text("")
    (folder / "README.md").write_text(README)
    (folder / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
        '[project]\nname = "empty"\nversion = "1"\ndynamic = ["readme", "urls"]\n'
        f'[tool.hatch.metadata.hooks.custom]\npath = "{hook}"\n'
        '[tool.hatch.build.targets.wheel]\nonly-include = ["empty.py"]\n'
    )
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel"], cwd=folder, check=True, timeout=50)
    (wheel,) = (folder / "dist").glob("*.whl")
    metadata = email.message_from_bytes(ZipFile(wheel).read("empty-1.dist-info/METADATA"))
    return metadata.get_all("Project-URL") or [], str(metadata.get_payload())


def test_a_wheel_names_the_place_that_the_file_states(tmp_path: Path) -> None:
    variables = (
        "# a page\nFAIRLEAD_REPOSITORY_URL=https://host.example/us/fairlead\nFAIRLEAD_SITE_URL=https://docs.example/\n"
    )
    urls, page = metadata_of_a_wheel(tmp_path, variables)
    assert urls == [
        "Documentation, https://docs.example/",
        "Source, https://host.example/us/fairlead",
        "Issues, https://host.example/us/fairlead/issues",
        "Changelog, https://host.example/us/fairlead/blob/main/CHANGELOG.md",
    ]
    assert page == (
        "![A picture](https://host.example/us/fairlead/raw/v1/docs/a.svg) of "
        "[a page](https://host.example/us/fairlead/blob/v1/docs/b.md#part), "
        "[one elsewhere](https://example.com/c) and [here](#d)\n"
    )


def test_without_a_place_a_wheel_has_no_urls(tmp_path: Path) -> None:
    assert metadata_of_a_wheel(tmp_path, "FAIRLEAD_REPOSITORY_URL=\nFAIRLEAD_SITE_URL=\n") == ([], README)


def test_no_second_file_states_the_place() -> None:
    assert place_values().keys() == {"FAIRLEAD_REPOSITORY_URL", "FAIRLEAD_SITE_URL", "FAIRLEAD_REGISTRY"}
    for value in filter(None, place_values().values()):
        holding = subprocess.run(
            ["git", "grep", "-lF", value.rstrip("/")], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert holding.stdout.split() == ["hack/place.env"]
    assert "urls" not in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert not {"home", "sources", "icon"} & yaml.safe_load((ROOT / "charts/fairlead/Chart.yaml").read_text()).keys()
