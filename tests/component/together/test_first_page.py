"""The installation page where operator and gateway run outside of a cluster: its commands, run unchanged."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from commands import program_in
from controlplane import REPOSITORY, PlaneFactory
from helmworld import program
from page_reader import Reader, sections
from waiting import until

pytestmark = pytest.mark.timeout(300)


def test_operator_and_gateway_beside_a_cluster_serve_what_is_declared(
    private_plane: PlaneFactory, tmp_path: Path
) -> None:
    plane = private_plane(controllers=False, crds=False)
    binaries = tmp_path / ".venv" / "bin"
    binaries.mkdir(parents=True)
    # the page's packages are installed here, so pip only checks that nothing is missing
    program_in(binaries)
    for name, words in (("python", ""), ("pip", " -m pip check --")):
        (binaries / name).write_text(f'#!/bin/sh\nexec "{sys.executable}"{words} "$@"\n')
        (binaries / name).chmod(0o755)
    install, declare = sections(REPOSITORY / "docs" / "install" / "cluster.md")["Without installing anything in it"]
    assert declare.splitlines()[-1] == ".venv/bin/fairlead call chandler__get_stock item=rope"
    start, ask = declare.split("kubectl get mcps\n")
    environment = {
        "KUBECONFIG": str(plane.kubeconfig),
        "PATH": f"{program('kubectl').parent}:{os.environ['PATH']}",
        "FAIRLEAD_PORT": "8080",
        "FAIRLEAD_METRICS_PORT": "9464",
        "FAIRLEAD_URL": "http://127.0.0.1:8080/mcp",
    }
    with Reader(tmp_path, environment, 8080, 9464, 9465, 9000) as reader:
        reader.follow(install, listening={"fairlead operator": 9465, "fairlead gateway": 8080})
        reader.follow(start, listening={"demo": 9000})
        ready = "jsonpath={.status.conditions[?(@.type=='Ready')].status}"
        until("Ready", lambda: plane.kubectl("get", "mcps", "chandler", "-o", ready).stdout == "True", seconds=90)
        printed = reader.follow("kubectl get mcps\n" + ask)
    assert printed.splitlines()[0].split() == ["NAME", "TRANSPORT", "TOOLS", "READY", "REASON", "CONFLICTED", "AGE"]
    assert "chandler__get_stock" in printed
    assert '"item": "rope"' in printed
