"""First starts of packages that have to be fetched, with a fake `uvx` and a fake `npx` that fetch nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fairlead_mcp.direct import FETCHES, DirectLauncher
from fairlead_mcp.errors import ConnectFailed
from fairlead_mcp.stdio import ChildSpec, SubprocessLauncher
from waiting import eventually
from wrappedpackages import Heard

UVX = """\
#!/bin/sh
[ "$1" = --version ] && { echo "uvx 0.9.0"; exit; }
package=$2
touch "$WORLD/fetching-$package"
case $package in
cold*) while [ ! -e "$WORLD/go" ]; do sleep 0.05; done;;
large*)
    for piece in 1 2 3 4 5 6 7 8 9 10 11 12; do head -c 200000 /dev/zero >> "$WORLD/$package"; sleep 0.25; done;;
stuck*) while :; do sleep 0.05; done;;
esac
PATH=$WORLD/bin:$PATH exec "$3"
"""
PROGRAM = "#!/bin/sh\nexec cat\n"


def world(folder: Path, *programs: str) -> None:
    (folder / "bin").mkdir()
    for name, text in {"uvx": UVX, **dict.fromkeys(programs, PROGRAM)}.items():
        path = folder / "bin" / name
        path.write_text(text)
        path.chmod(0o755)


def spec(folder: Path, program: str) -> ChildSpec:
    env = {"PATH": f"{folder}/bin:/usr/bin:/bin", "WORLD": str(folder), "UV_CACHE_DIR": f"{folder}/cache"}
    return ChildSpec.of(str(folder / "bin" / "uvx"), [program], env, str(folder))


async def test_few_packages_are_fetched_at_once_and_one_that_is_there_waits_for_none(tmp_path: Path) -> None:
    cold = [f"cold{number}" for number in range(2 * FETCHES)]
    world(tmp_path, "warm", "cached", *cold)
    inner = SubprocessLauncher()
    direct = DirectLauncher(inner)
    await (await direct.launch(spec(tmp_path, "warm"), Heard())).stop(1.0)
    starts = [asyncio.ensure_future(direct.launch(spec(tmp_path, name), Heard())) for name in cold]
    await eventually(lambda: _count_fetches(tmp_path) >= FETCHES)
    program = tmp_path / "cache" / "environments-v2" / "python" / "env" / "bin" / "cached"
    program.parent.mkdir(parents=True)
    program.touch(0o755)
    warm = await direct.launch(spec(tmp_path, "warm"), Heard())
    cached = await direct.launch(spec(tmp_path, "cached"), Heard())
    assert _count_fetches(tmp_path) == FETCHES
    assert not any(start.done() for start in starts)
    (tmp_path / "go").touch()
    for process in [warm, cached, *await asyncio.gather(*starts)]:
        await process.stop(1.0)
    await inner.aclose()


async def test_a_fetch_is_given_up_only_when_nothing_more_of_it_arrives(tmp_path: Path) -> None:
    world(tmp_path, "large", "stuck")
    inner = SubprocessLauncher()
    direct = DirectLauncher(inner, seconds=1.5)
    await (await direct.launch(spec(tmp_path, "large"), Heard())).stop(1.0)
    with pytest.raises(ConnectFailed, match="uvx did not find or fetch its program") as caught:
        await direct.launch(spec(tmp_path, "stuck"), Heard())
    assert caught.value.reason == "StartTimeout"
    await inner.aclose()


async def test_a_start_that_waits_for_a_package_tells_that_it_is_fetched_or_waits_for_others(tmp_path: Path) -> None:
    cold = [f"cold{number}" for number in range(FETCHES + 1)]
    world(tmp_path, "warm", *cold)
    inner = SubprocessLauncher()
    direct = DirectLauncher(inner)
    first, again = Heard(), Heard()
    await (await direct.launch(spec(tmp_path, "warm"), first)).stop(1.0)
    await (await direct.launch(spec(tmp_path, "warm"), again)).stop(1.0)
    assert (first.steps, again.steps) == (["fetching warm with uvx", ""], [])
    listeners = [Heard() for _ in cold]
    starts = [
        asyncio.ensure_future(direct.launch(spec(tmp_path, name), heard))
        for name, heard in zip(cold, listeners, strict=True)
    ]
    await eventually(lambda: _count_fetches(tmp_path) == FETCHES and all(heard.steps for heard in listeners))
    steps = sorted(heard.steps[-1] for heard in listeners)
    assert sum(step.startswith("fetching cold") for step in steps) == FETCHES
    assert steps[-1].startswith("waiting to fetch cold")
    assert steps[-1].endswith(f": {FETCHES} other packages are fetched first")
    (tmp_path / "go").touch()
    for process in await asyncio.gather(*starts):
        await process.stop(1.0)
    assert [heard.steps[-1] for heard in listeners] == [""] * len(cold)
    await inner.aclose()


NPX = """\
#!/bin/sh
log=$npm_config_logs_dir/a-debug-0.log
mkdir -p "$npm_config_logs_dir"
echo '7 verbose argv "exec" "--yes" "--" "there"' > "$log"
echo '8 http fetch GET https://registry.example/there attempt 1 failed with ENOTFOUND' >> "$log"
while [ ! -e "$WORLD/go" ]; do sleep 0.05; done
npm_lifecycle_event=npx "$npm_config_script_shell" -c there
"""


async def test_an_npx_that_cannot_reach_the_registry_tells_what_it_waits_for_until_it_goes_on(tmp_path: Path) -> None:
    world(tmp_path, "there")
    program = tmp_path / "npm" / "bin" / "npx-cli.js"
    program.parent.mkdir(parents=True)
    program.write_text(NPX)
    program.chmod(0o755)
    (tmp_path / "npm" / "package.json").write_text('{"name": "npm", "version": "11.0.0"}')
    (tmp_path / "bin" / "npx").symlink_to(program)
    env = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "WORLD": str(tmp_path), "npm_config_logs_dir": f"{tmp_path}/logs"}
    inner, heard = SubprocessLauncher(), Heard()
    start = ChildSpec.of("npx", ["-y", "there"], env, str(tmp_path))
    launch = asyncio.ensure_future(DirectLauncher(inner, seconds=4.0).launch(start, heard))
    await eventually(lambda: any("npx cannot reach registry.example (ENOTFOUND)" in step for step in heard.steps))
    (tmp_path / "go").touch()
    await (await launch).stop(1.0)
    assert heard.steps[0] == heard.steps[2] == "fetching there with npx"
    assert heard.steps[-1] == ""
    await inner.aclose()


def _count_fetches(folder: Path) -> int:
    return len([*folder.glob("fetching-cold*")])
