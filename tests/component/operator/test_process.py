"""The operator as a process: messages if it cannot start, probes and metrics, and its end."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controlplane import PlaneFactory
from operatorprocess import start
from operatorworld import World
from ports import free_port
from waiting import until

pytestmark = pytest.mark.timeout(240)
STARTING = 90.0
"""Maximum seconds in which an interpreter loads an operator on a busy machine."""


def run_refused(**environment: str) -> tuple[int, str]:
    """Exit code and output of a process that cannot start."""
    process = start(**environment)
    out, err = process.communicate(timeout=STARTING)
    assert "Traceback" not in err, err
    return process.returncode, out + err


@contextlib.contextmanager
def start_operator(world: World, **environment: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process with the API server, and the base URL of its probes."""
    port = free_port()
    process = start(
        FAIRLEAD_KUBECONFIG=str(world.plane.kubeconfig),
        FAIRLEAD_NAMESPACE=world.release,
        FAIRLEAD_METRICS_PORT=str(port),
        **environment,
    )
    try:
        yield process, f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.communicate()


def fetch(url: str) -> str:
    """Body at a URL; empty while nothing answers."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return str(answer.read().decode())
    except (urllib.error.URLError, OSError):
        return ""


def test_without_a_cluster_it_says_what_to_set_and_ends_with_1() -> None:
    code, error = run_refused()
    assert code == 1
    assert error.startswith("fairlead operator: no cluster to connect to: set KUBECONFIG")


def test_a_kubeconfig_that_is_not_there_is_named(tmp_path: Path) -> None:
    code, error = run_refused(KUBECONFIG=str(tmp_path / "none"))
    assert code == 1
    assert str(tmp_path / "none") in error


def test_an_api_server_that_cannot_be_reached_is_named(world: World, tmp_path: Path) -> None:
    text = world.plane.kubeconfig.read_text()
    path = tmp_path / "kubeconfig"
    path.write_text(re.sub(r"https://127.0.0.1:\d+", f"https://127.0.0.1:{free_port()}", text))
    code, error = run_refused(KUBECONFIG=str(path))
    assert code == 1
    assert "cannot be reached" in error
    assert error.count("\n") == 1


def test_an_operator_without_the_crds_says_how_to_install_them(private_plane: PlaneFactory) -> None:
    plane = private_plane(crds=False)
    code, error = run_refused(KUBECONFIG=str(plane.kubeconfig))
    assert code == 1
    assert "fairlead crds | kubectl apply" in error
    assert error.count("\n") == 1


def test_a_port_that_is_taken_is_named(world: World) -> None:
    with start_operator(world) as (process, url):
        until("healthy", lambda: fetch(f"{url}/healthz"), seconds=STARTING)
        assert process.poll() is None
        port = url.rsplit(":", 1)[1]
        code, error = run_refused(KUBECONFIG=str(world.plane.kubeconfig), FAIRLEAD_METRICS_PORT=port)
    assert code == 1
    assert f"127.0.0.1:{port}" in error
    assert "FAIRLEAD_METRICS_PORT" in error


def test_a_setting_that_makes_no_sense_is_a_wrong_use() -> None:
    code, error = run_refused(FAIRLEAD_WORKERS="many")
    assert code == 2
    assert "FAIRLEAD_WORKERS is 'many'; it takes a whole number" in error
    code, error = run_refused(FAIRLEAD_DENIED_NETWORKS="banana")
    assert code == 2
    assert "FAIRLEAD_DENIED_NETWORKS is 'banana'; it takes networks, such as 10.96.0.0/12" in error


def test_the_operator_leads_shows_metrics_and_releases_the_lease_on_sigterm(world: World) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{world.release}/leases/fairlead-operator"
    with start_operator(world, FAIRLEAD_LOG_FORMAT="json") as (process, url):
        until("leading", lambda: fetch(f"{url}/readyz") == "leading\n", seconds=STARTING)
        lease: Any = world.get(path)
        assert lease["spec"]["holderIdentity"]
        until("metrics", lambda: "fairlead_operator_leader 1.0" in fetch(f"{url}/metrics"))
        process.send_signal(signal.SIGTERM)
        _, output = process.communicate(timeout=STARTING)
        assert process.returncode == 0, output
    assert "Traceback" not in output
    assert all(line.startswith("{") for line in output.splitlines()), output
    lease = world.get(path)
    assert lease["spec"]["holderIdentity"] == ""
