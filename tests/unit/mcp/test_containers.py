"""Detection of commands that start a container."""

from __future__ import annotations

import subprocess

import pytest

from fairlead_api.documents.catalog import ChildEndpoint
from fairlead_mcp.containers import ContainerRun, starts_container


@pytest.mark.parametrize(
    "command",
    [
        "docker run -i --rm mcp/time",
        "/usr/bin/podman run -i mcp/time",
        "docker container run mcp/time",
        "docker --context remote --debug run mcp/time",
        "docker -H ssh://there container run mcp/time",
        "podman --log-level=debug --remote run mcp/time",
    ],
)
def test_a_command_that_runs_a_container_gets_a_label_behind_its_run(command: str) -> None:
    program, *args = command.split()
    assert starts_container(ChildEndpoint(command=program, args=tuple(args)))
    run = ContainerRun.of(program, args, {})
    assert run is not None
    at = run.argv.index("run")
    assert run.argv[at + 1] == "--label"
    assert run.argv[at + 2].startswith("fairlead.dev/run=")
    assert [*run.argv[: at + 1], *run.argv[at + 3 :]] == [program, *args]


@pytest.mark.parametrize(
    "command",
    [
        "docker",
        "docker mcp gateway run",
        "docker compose run server",
        "docker exec -i box run",
        "uv run server",
        "docker --context run",
        "docker start -ai box",
        "npx run",
    ],
)
def test_a_command_that_runs_no_container_is_started_as_it_is(command: str) -> None:
    program, *args = command.split()
    assert not starts_container(ChildEndpoint(command=program, args=tuple(args)))
    assert ContainerRun.of(program, args, {}) is None


def test_the_kill_line_runs_in_a_shell_and_shows_no_other_variable() -> None:
    hostile = {"DOCKER_HOST": "tcp://a'b;echo x", "PATH": "/a b", "TOKEN": "hush", "HOME": "/h"}
    run = ContainerRun.of("docker", ["--context", "a'; echo x; '", "run", "image"], hostile)
    assert run is not None
    will = run.kill_line()
    assert "hush" not in will
    assert subprocess.run(["/bin/sh", "-n", "-c", will], check=False).returncode == 0
    shown = f'docker() {{ echo "$DOCKER_HOST|$2|$3" >&3; }}; {will.replace("export PATH", "true PATH")}'
    done = subprocess.run(["/bin/bash", "-c", f"exec 3>&1; {shown}"], capture_output=True, text=True, check=False)
    assert done.stdout == "tcp://a'b;echo x|a'; echo x; '|ps\n"


def test_a_kill_line_that_is_not_a_line_is_left_out() -> None:
    run = ContainerRun.of("docker", ["run", "image"], {"DOCKER_HOST": "a\nb"})
    assert run is not None
    assert run.kill_line() == ""
