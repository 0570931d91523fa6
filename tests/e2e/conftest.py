"""One operator and one gateway for all end-to-end tests, and a namespace for each of them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from clusterworld import LISTENER, RUNNER, built, installed, kubectl, listener


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The demo server as an image, in the node's store."""
    folder = tmp_path_factory.mktemp("demo")
    return built(folder, "localhost/fairlead-demo:e2e", "gateway/demo/Dockerfile")


@pytest.fixture(scope="session")
def time_image(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A published server that speaks stdio alone as an image, and what serves it, in the node's store."""
    listener(tmp_path_factory.mktemp("listener"))
    return built(tmp_path_factory.mktemp("time"), "localhost/fairlead-time:e2e", "tests/e2e/images/time/Dockerfile")


@pytest.fixture(scope="session")
def runner_image(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What packages are installed and run in, in the node's store."""
    return built(tmp_path_factory.mktemp("runner"), RUNNER, "operator/runner/Dockerfile")


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a gateway that an operator feeds."""
    with installed(
        tmp_path_factory.mktemp("processes"), FAIRLEAD_LISTENER_IMAGE=LISTENER, FAIRLEAD_RUNNER_IMAGE=RUNNER
    ) as url:
        yield url


@pytest.fixture
def namespace() -> Iterator[str]:
    name = f"e2e-{uuid.uuid4().hex[:8]}"
    kubectl("create", "namespace", name)
    yield name
    kubectl("delete", "namespace", name, "--wait=false")
