"""Detection of fetched packages in the caches of npm and uv, with the layouts of current versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead_mcp.package_caches import is_cached
from fairlead_mcp.stdio import ChildSpec
from fairlead_mcp.wrappers import wrapper


def is_in_cache(folder: Path, command: str, *args: str, **environment: str) -> bool:
    wrapped = wrapper(ChildSpec.of(command, args, {}, None))
    assert wrapped is not None
    within = folder / "project" / "inside"
    within.mkdir(parents=True, exist_ok=True)
    return is_cached(wrapped, {"HOME": str(folder), **environment}, str(within))


def install(modules: Path, name: str, version: str) -> None:
    (modules / name).mkdir(parents=True)
    (modules / name / "package.json").write_text(f'{{"name": "{name}", "version": "{version}"}}')


def file(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.touch(0o755)


@pytest.mark.parametrize(
    ("cache", "environment"),
    [
        (".npm", {}),
        ("elsewhere", {"NPM_CONFIG_CACHE": "{}/elsewhere"}),
    ],
)
def test_a_package_of_npx_is_cached_by_the_digest_of_its_name(
    tmp_path: Path, cache: str, environment: dict[str, str]
) -> None:
    named = {name: value.format(tmp_path) for name, value in environment.items()}
    args = ("-y", "@modelcontextprotocol/inspector@2.12.0")
    folder = tmp_path / cache / "_npx" / "1cd12db47f285d41" / "node_modules"
    folder.mkdir(parents=True)
    assert not is_in_cache(tmp_path, "npx", *args, **named), "an installation that broke off"
    (folder / ".package-lock.json").touch()
    assert is_in_cache(tmp_path, "npx", *args, **named)
    assert not is_in_cache(tmp_path, "npx", "-y", "@modelcontextprotocol/inspector@2.11.0", **named)


@pytest.mark.parametrize(
    ("cache", "environment"),
    [
        (".cache/uv/environments-v2/python/env", {}),
        (".cache/uv/environments-v2/env", {}),
        ("elsewhere/environments-v3/python/env", {"UV_CACHE_DIR": "{}/elsewhere"}),
        ("xdg/uv/environments-v2/env", {"XDG_CACHE_HOME": "{}/xdg"}),
        (".local/share/uv/tools/mcp-server-time", {}),
        ("tools/mcp-server-time", {"UV_TOOL_DIR": "{}/tools"}),
    ],
)
def test_a_package_of_uvx_is_cached_where_an_environment_has_its_program(
    tmp_path: Path, cache: str, environment: dict[str, str]
) -> None:
    named = {name: value.format(tmp_path) for name, value in environment.items()}
    assert not is_in_cache(tmp_path, "uvx", "mcp-server-time", **named)
    file(tmp_path / cache / "bin" / "mcp-server-time")
    assert is_in_cache(tmp_path, "uvx", "mcp-server-time", **named)
    assert not is_in_cache(tmp_path, "uvx", "mcp-server-git", **named)


@pytest.mark.parametrize("parent", ["project", "project/inside", "machine/lib"])
def test_a_package_in_the_node_modules_that_npx_looks_at_needs_no_fetching(tmp_path: Path, parent: str) -> None:
    machine = {"npm_config_prefix": str(tmp_path / "machine")}
    assert not is_in_cache(tmp_path, "npx", "-y", "@scope/server", **machine)
    install(tmp_path / parent / "node_modules", "@scope/server", "1.2.3")
    assert is_in_cache(tmp_path, "npx", "-y", "@scope/server", **machine)
    assert is_in_cache(tmp_path, "npx", "-y", "@scope/server@latest", **machine)
    assert is_in_cache(tmp_path, "npx", "-y", "@scope/server@1.2.3", **machine)
    assert not is_in_cache(tmp_path, "npx", "-y", "@scope/server@1.2.4", **machine)
    assert not is_in_cache(tmp_path, "npx", "-y", "@scope/other", **machine)


def test_a_package_that_npx_fetched_for_another_way_to_ask_for_it_is_cached(tmp_path: Path) -> None:
    modules = tmp_path / ".npm" / "_npx" / "0123456789abcdef" / "node_modules"
    install(modules, "a-server", "2.0.0")
    assert not is_in_cache(tmp_path, "npx", "a-server@latest"), "an installation that broke off"
    (modules / ".package-lock.json").touch()
    assert is_in_cache(tmp_path, "npx", "a-server@latest")
    assert is_in_cache(tmp_path, "npx", "a-server@2.0.0")
    assert not is_in_cache(tmp_path, "npx", "a-server@2.0.1")


def test_a_package_of_which_uv_has_an_unpacked_wheel_is_cached(tmp_path: Path) -> None:
    (tmp_path / ".cache/uv/wheels-v8/pypi/mcp-server-time/2026.1.2-py3-none-any").mkdir(parents=True)
    assert is_in_cache(tmp_path, "uvx", "mcp-server-time")
    assert is_in_cache(tmp_path, "uvx", "--from", "MCP_Server.Time[all]>=2025", "mcp-server-time")
    assert is_in_cache(tmp_path, "uvx", "mcp-server-time==2026.1.2")
    assert not is_in_cache(tmp_path, "uvx", "mcp-server-time@2026.1")
    assert not is_in_cache(tmp_path, "uvx", "mcp-server-git")
