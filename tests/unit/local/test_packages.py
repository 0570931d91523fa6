"""When and how often packages are installed, and the states that are reported meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from fairlead_operator.local.installers import PackageVersion, Step, Tools
from fairlead_operator.local.packages import Failed, Installed, Installing, PackageStore, RunStep
from virtualtime import in_virtual_time

pytestmark = in_virtual_time

TOOLS = Tools(uv="/bin/uv", npm="/bin/npm", node="/bin/node")
NO_NETWORK = "error: error sending request for url"


def package(name: str) -> PackageVersion:
    return PackageVersion("npm", name, "1.0")


class Installer:
    """Fake npm, which installs a package or fails after `seconds` of the loop's time."""

    def __init__(self, *, seconds: float = 1.0, failures: int = 0, output: str = NO_NETWORK) -> None:
        self.seconds = seconds
        self.failures = failures
        self.output = output
        self.started: list[str] = []
        self.running = 0
        self.most_at_once = 0

    async def __call__(self, step: Step, take: Callable[[str], None]) -> int:
        name = step.argv[-1].partition("@")[0]
        self.started.append(name)
        self.running += 1
        self.most_at_once = max(self.most_at_once, self.running)
        try:
            for _ in range(25):
                take("npm http fetch GET 200 …")
            await asyncio.sleep(self.seconds)
        finally:
            self.running -= 1
        if self.failures > 0:
            self.failures -= 1
            take(self.output)
            return 1
        folder = Path(step.argv[step.argv.index("--prefix") + 1]) / "node_modules" / name
        folder.mkdir(parents=True)
        (folder / "package.json").write_text('{"bin": "index.js"}')
        return 0


class World:
    """A package store whose reported states tests can await."""

    def __init__(self, root: Path, run: RunStep) -> None:
        self._changed = asyncio.Event()
        self.store = PackageStore(root, TOOLS, run, on_change=lambda changed: self._changed.set(), jitter=lambda: 0.5)

    async def until(self, wanted: PackageVersion, kind: type) -> object:
        """Wait for the next state of the given kind."""
        while not isinstance(state := self.store.require(wanted), kind):
            await self.wait_for_change()
        return state

    async def wait_for_change(self) -> None:
        self._changed.clear()
        await self._changed.wait()


async def test_a_package_is_installed_once_and_then_started_from_where_it_lies(tmp_path: Path) -> None:
    installer = Installer()
    first = World(tmp_path, installer)
    assert first.store.require(package("a")) == Installing("waiting for its turn")
    await first.wait_for_change()
    assert first.store.require(package("a")) == Installing("a@1.0 from npm")
    await first.wait_for_change()
    assert first.store.require(package("a")) == Installing("a@1.0: fetched 25 files")
    installed = await first.until(package("a"), Installed)
    await first.store.close()

    second = World(tmp_path, installer)
    assert second.store.require(package("a")) == installed
    await second.store.close()
    assert installer.started == ["a"]


async def test_no_more_than_two_are_installed_at_once(tmp_path: Path) -> None:
    installer = Installer(seconds=10)
    world = World(tmp_path, installer)
    for name in "abcde":
        world.store.require(package(name))
    for name in "abcde":
        await world.until(package(name), Installed)
    await world.store.close()
    assert installer.most_at_once == 2
    assert asyncio.get_running_loop().time() == pytest.approx(30, abs=2)


async def test_a_failure_for_want_of_a_network_is_tried_again_soon_and_then_less_often(tmp_path: Path) -> None:
    installer = Installer(seconds=0, failures=3)
    world = World(tmp_path, installer)
    failed = await world.until(package("a"), Failed)
    assert isinstance(failed, Failed)
    assert "which cannot be reached" in failed.message
    await world.until(package("a"), Installed)
    await world.store.close()
    assert asyncio.get_running_loop().time() == pytest.approx(5 + 10 + 20, abs=2)


async def test_a_script_that_always_fails_is_soon_tried_once_an_hour_only(tmp_path: Path) -> None:
    installer = Installer(seconds=0, failures=1000, output="npm error command sh -c node install.js")
    world = World(tmp_path, installer)
    world.store.require(package("a"))
    await asyncio.sleep(24 * 3600)
    await world.store.close()
    assert len(installer.started) == pytest.approx(6 + 23, abs=2)


async def test_other_failures_are_tried_again_later(tmp_path: Path) -> None:
    installer = Installer(seconds=0, failures=1, output="npm error code E404")
    world = World(tmp_path, installer)
    failed = await world.until(package("a"), Failed)
    assert failed == Failed("npm has no a@1.0: check the name and the version", 60.0)
    await world.until(package("a"), Installed)
    await world.store.close()
    assert asyncio.get_running_loop().time() == pytest.approx(60, abs=2)


async def test_a_package_that_nobody_needs_any_more_is_not_installed(tmp_path: Path) -> None:
    installer = Installer(seconds=10)
    world = World(tmp_path, installer)
    world.store.require(package("a"))
    await asyncio.sleep(1)
    world.store.retain([])
    await asyncio.sleep(1)
    assert installer.running == 0
    await world.store.close()


async def test_an_installation_that_broke_off_is_made_again(tmp_path: Path) -> None:
    left = tmp_path / "npm" / "a@1.0" / "node_modules" / "half"
    left.mkdir(parents=True)
    installer = Installer()
    world = World(tmp_path, installer)
    await world.until(package("a"), Installed)
    await world.store.close()
    assert installer.started == ["a"]
    assert not left.exists()


async def test_two_stores_over_one_folder_install_a_package_once(tmp_path: Path) -> None:
    installer = Installer()
    worlds = [World(tmp_path, installer), World(tmp_path, installer)]
    for world in worlds:
        world.store.require(package("a"))
    for world in worlds:
        await world.until(package("a"), Installed)
        await world.store.close()
    assert installer.started == ["a"]


async def test_an_installation_that_hangs_is_given_up(tmp_path: Path) -> None:
    world = World(tmp_path, Installer(seconds=100_000))
    failed = await world.until(package("a"), Failed)
    assert isinstance(failed, Failed)
    assert failed.message == "a@1.0 was not installed within 600 s"
    await world.store.close()


async def test_an_installation_that_failed_is_tried_at_once_when_somebody_asks(tmp_path: Path) -> None:
    world = World(tmp_path, Installer(failures=1, output="npm error 404 Not Found"))
    failed = await world.until(package("a"), Failed)
    assert isinstance(failed, Failed)
    assert failed.retry_seconds > 30
    started = asyncio.get_running_loop().time()
    world.store.retry(package("a"))
    await world.until(package("a"), Installed)
    assert asyncio.get_running_loop().time() - started < 5
    world.store.retry(package("a"))
    assert isinstance(world.store.require(package("a")), Installed), "what is installed is left alone"
    world.store.retry(package("unknown"))
    await world.store.close()
