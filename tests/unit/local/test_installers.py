"""The output of installers, and the files that they leave behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairlead_operator.local.installers import (
    InstallFailed,
    Launch,
    PackageVersion,
    Registry,
    Tools,
    explain,
    find_launch,
    plan_steps,
    progress,
)

TIME = PackageVersion("pypi", "mcp-server-time", "1.0")
FILES = PackageVersion("npm", "@scope/server-files", "2.0")
TOOLS = Tools(uv="/bin/uv", npm="/bin/npm", node="/bin/node", python="/bin/python3")


@pytest.mark.parametrize(
    ("package", "output", "network", "message"),
    [
        (
            TIME,
            (
                "error: No solution found when resolving dependencies\n"
                "  cause: Because mcp-server-time was not found in the cache and you require mcp-server-time==1.0, we "
                "can conclude that your requirements are unsatisfiable.\n\nhint: Packages were unavailable because the "
                "network was disabled. When the network is disabled, registry packages may only be read from the cache."
            ),
            True,
            "mcp-server-time==1.0 could not be fetched from PyPI, which cannot be reached",
        ),
        (
            TIME,
            (
                "error: Request failed after 3 retries in 9.5s\n  cause: Failed to fetch: `…`\n"
                "  cause: error sending request for url (…)\n  cause: client error (Connect)\n"
                "  cause: Connection refused (os error 111)"
            ),
            True,
            "mcp-server-time==1.0 could not be fetched from PyPI, which cannot be reached",
        ),
        (
            TIME,
            (
                "error: No solution found when resolving dependencies\n  cause: Because there is no version of "
                "mcp-server-time==1.0 and you require mcp-server-time==1.0, …"
            ),
            False,
            "PyPI has no mcp-server-time==1.0: check the name and the version",
        ),
        (
            FILES,
            (
                "npm warn Unknown user config\nnpm error code ENOTCACHED\nnpm error request to … failed: cache mode is "
                "'only-if-cached'\nnpm error A complete log of this run can be found in: /x"
            ),
            True,
            "@scope/server-files@2.0 could not be fetched from npm, which cannot be reached",
        ),
        (
            FILES,
            "npm error code ETARGET\nnpm error notarget No matching version found for @scope/server-files@2.0.",
            False,
            "npm has no @scope/server-files@2.0: check the name and the version",
        ),
        (
            TIME,
            "Resolved 3 packages\nerror: Failed to build `x`\n  cause: gcc: not found\n\nhint: ask somebody",
            False,
            "mcp-server-time==1.0 could not be installed: Failed to build `x`: gcc: not found",
        ),
        (TIME, "", False, "mcp-server-time==1.0 could not be installed: the installer printed nothing"),
    ],
)
def test_a_failure_is_put_in_one_sentence(package: PackageVersion, output: str, network: bool, message: str) -> None:
    failure = explain(package, output.split("\n"))
    assert (str(failure), failure.network) == (message, network)


@pytest.mark.parametrize(
    ("registry", "line", "seen", "line_shown"),
    [
        ("pypi", "Resolved 31 packages in 939ms", 0, "resolved 31 packages in 939ms"),
        ("pypi", " + anyio==4", 3, None),
        ("npm", "npm http fetch GET 200 …", 24, "fetched 25 files"),
        ("npm", "npm http fetch GET 200 …", 3, None),
        ("npm", "npm warn deprecated", 24, None),
    ],
)
def test_progress_is_what_somebody_who_waits_wants_to_know(
    registry: Registry, line: str, seen: int, line_shown: str | None
) -> None:
    assert progress(registry, line, seen) == line_shown


def test_a_pypi_package_gets_an_environment_and_a_cache_of_its_own(tmp_path: Path) -> None:
    make, install = plan_steps(TIME, tmp_path / "t", TOOLS, tmp_path)
    assert make.argv[:2] == ("/bin/uv", "venv")
    assert make.argv[-2:] == ("/bin/python3", str(tmp_path / "t"))
    assert install.argv[-1] == "mcp-server-time==1.0"
    assert install.env["UV_CACHE_DIR"] == str(tmp_path / "uv")
    assert not any("http" in word for step in (make, install) for word in [*step.argv, *step.env.values()])


def test_an_npm_package_gets_a_folder_of_its_own(tmp_path: Path) -> None:
    (install,) = plan_steps(FILES, tmp_path, TOOLS, tmp_path)
    assert install.argv[-3:] == ("--prefix", str(tmp_path), "@scope/server-files@2.0")


@pytest.mark.parametrize(("package", "missing"), [(TIME, "uv"), (FILES, "npm")])
def test_a_missing_installer_is_named(package: PackageVersion, missing: str, tmp_path: Path) -> None:
    with pytest.raises(InstallFailed, match=missing):
        plan_steps(package, tmp_path, Tools(), tmp_path)


def distribution(target: Path, name: str, scripts: list[str]) -> None:
    info = target / "lib" / "python3.11" / "site-packages" / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    lines = "".join(f"{script} = {name}:main\n" for script in scripts)
    (info / "entry_points.txt").write_text(f"[console_scripts]\n{lines}\n[other]\nx = y\n")


@pytest.mark.parametrize(
    ("scripts", "executable", "program"),
    [
        (["mcp-server-time"], None, "mcp-server-time"),
        (["only-one"], None, "only-one"),
        (["mcp_server_time", "other"], None, "mcp_server_time"),
        (["a", "b"], "b", "b"),
    ],
)
def test_the_program_of_a_pypi_package_is_found(
    scripts: list[str], executable: str | None, program: str, tmp_path: Path
) -> None:
    distribution(tmp_path, "mcp_server_time", scripts)
    distribution(tmp_path, "dependency", ["mcp-server-time-helper"])
    assert find_launch(TIME._replace(executable=executable), tmp_path, TOOLS) == Launch(str(tmp_path / "bin" / program))


def test_a_package_without_a_program_is_run_as_a_module_where_it_can(tmp_path: Path) -> None:
    distribution(tmp_path, "mcp_server_time", [])
    with pytest.raises(InstallFailed, match="is a library: it contains no program to run"):
        find_launch(TIME, tmp_path, TOOLS)
    module = tmp_path / "lib" / "python3.11" / "site-packages" / "mcp_server_time" / "__main__.py"
    module.parent.mkdir()
    module.touch()
    assert find_launch(TIME, tmp_path, TOOLS) == Launch(str(tmp_path / "bin" / "python"), ("-m", "mcp_server_time"))


@pytest.mark.parametrize(
    ("executable", "message"),
    [
        (None, "contains a, b: set package.executable to the program to run"),
        ("c", "contains a, b, but no program named c"),
    ],
)
def test_a_choice_that_is_not_clear_is_left_to_the_person(executable: str | None, message: str, tmp_path: Path) -> None:
    distribution(tmp_path, "mcp_server_time", ["a", "b"])
    with pytest.raises(InstallFailed, match=message):
        find_launch(TIME._replace(executable=executable), tmp_path, TOOLS)


@pytest.mark.parametrize(
    ("declared", "content", "by_node"),
    [
        ("dist/index.js", "", True),
        ({"server-files": "run"}, "#!/usr/bin/env node\n", True),
        ({"server-files": "run", "other": "x"}, "#!/bin/sh\n", False),
    ],
)
def test_the_program_of_an_npm_package_is_found(declared: object, content: str, by_node: bool, tmp_path: Path) -> None:
    folder = tmp_path / "node_modules" / "@scope" / "server-files"
    (folder / "dist").mkdir(parents=True)
    (folder / "package.json").write_text(json.dumps({"bin": declared}))
    program = folder / ("dist/index.js" if isinstance(declared, str) else "run")
    program.write_text(content)
    expected = Launch("/bin/node", (str(program),)) if by_node else Launch(str(program))
    assert find_launch(FILES, tmp_path, TOOLS) == expected
