"""Packages of an installation on a laptop, which has neither Kopf nor the Kubernetes client."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from fairlead_api.extras import install_command
from gatewayprocess import started
from upprocess import DEMO, fairlead_up

LEFT_OUT = ("kopf", "kubernetes")


@pytest.fixture
def lean(tmp_path: Path) -> str:
    """A `PYTHONPATH` with which packages that a laptop lacks cannot be imported."""
    folder = tmp_path / "lacking"
    folder.mkdir()
    for name in LEFT_OUT:
        (folder / f"{name}.py").write_text(f"raise ModuleNotFoundError('missing', name={name!r})\n")
    return f"{folder}:{os.environ.get('PYTHONPATH', '')}"


async def test_fairlead_up_serves_without_kopf_and_the_kubernetes_client(tmp_path: Path, lean: str) -> None:
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"demo": {"command": DEMO[0], "args": DEMO[1:]}}}))
    async with fairlead_up("mcp.json", cwd=tmp_path, env={"PYTHONPATH": lean}) as up:
        await up.ready("default/demo")


async def test_a_gateway_of_a_cluster_says_what_it_lacks(lean: str) -> None:
    async with started(PYTHONPATH=lean) as gateway:
        _, error = await gateway.process.communicate()
    last = error.decode().splitlines()[-1]
    assert install_command("gateway") in last
    assert gateway.process.returncode == 1
