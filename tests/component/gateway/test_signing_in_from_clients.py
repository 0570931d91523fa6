"""Signing in at an OAuth server from the Python SDK's clients of each era, each of which is asked in its own form."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Literal

import mcp_types as types
import pytest
from mcp import Client

from consentservers import FormBrowser, consent_server
from consentworld import consent_catalog, laptop
from fairlead_app.authentication import Trust
from fairlead_client import AsyncToolRegistry, Server
from fairlead_gateway.core.identity import Identity, ServiceAccount
from fairlead_gateway.identity.authenticator import Verdict
from fixed_authenticator import Names
from gatewayworld import LEGACY, ask
from pageworld import CLIENTS, modern_ask, text_in
from waiting import eventually

Mode = Literal["legacy", "auto"]


def text_of(result: types.CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return block.text


@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize("late", [False, True], ids=["at once", "after the client answered"])
async def test_an_sdk_client_signs_in_within_its_call_which_then_runs(tmp_path: Path, mode: Mode, late: bool) -> None:
    async with consent_server("linear") as server, laptop(tmp_path, server) as gateway, FormBrowser() as browser:
        opened: list[str] = []
        signing_in: list[asyncio.Task[Any]] = []

        async def open_page(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
            assert isinstance(params, types.ElicitRequestURLParams)
            opened.append(params.url)
            work = asyncio.create_task(browser.sign_in(params.url))
            signing_in.append(work)
            if not late:
                await work
            return types.ElicitResult(action="accept")

        url = f"http://127.0.0.1:{gateway.port}/mcp"
        async with Client(url, mode=mode, elicitation_callback=open_page) as client:
            first = await client.call_tool("linear__whoami", {})
            second = await client.call_tool("linear__whoami", {})
        await asyncio.gather(*signing_in)
    assert (text_of(first), text_of(second)) == ("alice", "alice")
    assert len(opened) == 1
    assert opened[0].startswith(f"http://127.0.0.1:{gateway.port}/sign-in/default/linear")


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_tool_of_a_server_that_nobody_could_list_yet_signs_in_too(tmp_path: Path, mode: Mode) -> None:
    async with consent_server("linear") as server, FormBrowser() as browser:
        unlisted = consent_catalog(
            server.url, oauth={"first_grant": True}, tools=["sign_in"], sign_in=True, version=LEGACY
        )

        async def open_page(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
            assert isinstance(params, types.ElicitRequestURLParams)
            await browser.sign_in(params.url)
            return types.ElicitResult(action="accept")

        async with laptop(tmp_path, unlisted) as gateway:
            url = f"http://127.0.0.1:{gateway.port}/mcp"
            async with Client(url, mode=mode, elicitation_callback=open_page) as client:
                result = await client.call_tool("linear__sign_in", {})
    assert not result.is_error
    assert "signed in" in text_of(result)


async def test_calls_at_once_of_one_person_ask_once(tmp_path: Path) -> None:
    async with consent_server("linear") as server, laptop(tmp_path, server) as gateway, FormBrowser() as browser:
        opened: list[str] = []

        async def open_page(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
            assert isinstance(params, types.ElicitRequestURLParams)
            opened.append(params.url)
            return types.ElicitResult(action="accept")

        url = f"http://127.0.0.1:{gateway.port}/mcp"
        async with Client(url, mode="legacy", elicitation_callback=open_page) as client:
            calls = [asyncio.create_task(client.call_tool("linear__whoami", {})) for _ in range(5)]
            await eventually(lambda: opened)
            await browser.sign_in(opened[0])
            results = await asyncio.gather(*calls)
    assert [text_of(result) for result in results] == ["alice"] * 5
    assert len(opened) == 1


async def test_python_gets_the_link_of_the_page(tmp_path: Path) -> None:
    async with consent_server("linear") as server, laptop(tmp_path, server) as gateway, FormBrowser() as browser:
        url = f"http://127.0.0.1:{gateway.port}/servers/default/linear/mcp"
        async with AsyncToolRegistry([Server(name="g", url=url)]) as registry:
            outcome = await registry.execute("g__whoami", {})
            assert outcome.error is not None
            assert outcome.error.code == "SIGN_IN_REQUIRED"
            await browser.sign_in(outcome.error.sign_in_url)
            again = await registry.execute("g__whoami", {})
    assert again.text == "alice"


class Workloads(Names):
    """Authenticator that takes every caller for a ServiceAccount."""

    async def look_up(self, token: str) -> Verdict:
        account = ServiceAccount("jobs", "nightly")
        return Identity(kind="serviceAccount", principal=f"serviceaccount:{account}", service_account=account)


async def test_a_workload_is_told_that_a_grant_is_missing_and_who_can_give_it(tmp_path: Path) -> None:
    """A ServiceAccount has no browser, even if its client can open pages."""
    async with consent_server("linear") as server, laptop(tmp_path, server, trust=Trust((Workloads(),))) as gateway:
        request = modern_ask(CLIENTS["2026-07-28 with url"], "tools/call", {"name": "linear__whoami"})
        answer = await ask(gateway, request.with_headers(authorization="Bearer x"))
    assert answer.refusal == "SIGN_IN_REQUIRED"
    text = text_in(answer.message)
    assert "default/linear" in text
    assert "ServiceAccount" in text
