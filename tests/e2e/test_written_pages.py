"""Installation by a stranger who has only a clone of the repository with its pages.

Runs after `test_uninstall`, because it uses the name and the namespace of the other tests' release.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster_questions import needs, ready
from installation import CHART, NAMESPACE, REPOSITORY, Installation, kubectl, obstacle, program, run
from page_reader import Reader, sections
from toolserverpage import blocks, write_files
from waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600, func_only=True)]

FIRST = sections(REPOSITORY / "README.md")
CHARTS = sections(CHART / "README.md")
DOCKER = """#!/bin/sh
# The two commands of docker that the pages have, by buildah.
set -e
case $1 in
  build) exec buildah bud --isolation chroot --build-arg BASE=localhost/python:3.13-slim -t "$3" "$4" ;;
  save) exec buildah push -q "$4" "docker-archive:$3:$4" ;;
esac
exit 1
"""


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the repository as in a clone."""
    folder = tmp_path_factory.mktemp("clone")
    listed = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    for name in filter(None, listed.split("\0")):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (REPOSITORY / name).exists():
            shutil.copy2(REPOSITORY / name, target)
    return folder


@pytest.fixture(scope="module")
def stranger(clone: Path) -> Iterator[Reader]:
    """Environment of somebody with Python, `kubectl` and `helm`, in the clone."""
    needs(obstacle())
    tools = clone.parent / "tools"
    tools.mkdir(exist_ok=True)
    for name in ("kubectl", "helm"):
        (tools / name).symlink_to(program(name))
    (tools / "fairlead").symlink_to(clone / ".venv" / "bin" / "fairlead")
    (tools / "python3").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (tools / "python3").chmod(0o755)
    # exits with an error if it is not installed
    if subprocess.run(["sh", "-c", "docker info"], capture_output=True, check=False).returncode:
        (tools / "docker").write_text(DOCKER)
        (tools / "docker").chmod(0o755)
    environment = {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "FAIRLEAD_URL": "http://127.0.0.1:8080/mcp",
    }
    with Reader(clone, environment, 8080, 9464) as reader:
        yield reader
    Installation(()).uninstall()  # cleans up after a failed test


def commands(page: dict[str, list[str]], word: str) -> str:
    """The lines of a page that contain the word."""
    lines = [line for blocks in page.values() for block in blocks for line in block.splitlines(keepends=True)]
    return "".join(line for line in lines if word in line)


def test_servers_of_the_first_page_answer_on_a_laptop(stranger: Reader) -> None:
    start, ask = FIRST["On a laptop"]
    install, _, up = start.rpartition(" && ")
    stranger.follow(install, seconds=400)
    stranger.follow(f"{up.strip()} --port 8080 --metrics-port 9464 &\n", listening={"up": 8080})
    servers, listing, call, formats = ask.splitlines(keepends=True)
    until("the list of servers", lambda: "default/time" in stranger.follow(servers), seconds=60)
    until("the time server", lambda: "time__get_current_time" in stranger.follow(listing), seconds=120)
    assert "Europe/Berlin" in stranger.follow(call)
    assert '"input_schema"' in stranger.follow(formats)
    stranger.leave()


def test_commands_of_the_first_page_list_tools_on_a_cluster(stranger: Reader) -> None:
    (block,) = FIRST["On a cluster"]
    install, look = block.split("kubectl get mcp", 1)
    cluster, _, rest = install.partition("\n")
    if os.environ.get("OWN_CLUSTER"):  # set by hack/e2e; otherwise it is the user's own cluster
        stranger.follow(cluster)
    stranger.follow(rest, seconds=500)
    until("Ready", lambda: ready(NAMESPACE, "chandler") == "True", seconds=120)
    printed = stranger.follow(f"kubectl get mcp{look}", listening={"port-forward": 8080})
    assert "chandler__get_stock" in printed


def test_the_release_passes_its_own_test_and_answers_as_the_page_of_the_chart_says(stranger: Reader) -> None:
    assert "Succeeded" in stranger.follow(commands(CHARTS, "helm test"))
    _, samples = CHARTS["Quick start"]
    samples_commands = samples.partition("&\n")[2]
    assert samples_commands.startswith("fairlead tools\n")
    assert '"item": "rope"' in stranger.follow(samples_commands)


def test_the_tool_server_of_the_page_is_built_deployed_and_called(stranger: Reader) -> None:
    write_files(stranger.folder)
    build, use = [text for kind, text in blocks("On a cluster") if kind == "sh"]
    stranger.follow(build)
    assert '"centimeters": 340' in stranger.follow(use)


def test_the_release_goes_and_what_it_kept_goes_when_one_says_so(stranger: Reader) -> None:
    stranger.leave()
    stranger.follow(commands(CHARTS, "helm uninstall"))
    kinds = ("get", "crds", "-o", "name")
    assert kubectl(*kinds).count("fairlead.dev") == 3
    stranger.follow(commands(CHARTS, "kubectl delete crd"))
    assert "fairlead.dev" not in kubectl(*kinds)
