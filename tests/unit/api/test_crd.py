"""The command that generates the CRDs."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead_api import crd


def test_crd_files_are_written_once_and_then_current(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert crd.main([str(tmp_path)]) == 0
    assert {Path(line).name for line in capsys.readouterr().out.split()} == set(crd.crd_files())

    assert crd.main([str(tmp_path)]) == 0
    assert crd.main(["--check", str(tmp_path)]) == 0
    assert capsys.readouterr().out == ""


def test_a_check_names_what_is_out_of_date_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    crd.main([str(tmp_path)])
    stale = tmp_path / "fairlead.dev_mcpservers.yaml"
    stale.write_text("edited by hand")
    (tmp_path / "fairlead.dev_latencytiers.yaml").unlink()
    capsys.readouterr()

    assert crd.main(["--check", str(tmp_path)]) == 1

    assert [line.partition(" is ")[0] for line in capsys.readouterr().err.splitlines()] == [
        str(stale),
        str(tmp_path / "fairlead.dev_latencytiers.yaml"),
    ]
    assert stale.read_text() == "edited by hand"


def test_wrong_use_of_the_crds_command_ends_with_2() -> None:
    with pytest.raises(SystemExit) as caught:
        crd.main([])

    assert caught.value.code == 2


def test_each_caller_gets_manifests_of_its_own() -> None:
    first = crd.crd_manifests()
    first[0]["metadata"]["name"] = "changed"

    assert crd.crd_manifests()[0]["metadata"]["name"] == "mcpservers.fairlead.dev"
