"""An installation of the last release is upgraded to this tree, while its servers stay ready."""

from __future__ import annotations

import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster_questions import ready
from installation import CHART, IMAGES, NAMESPACE, RELEASE, REPOSITORY, kubectl, load_images, program, run
from releasing.versions import newest
from waiting import until

pytestmark = pytest.mark.timeout(1800, func_only=True)

TAGS = subprocess.run(["git", "tag", "--merged", "HEAD"], cwd=REPOSITORY, capture_output=True, text=True, check=False)
LAST = newest(TAGS.stdout.split())
OLD = "e2e-last-release"
OPTIONS = ("--create-namespace", "--wait", "--timeout", "240s", "--set", "gateway.settings.anonymous=allow")
ALWAYS = ("--set", "image.pullPolicy=Never", "--set", "crds.keep=false", "--set", "samples.demo=true")


@pytest.fixture
def last_release(tmp_path: Path) -> Iterator[Path]:
    """Tree of the last release, with its images in the nodes' stores. Its installation is removed at the end."""
    assert LAST is not None
    run("git", "archive", "-o", tmp_path / "tree.tar", LAST.tag)
    with tarfile.open(tmp_path / "tree.tar") as tar:
        tar.extractall(tmp_path / "tree", filter="data")
    names = ("fairlead", "fairlead-listener", "fairlead-demo")
    values = tmp_path / "images.yaml"
    run(tmp_path / "tree/hack/images", "--tag", OLD, "--values", values, "--load", *names, seconds=1800)
    yield tmp_path
    run(program("helm"), "uninstall", RELEASE, "--namespace", NAMESPACE, "--wait", "--ignore-not-found")


@pytest.mark.e2e
@pytest.mark.skipif(LAST is None, reason="no tag of a release leads here: there is nothing to upgrade from")
def test_servers_of_the_last_release_stay_ready_through_an_upgrade(last_release: Path) -> None:
    load_images("fairlead", "fairlead-listener", "fairlead-demo")
    helm = (program("helm"), "upgrade", "--install", RELEASE)
    old = last_release / "tree/charts/fairlead"
    images = ("--values", last_release / "images.yaml")
    first = ("--set", "image.pullPolicy=Never", "--set", "crds.keep=false")
    run(*helm, old, "--namespace", NAMESPACE, *OPTIONS, *images, *first)
    run(*helm, old, "--namespace", NAMESPACE, *OPTIONS, *images, *ALWAYS)
    until("Ready before", lambda: ready(NAMESPACE, "chandler") == "True", seconds=120)
    before = kubectl("get", "mcps", "-n", NAMESPACE, "-o", "jsonpath={.items[*].metadata.uid}")

    run(*helm, CHART, "--namespace", NAMESPACE, *OPTIONS, "--values", IMAGES, *ALWAYS)

    until("Ready after", lambda: ready(NAMESPACE, "chandler") == "True", seconds=120)
    assert kubectl("get", "mcps", "-n", NAMESPACE, "-o", "jsonpath={.items[*].metadata.uid}") == before
