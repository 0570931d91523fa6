"""The page about authentication of clients: the commands of its three set-ups, run unchanged with a real issuer."""

from __future__ import annotations

import asyncio
import os
import re
from asyncio.subprocess import PIPE, STDOUT, Process
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import yaml

from commands import program_in
from fairlead_gateway.identity.issuers_file import load_credential_issuers
from gatewayworld import catalog, publish
from issuers import issuing
from page_reader import blocks
from ports import free_port
from waiting import until_async

PAGE = (Path(__file__).parents[3] / "docs" / "install" / "authentication.md").read_text()
SECTIONS = dict(section.split("\n", 1) for section in PAGE.split("\n## ")[1:])


class Shell:
    """Environment for the page's commands: a folder with its files, free ports in place of the page's, `fairlead` in
    PATH."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
        self.port = free_port()
        binaries = program_in(folder / "bin")
        self.environment = {
            **os.environ,
            **environment,
            "PATH": f"{binaries}:{os.environ['PATH']}",
            "COLUMNS": "200",
            "FAIRLEAD_URL": f"http://127.0.0.1:{self.port}/mcp",
            "FAIRLEAD_METRICS_PORT": str(free_port()),
        }
        publish(folder / "documents", catalog("demo", "http://127.0.0.1:9/mcp", ["add"]))

    async def start(self, command: str) -> Process:
        command = command.replace("8080", str(self.port))
        return await asyncio.create_subprocess_exec(
            "sh", "-c", f"exec {command}", cwd=self.folder, env=self.environment, stdout=PIPE, stderr=STDOUT
        )

    async def run(self, command: str) -> tuple[int | None, str]:
        process = await self.start(command)
        async with asyncio.timeout(60):
            out, _ = await process.communicate()
        return process.returncode, out.decode()

    async def ready(self) -> None:
        async def answers() -> bool:
            code, _ = await self.run(f"curl -sf http://127.0.0.1:{self.port}/readyz")
            return code == 0

        await until_async("a gateway that is ready", answers, seconds=60)


async def serve(stack: AsyncExitStack, shell: Shell, command: str) -> None:
    process = await shell.start(command)

    async def end() -> None:
        process.terminate()
        await asyncio.wait_for(process.communicate(), 30)

    stack.push_async_callback(end)
    await shell.ready()


def commands(section: str) -> list[list[str]]:
    """The blocks of commands in a section."""
    return [block.strip().splitlines() for block in blocks(SECTIONS[section], "sh")]


@pytest.mark.timeout(180)
async def test_the_open_set_up_works_as_the_page_says(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    (gateway,), (tools,) = commands("Open")
    async with AsyncExitStack() as stack:
        await serve(stack, shell, gateway)
        code, out = await shell.run(tools)
    assert (code, "demo__add" in out) == (0, True), out


@pytest.mark.timeout(240)
async def test_the_set_up_with_api_keys_works_as_the_page_says(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    (create,), (gateway,), asking, (listing, revoke) = commands("API keys")
    assert (await shell.run(f"sh -c '{create}'"))[0] == 0
    async with AsyncExitStack() as stack:
        await serve(stack, shell, gateway)
        for command in asking:
            code, out = await shell.run(f"sh -c '{command}'")
            assert (code, "demo__add" in out) == (0, True), (command, out)
        assert (await shell.run("fairlead tools"))[0] == 1
        _, out = await shell.run(listing)
        ident = out.splitlines()[1].split()[0]
        assert (await shell.run(revoke.replace("ID", ident)))[0] == 0
        async with asyncio.timeout(30):
            while (await shell.run(asking[0]))[0] == 0:  # until the gateway's process has read the file again
                pass


@pytest.mark.timeout(240)
async def test_the_set_up_with_an_issuer_works_as_the_page_says(tmp_path: Path) -> None:
    block = re.search(r"```yaml\n(.*?)```", SECTIONS["OIDC"], re.S)
    assert block is not None
    async with issuing() as issuer, AsyncExitStack() as stack:
        identity = yaml.safe_load(block.group(1))
        text = block.group(1).replace(identity["issuers"][0]["issuer"], issuer.url)
        token = issuer.token(aud="https://tools.example.com", scope="mcp:tools")
        shell = Shell(tmp_path, TOKEN=token)
        (tmp_path / "identity.yaml").write_text(text)
        (gateway,), (tools, curl) = commands("OIDC")
        await serve(stack, shell, gateway)
        code, out = await shell.run(tools)
        assert (code, "demo__add" in out) == (0, True), out
        _, document = await shell.run(curl)
        assert issuer.url in document
        assert '"resource":"https://tools.example.com/mcp"' in document
        assert (await shell.run("fairlead tools"))[0] == 1


def test_the_file_about_service_accounts_is_read_as_it_stands_on_the_page(tmp_path: Path) -> None:
    line = re.search(r"^    (serviceAccounts: .*)$", PAGE, re.M)
    assert line is not None
    (tmp_path / "identity.yaml").write_text(line.group(1))
    accounts = load_credential_issuers(tmp_path / "identity.yaml").service_accounts
    assert accounts is not None
    assert accounts.audiences == ("fairlead",)
