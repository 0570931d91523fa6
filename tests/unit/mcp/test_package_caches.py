"""What the caches of npm and uv tell of packages that were fetched, by layouts of their present versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead_mcp.package_caches import is_cached
from fairlead_mcp.stdio import ChildSpec
from fairlead_mcp.wrappers import wrapper


def cached(folder: Path, command: str, *args: str, **environment: str) -> bool:
    wrapped = wrapper(ChildSpec.of(command, args, {}, None))
    assert wrapped is not None
    return is_cached(wrapped, {"HOME": str(folder), **environment})


def file(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.touch(0o755)


@pytest.mark.parametrize(
    ("place", "environment"),
    [
        (".npm", {}),
        ("elsewhere", {"NPM_CONFIG_CACHE": "{}/elsewhere"}),
    ],
)
def test_a_package_of_npx_is_cached_by_the_digest_of_its_name(
    tmp_path: Path, place: str, environment: dict[str, str]
) -> None:
    named = {name: value.format(tmp_path) for name, value in environment.items()}
    args = ("-y", "@modelcontextprotocol/inspector@2.12.0")
    folder = tmp_path / place / "_npx" / "1cd12db47f285d41" / "node_modules"
    folder.mkdir(parents=True)
    assert not cached(tmp_path, "npx", *args, **named), "an installation that broke off"
    (folder / ".package-lock.json").touch()
    assert cached(tmp_path, "npx", *args, **named)
    assert not cached(tmp_path, "npx", "-y", "@modelcontextprotocol/inspector@2.11.0", **named)


@pytest.mark.parametrize(
    ("place", "environment"),
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
    tmp_path: Path, place: str, environment: dict[str, str]
) -> None:
    named = {name: value.format(tmp_path) for name, value in environment.items()}
    assert not cached(tmp_path, "uvx", "mcp-server-time", **named)
    file(tmp_path / place / "bin" / "mcp-server-time")
    assert cached(tmp_path, "uvx", "mcp-server-time", **named)
    assert not cached(tmp_path, "uvx", "mcp-server-git", **named)
