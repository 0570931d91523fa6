"""Messages about files that are not YAML name the mistake and quote nothing of the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead_api.bad_setting import BadSetting
from fairlead_api.yaml_files import read_yaml
from fairlead_kube.connection import NoCluster, load_configuration

BROKEN = "users: [{token: hush-1}\nname: hush-2: ["


def test_a_file_of_a_setting_that_is_not_yaml_is_refused_without_a_line_of_it(tmp_path: Path) -> None:
    file = tmp_path / "routes.yaml"
    file.write_text(BROKEN)
    with pytest.raises(BadSetting, match=r"is not valid YAML: expected .*, line 2, column ") as refused:
        read_yaml(file, "the routes")
    assert "hush" not in str(refused.value)


async def test_a_kubeconfig_that_is_not_yaml_is_refused_without_a_line_of_it(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(BROKEN)
    with pytest.raises(
        NoCluster, match=r"cannot be used to connect to a cluster: expected .*, line 2, column "
    ) as refused:
        await load_configuration(file)
    assert "hush" not in str(refused.value)
