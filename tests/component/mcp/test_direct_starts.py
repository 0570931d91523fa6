"""Programs of `npx` and `uvx` that are started without the wrapper: program, environment and end are the same as with
it."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from pathlib import Path

import pytest

from curiouspackages import NAME as CURIOUS
from curiouspackages import NPX_ITSELF, curious_npm
from fairlead_mcp.direct import DirectLauncher
from fairlead_mcp.errors import ConnectFailed
from fairlead_mcp.host import ChildHost
from fairlead_mcp.processes import descendants
from fairlead_mcp.stdio import ChildSpec, SubprocessLauncher
from fairlead_mcp.stream_client import StreamState
from neededprograms import needs
from upprocess import command_of
from waiting import eventually
from wrappedpackages import JAVASCRIPT, Heard, launch_reporter, npm_project, run, wheels, without_network

NPX = needs("npx")
UVX = str(Path(sys.executable).with_name("uvx"))

BOTH = pytest.mark.parametrize("command", [pytest.param(["npx", "-y", "reporter"], marks=NPX), [UVX, "reporter"]])


def world(folder: Path) -> None:
    npm_project(folder)
    wheels(folder / "wheels", "1.0", "1.1")


def spec(folder: Path, *words: str, **env: str) -> ChildSpec:
    return ChildSpec.of(words[0], words[1:], {**without_network(folder), **env}, str(folder))


def below() -> set[int]:
    return {stray.pid for stray in descendants(os.getpid())}


@BOTH
async def test_the_program_runs_alone_where_its_wrapper_would_stay(command: list[str], tmp_path: Path) -> None:
    world(tmp_path)
    inner = SubprocessLauncher()
    wrapped, report, _ = await launch_reporter(inner, spec(tmp_path, *command, "stay"))
    assert wrapped.pid != report["pid"]
    await wrapped.stop(1.0)
    alone, report, heard = await launch_reporter(DirectLauncher(inner), spec(tmp_path, *command, "stay"))
    assert alone.pid == report["pid"]
    assert descendants(alone.pid) == []
    await alone.stop(5.0)
    assert await heard.ended == "exited with code 5"
    await inner.aclose()


@BOTH
async def test_program_arguments_folder_environment_and_log_are_as_with_the_wrapper(
    command: list[str], tmp_path: Path
) -> None:
    world(tmp_path)
    inner = SubprocessLauncher()
    wanted = spec(tmp_path, *command, "report", "a b", "$HOME", "it's", "", "-y", "*", KEY="ä \n'", LC_CTYPE="C")
    await run(inner, wanted)  # installs the package, so that later starts do not report the installation
    with_it = await run(inner, wanted)
    without = await run(DirectLauncher(inner), wanted)
    assert with_it.reports[0]["args"] == ["report", "a b", "$HOME", "it's", "", "-y", "*"]
    assert without == with_it
    await inner.aclose()


@BOTH
@pytest.mark.diagonal(1)
@pytest.mark.parametrize("code", [0, 1, 3, 127])
async def test_exit_codes_are_as_with_the_wrapper(command: list[str], code: int, tmp_path: Path) -> None:
    world(tmp_path)
    inner = SubprocessLauncher()
    wanted = spec(tmp_path, *command, "exit", str(code))
    assert (await run(inner, wanted)).how == f"exited with code {code}"
    ended = await run(DirectLauncher(inner), wanted)
    assert (ended.how, ended.log[-1]) == (f"exited with code {code}", "on its way")
    await inner.aclose()


@BOTH
async def test_a_signal_is_told_by_its_name_and_not_as_a_code_of_the_wrapper(
    command: list[str], tmp_path: Path
) -> None:
    world(tmp_path)
    inner = SubprocessLauncher()
    wanted = spec(tmp_path, *command, "signal", "15")
    assert (await run(inner, wanted)).how == f"exited with code {128 + 15}"
    assert (await run(DirectLauncher(inner), wanted)).how == "was killed by SIGTERM"
    await inner.aclose()


async def test_versions_of_python_packages_are_resolved_at_each_start(tmp_path: Path) -> None:
    wheels(tmp_path / "wheels", "1.0")
    inner = SubprocessLauncher()
    direct = DirectLauncher(inner)

    async def path(package: str) -> str:
        return str((await run(direct, spec(tmp_path, UVX, package, "report"))).reports[0]["env"]["PATH"].split(":")[0])

    pinned = await path("reporter==1.0")
    latest = await path("reporter@latest")
    wheels(tmp_path / "wheels", "1.1")
    assert await path("reporter==1.0") == pinned
    assert list(Path(latest).parent.glob("lib/*/site-packages/reporter-1.0.dist-info"))
    assert list(Path(await path("reporter@latest")).parent.glob("lib/*/site-packages/reporter-1.1.dist-info"))
    await inner.aclose()


@NPX
async def test_npx_fetches_a_package_and_prefers_that_of_the_project(tmp_path: Path) -> None:
    inner = SubprocessLauncher()
    direct = DirectLauncher(inner)
    with curious_npm(tmp_path / "built", JAVASCRIPT) as registry:
        network = {"npm_config_registry": registry, "npm_config_offline": "false"}
        fetched = spec(tmp_path, "npx", "-y", CURIOUS, "report", **network)
        fetched_run = await run(direct, fetched)
        assert str(tmp_path / "npm" / "_npx") in fetched_run.reports[0]["env"]["PATH"]
        assert (await run(inner, fetched)).reports == fetched_run.reports
        npm_project(tmp_path)
        local = spec(tmp_path, "npx", "-y", "reporter", "report", **network)
        assert (await run(direct, local)).reports == (await run(inner, local)).reports
    await inner.aclose()


@NPX
async def test_install_scripts_that_run_npx_themselves_are_run(tmp_path: Path) -> None:
    inner = SubprocessLauncher()
    with curious_npm(tmp_path / "built", JAVASCRIPT, NPX_ITSELF) as registry:
        network = {"npm_config_registry": registry, "npm_config_offline": "false"}
        ended = await run(DirectLauncher(inner), spec(tmp_path, "npx", "-y", CURIOUS, "exit", "4", **network))
    assert ended.how == "exited with code 4"
    assert (tmp_path / "built").read_text() == "built by npx\n"
    await inner.aclose()


@NPX
@pytest.mark.timeout(120)
async def test_two_servers_of_one_package_fetch_it_one_after_the_other(tmp_path: Path) -> None:
    inner = SubprocessLauncher()
    direct = DirectLauncher(inner)
    with curious_npm(tmp_path / "built.json", JAVASCRIPT) as registry:
        network = {"npm_config_registry": registry, "npm_config_offline": "false"}
        wanted = [spec(tmp_path, "npx", "-y", CURIOUS, "exit", str(code), **network) for code in (3, 4, 5)]
        ends = [ended.how for ended in await asyncio.gather(*(run(direct, each) for each in wanted))]
    assert ends == [f"exited with code {code}" for code in (3, 4, 5)]
    await inner.aclose()


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["npx", "-y", "no-such-package-here"], marks=NPX),
        [UVX, "no-such-package-here"],
        [UVX, "--from", "reporter", "no-such-program"],
        [UVX, "reporter==7.0"],
    ],
)
async def test_a_package_that_cannot_be_fetched_is_told_once_in_the_words_of_the_wrapper(
    words: list[str], tmp_path: Path
) -> None:
    world(tmp_path)
    inner = SubprocessLauncher()
    wanted = spec(tmp_path, *words)
    await run(inner, wanted)
    with_it = await run(inner, wanted)
    without = await run(DirectLauncher(inner), wanted)
    assert without.how == with_it.how
    assert _without_dates(without.log) == _without_dates(with_it.log)
    await inner.aclose()


def _without_dates(log: list[str]) -> list[str]:
    return [line for line in log if "A complete log of this run" not in line]


@pytest.mark.parametrize("name", ["npx", "uvx"])
async def test_another_program_of_that_name_is_run_as_it_is(name: str, tmp_path: Path) -> None:
    program = tmp_path / name
    calls = tmp_path / "calls"
    program.write_text(f'#!/bin/sh\necho "{{\\"args\\": \\"$*\\"}}"\necho "called: $*" >> {calls}\nexit 9\n')
    program.chmod(0o755)
    inner = SubprocessLauncher()
    ended = await run(DirectLauncher(inner), spec(tmp_path, str(program), "server", "--x"))
    assert (ended.how, ended.reports) == ("exited with code 9", [{"args": "server --x"}])
    assert "called: server --x\n" in calls.read_text()
    await inner.aclose()


async def test_a_wrapper_that_starts_something_else_is_asked_once(tmp_path: Path) -> None:
    world(tmp_path)
    program = tmp_path / "uvx"
    calls = tmp_path / "calls"
    program.write_text(f'#!/bin/sh\necho "$*" >> {calls}\nexec {UVX} "$@"\n')
    program.chmod(0o755)
    inner = SubprocessLauncher()
    direct = DirectLauncher(inner)
    wanted = spec(tmp_path, str(program), "--from", "reporter", "true")
    assert [(await run(direct, wanted)).how for _ in range(3)] == ["exited with code 0"] * 3
    own_calls = [line for line in calls.read_text().splitlines() if line != "--version"]
    assert [line.endswith(" true") for line in own_calls] == [False, True, True, True]
    await inner.aclose()


@NPX
@pytest.mark.parametrize("keep", ["variable", "npmrc"])
async def test_a_wrapper_that_is_to_be_kept_stays(keep: str, tmp_path: Path) -> None:
    world(tmp_path)
    env = {"FAIRLEAD_KEEP_WRAPPER": "true"} if keep == "variable" else {}
    if keep == "npmrc":
        (tmp_path / ".npmrc").write_text("script-shell=/bin/sh\n")
    inner = SubprocessLauncher()
    process, report, _ = await launch_reporter(
        DirectLauncher(inner), spec(tmp_path, "npx", "-y", "reporter", "stay", **env)
    )
    assert process.pid != report["pid"]
    await process.stop(1.0)
    await inner.aclose()


async def test_npx_and_uvx_stay_where_no_script_can_be_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world(tmp_path)
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    inner = SubprocessLauncher()
    process, report, _ = await launch_reporter(DirectLauncher(inner), spec(tmp_path, UVX, "reporter", "stay"))
    assert process.pid != report["pid"]
    await process.stop(1.0)
    await inner.aclose()


@pytest.fixture
def silent_registry() -> object:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"


@NPX
async def test_a_server_that_is_stopped_while_its_package_is_fetched_leaves_nothing_behind(
    silent_registry: str, tmp_path: Path
) -> None:
    before = below()
    host = ChildHost()
    network = {"npm_config_registry": silent_registry, "npm_config_offline": "false", "TMPDIR": str(tmp_path)}
    child = host.get("slow", spec(tmp_path, "npx", "-y", "server", **network))
    await eventually(lambda: any("npm" in command_of(pid) for pid in below() - before))
    assert child.state is StreamState.STARTING
    await host.aclose()
    await eventually(lambda: not below() - before)


@NPX
async def test_a_package_that_does_not_arrive_in_time_fails_the_starts_with_what_did_not(
    silent_registry: str, tmp_path: Path
) -> None:
    before = below()
    inner = SubprocessLauncher()
    direct = DirectLauncher(inner)
    network = {"npm_config_registry": silent_registry, "npm_config_offline": "false"}
    wanted = spec(tmp_path, "npx", "-y", "server", **network)
    await run(direct, spec(tmp_path, "npx", "-y", "no-such-package-here"))  # so that npx has already been examined
    direct._seconds = 1.5
    both = [direct.launch(wanted, Heard()) for _ in range(2)]
    first, second = await asyncio.gather(*both, return_exceptions=True)
    for error in (first, second):
        assert str(error).startswith("npx did not find or fetch its program within ")
    assert isinstance(first, ConnectFailed)
    assert isinstance(second, ConnectFailed)
    assert first.reason == second.reason == "StartTimeout"
    await inner.aclose()
    await eventually(lambda: not below() - before)
