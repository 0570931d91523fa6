"""Fixtures for all kinds of tests."""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import os
import shutil
import signal
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import hypothesis
import pytest
import uvloop
from _pytest.faulthandler import fault_handler_stderr_fd_key

from controlplane import ControlPlane, NoControlPlane, PlaneFactory, find_assets
from diagonals import leave_to_the_night
from examples import NIGHTLY, examples
from forkedworkers import fork_workers
from run_record import register
from shards import BadShard, files_of_shard, recorded_seconds

BUILDING_SECONDS = 1800
"""Seconds that fixtures of end-to-end tests may take to build images, beside what a test may take."""
SHARD = pytest.StashKey[frozenset[Path]]()
SHARED_PLANE = pytest.StashKey[ControlPlane]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shard", metavar="K/N", help="only the K-th of N parts of the test files")


def pytest_configure(config: pytest.Config) -> None:
    """Choose the shard, and set no current event loop, because Python 3.11 would create one that is never closed."""
    asyncio.set_event_loop(None)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # undoes the ignored SIGINT of a background job such as `nohup hack/test &`, which child processes would inherit
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # so that tests do not use this machine's keyring
    os.environ["PYTHON_KEYRING_BACKEND"] = "keyring.backends.null.Keyring"
    _choose_examples()
    register(config)
    if "FAIRLEAD_COVERAGE_CONTEXTS" in os.environ:
        config.pluginmanager.import_plugin("coverage_contexts")
    if shard := config.getoption("--shard"):
        try:
            files = Path(__file__).resolve().parent.rglob("test_*.py")
            config.stash[SHARD] = files_of_shard(shard, files, recorded_seconds())
        except BadShard as error:
            raise pytest.UsageError(str(error)) from None


def _choose_examples() -> None:
    """Choose Hypothesis' examples: the same ones in all CI runs of a commit, and new ones in each nightly run."""
    ci = bool(os.environ.get("CI"))
    hypothesis.settings.register_profile(
        "fairlead",
        max_examples=examples(),
        deadline=None,  # examples may be slow on a busy machine
        derandomize=ci and NIGHTLY not in os.environ,
        database=None if ci else hypothesis.settings.get_profile("default").database,
        print_blob=ci,
    )
    hypothesis.settings.load_profile("fairlead")


@pytest.hookimpl(optionalhook=True)  # of xdist
def pytest_xdist_setupnodes(config: pytest.Config, specs: list[object]) -> None:
    fork_workers(config, specs)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files of other shards before they are imported."""
    shard = config.stash.get(SHARD, None)
    return True if shard is not None and collection_path.is_file() and collection_path not in shard else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Freeze the objects that the collection of tests has created, so that garbage collections in tests skip them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before tests are deselected by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put tests with the mark `heavy` first: if such a test began last, the run would wait for it alone."""
    leave_to_the_night(items)
    items.sort(key=lambda item: item.get_closest_marker("heavy") is None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """End the process of a test that still hangs after its `timeout`, for example in a fixture that waits again. The
    stacks are printed, the test is reported as a crash, and the other tests continue.

    The shared control plane is paused after a test, unless the next one uses it.
    """
    marker = item.get_closest_marker("timeout")
    timeout_s = float(marker.args[0] if marker and marker.args else item.config.getini("timeout"))
    stderr = item.config.stash[fault_handler_stderr_fd_key]
    building_s = BUILDING_SECONDS if item.get_closest_marker("e2e") else 0
    faulthandler.dump_traceback_later(2 * timeout_s + 60 + building_s, exit=True, file=stderr)
    if (plane := item.config.stash.get(SHARED_PLANE, None)) and _uses_plane(item):
        plane.resume()
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()
        plane = item.config.stash.get(SHARED_PLANE, None)
        if plane and nextitem and not _uses_plane(nextitem):
            plane.pause()


def _uses_plane(item: pytest.Item) -> bool:
    """Whether a test names the shared control plane, itself or by its fixtures. Others get it by `getfixturevalue`."""
    return isinstance(item, pytest.Function) and "control_plane" in item.fixturenames


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """asyncio's event loop, and for tests with the mark `both_loops` also the loop of production, whose transports
    differ."""
    loops: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.new_event_loop}
    if item.get_closest_marker("both_loops"):
        loops["uvloop"] = uvloop.new_event_loop
    return loops


def _skip_without_plane(error: NoControlPlane) -> None:
    """Skip a test because there is no API server, with advice how to get one. In CI, the test fails instead."""
    if os.environ.get("CI"):
        pytest.fail(f"in CI a missing API server is a failure: {error}")
    pytest.skip(str(error))


@pytest.fixture(scope="session")
def _assets() -> Path:
    try:
        return find_assets()
    except NoControlPlane as error:
        _skip_without_plane(error)
        raise


@pytest.fixture(scope="session")
def control_plane(
    _assets: Path, tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[ControlPlane]:
    """One API server for the whole run (per worker), with Fairlead's CRDs. Never kill it: others use it."""
    folder = tmp_path_factory.mktemp("plane")
    with ControlPlane(folder, _assets) as plane:
        plane.install_crds()
        pytestconfig.stash[SHARED_PLANE] = plane
        yield plane
        del pytestconfig.stash[SHARED_PLANE]
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def namespace(control_plane: ControlPlane) -> Iterator[str]:
    """A namespace for one test on the shared control plane, which is emptied and removed afterwards."""
    name = control_plane.create_namespace(f"test-{uuid.uuid4().hex[:10]}")
    yield name
    control_plane.remove_namespace(name)


@contextmanager
def _making_planes(assets: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlaneFactory]:
    with ExitStack() as planes:

        def make(*, controllers: bool = False, crds: bool = True, audit: bool = False) -> ControlPlane:
            folder = tmp_path_factory.mktemp("private-plane")
            planes.callback(shutil.rmtree, folder, ignore_errors=True)
            try:
                plane = planes.enter_context(ControlPlane(folder, assets, controllers=controllers, audit=audit))
            except NoControlPlane as error:
                _skip_without_plane(error)
                raise
            if crds:
                plane.install_crds()
                plane.restart_controllers()
            return plane

        yield make


@pytest.fixture
def private_plane(_assets: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlaneFactory]:
    """`private_plane(controllers=False, crds=True, audit=False)` starts a control plane that the test may kill and
    restart, in about 4 s. With `controllers`, a real kube-controller-manager collects garbage and completes the
    deletion of namespaces.
    """
    with _making_planes(_assets, tmp_path_factory) as make:
        yield make


@pytest.fixture(scope="module")
def module_plane(_assets: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlaneFactory]:
    """Like `private_plane`, for a plane that the tests of a module share: each saves three seconds of a core."""
    with _making_planes(_assets, tmp_path_factory) as make:
        yield make
