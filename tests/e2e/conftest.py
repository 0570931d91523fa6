"""One installation by the chart for all end-to-end tests, and a namespace for each of them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from cluster_questions import build_image, needs
from installation import DEMO, Installation, installed, installed_already, kubectl, load_images, obstacle

UNRESTRICTED = "e2e-unrestricted"


@pytest.fixture(scope="session")
def installation() -> Iterator[Installation]:
    """The installation, with images of this tree in the nodes' stores. Building them has its own time limits
    (`load_images`), and does not count towards a test's time-out (`func_only`), which would fail the first test on a
    busy machine.
    """
    needs(obstacle())
    if other := installed_already():
        pytest.fail(other, pytrace=False)
    load_images("fairlead", "fairlead-listener", "fairlead-demo")
    figures = "operator.settings.figuresSeconds=5"  # a test waits for the first exports
    with installed(f"servers.anyPodTemplatesIn={{{UNRESTRICTED}}}", figures) as release:
        yield release


@pytest.fixture(scope="session")
def gateway(installation: Installation) -> str:
    """URL of the gateways' Service for clients outside of the cluster."""
    return installation.url


@pytest.fixture(scope="session")
def image(installation: Installation) -> str:
    """The demo server as an image, in the nodes' stores."""
    return DEMO


@pytest.fixture(scope="session")
def time_image(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A published stdio server as an image in the nodes' stores."""
    return build_image(
        tmp_path_factory.mktemp("time"), "localhost/fairlead-time:e2e", "tests/e2e/images/time/Dockerfile"
    )


@pytest.fixture(scope="session")
def runner_image(installation: Installation) -> None:
    """Images that install and run packages, in the nodes' stores."""
    load_images("fairlead-runner")


@pytest.fixture
def namespace() -> Iterator[str]:
    name = f"e2e-{uuid.uuid4().hex[:8]}"
    kubectl("create", "namespace", name)
    yield name
    kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def unrestricted_namespace() -> Iterator[str]:
    """A namespace whose servers may set any field of a pod."""
    kubectl("create", "namespace", UNRESTRICTED)
    yield UNRESTRICTED
    kubectl("delete", "namespace", UNRESTRICTED)
