"""Commands on pages, run unchanged with a real `fairlead up`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
from asyncio.subprocess import PIPE, STDOUT, Process
from pathlib import Path

import pytest

from commands import program_in
from controlplane import REPOSITORY
from gatewayworld import catalog, publish
from otlpreceiver import otlp_receiver
from page_reader import Reader, blocks
from upprocess import DEMO, fairlead_up
from waiting import until_async

pytestmark = pytest.mark.timeout(180)

LIFECYCLE = (REPOSITORY / "docs" / "operate" / "server-lifecycle.md").read_text()
TIERS = (REPOSITORY / "docs" / "connect" / "choosing-a-tier.md").read_text()
TRACES = (REPOSITORY / "docs" / "operate" / "traces.md").read_text()
SCORES = (REPOSITORY / "docs" / "operate" / "scores.md").read_text()


def commands(page: str) -> list[str]:
    """Commands in a page's only block."""
    (block,) = blocks(page, "sh")
    return [line.partition(" #")[0].strip() for line in block.splitlines()]


def write_server(folder: Path, name: str) -> None:
    """The demo server, in the namespace `team`."""
    metadata = {"name": name, "namespace": "team"}
    spec = {"command": DEMO}
    manifest = {"apiVersion": "fairlead.dev/v1alpha1", "kind": "McpServer", "metadata": metadata, "spec": spec}
    (folder / "servers").mkdir(exist_ok=True)
    (folder / "servers" / f"{name}.yaml").write_text(json.dumps(manifest))


async def shell(command: str, folder: Path, url: str) -> Process:
    """A shell in which `fairlead` is this one, and uses the given gateway."""
    _fairlead(folder)
    words = f"PATH={folder}:$PATH; export FAIRLEAD_URL={url} COLUMNS=200; exec {command}"
    return await asyncio.create_subprocess_exec("sh", "-c", words, cwd=folder, stdout=PIPE, stderr=STDOUT)


async def run(command: str, folder: Path, url: str) -> tuple[int | None, str]:
    process = await shell(command, folder, url)
    out, _ = await asyncio.wait_for(process.communicate(), 60)
    return process.returncode, out.decode()


async def test_a_server_is_asked_again_and_events_are_followed_as_the_page_says(tmp_path: Path) -> None:
    write_server(tmp_path, "time")
    wait, hurry, follow = commands(LIFECYCLE)
    async with fairlead_up("servers", cwd=tmp_path) as up:
        await up.ready("team/time")
        for command in (wait, hurry):
            code, output = await run(command, tmp_path, up.url)
            assert code == 0, (command, output)
        events = await shell(follow, tmp_path, up.url)
        assert events.stdout is not None
        line = ""
        for number in range(12):
            # another call, because it may not have been listening for the first
            write_server(tmp_path, f"another-{number}")
            with contextlib.suppress(TimeoutError):
                while "team/another" not in line:
                    line = (await asyncio.wait_for(events.stdout.readline(), 5)).decode()
                    assert line, "it goes on"
                break
        assert "team/another" in line
        events.terminate()
        await events.communicate()


async def test_a_tier_is_chosen_as_the_page_says(tmp_path: Path) -> None:
    command, shown = re.findall(r"```console\n\$ (.*?)\n(.*?)```", TIERS, re.DOTALL)[0]
    write_server(tmp_path, "time")
    async with fairlead_up("servers", cwd=tmp_path) as up:
        await up.ready("team/time")
        code, output = await run(command.replace("localhost:8080", up.url.split("/")[2]), tmp_path, up.url)
    assert code == 0, output
    document = json.loads(output)
    expected = json.loads(shown)
    assert document.keys() == expected.keys()
    told = ("tier", "rule", "matched", "limitMs")  # the remaining output depends on measurements
    assert [document[key] for key in told] == [expected[key] for key in told]


async def test_spans_go_to_the_collector_that_the_page_names(tmp_path: Path) -> None:
    (command,) = [line for line in commands(TRACES) if "fairlead gateway" in line]
    publish(tmp_path / "documents", catalog("demo", "http://127.0.0.1:9/mcp", ["add"]))
    with otlp_receiver() as receiver, Reader(tmp_path, _fairlead(tmp_path), 8080, 9464) as reader:
        reader.follow(f"env {command} &\n".replace("http://localhost:4318", receiver.url), listening={"gateway": 8080})
        reader.follow("fairlead call demo__add a=1 b=2 || true\n")  # no server has the tool, but the attempt is a span
        await until_async("spans", lambda: asyncio.to_thread(lambda: receiver.spans), seconds=30)
    assert receiver.resources[0]["service.name"] == "fairlead-gateway"


def _fairlead(folder: Path) -> dict[str, str]:
    """Environment of a reader with `fairlead` in PATH."""
    return {
        "PATH": f"{program_in(folder)}:{os.environ['PATH']}",
        "FAIRLEAD_URL": "http://127.0.0.1:8080/mcp",
        "FAIRLEAD_PORT": "8080",
        "FAIRLEAD_METRICS_PORT": "9464",
        "FAIRLEAD_DOCUMENTS": str(folder / "documents"),
    }


async def test_figures_of_two_installations_become_one_file_as_the_page_says(tmp_path: Path) -> None:
    show, export, merge, show_all = commands(SCORES)
    write_server(tmp_path, "mcp-time")
    for name in ("theirs.json", "ours.json"):
        async with fairlead_up("servers", cwd=tmp_path, env={"FAIRLEAD_AGGREGATES": "true"}) as up:
            await up.ready("team/mcp-time")
            for command in ("fairlead call mcp-time__get_stock item=rope", show, export.replace("ours.json", name)):
                code, output = await run(command, tmp_path, up.url)
                assert code == 0, (command, output)
    for command in (merge, show_all):
        code, output = await run(command, tmp_path, "")
        assert code == 0, (command, output)
    assert len(json.loads((tmp_path / "all.json").read_text())["origins"]) == 2
