"""Output of servers: `GET /v1/logs`, who may read it, and `fairlead logs`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from commands import fairlead
from fairlead_api.documents.catalog import ChildEndpoint, HttpEndpoint, OpenApiEndpoint, TcpEndpoint
from fairlead_api.documents.servers import ServerEntry, Servers
from fairlead_api.meta import ServerKey
from fairlead_app.authentication import Trust
from fairlead_mcp.host import ChildHost
from fairlead_mcp.stdio import ChildSpec
from gatewayworld import catalog, running
from policyworld import Vouching, anybody
from restworld import get, problem
from waiting import eventually

TRUST = Trust((Vouching(anybody("npc", "players"), anybody("root", "admins")),))
SAYS = "import os, sys; sys.exit('Error: the vault is locked, not opened by ' + os.environ['VAULT_KEY'])"
SECRET = "k3y-of-the-vault"


async def entry_of_failed(children: ChildHost, name: str = "vault") -> None:
    """Entry of a server whose process has ended, with its output."""
    child = children.get(
        ServerKey("default", name), ChildSpec.of(sys.executable, ("-c", SAYS), env={"VAULT_KEY": SECRET})
    )
    await eventually(lambda: child.failure is not None)


async def test_a_server_that_never_answered_has_a_log_with_its_runs_and_without_its_secrets(tmp_path: Path) -> None:
    children = ChildHost()
    try:
        async with running(tmp_path, children=children) as gateway:
            await entry_of_failed(children)
            for name in ("default/vault", "vault"):
                log = (await get(gateway, f"/v1/logs/{name}")).message
                assert log["server"] == "default/vault"
                assert (log["lines"][0]["run"], log["lines"][0]["text"]) == (1, "started")
                run = next(line["run"] for line in log["lines"] if line["stream"] == "stderr")
                assert [(line["stream"], line["text"]) for line in log["lines"] if line["run"] == run] == [
                    ("run", "started" if run == 1 else "started again"),
                    ("stderr", "Error: the vault is locked, not opened by [credential]"),
                    ("run", "exited with code 1"),
                ]
            last = (await get(gateway, "/v1/logs/vault?tail=1")).message
            assert len(last["lines"]) == 1
            later = (await get(gateway, f"/v1/logs/vault?after={last['next']}")).message
            assert all(line["run"] > 1 for line in later["lines"])
    finally:
        await children.aclose()


async def test_lines_that_are_not_kept_any_more_are_told_of(tmp_path: Path) -> None:
    children = ChildHost()
    try:
        async with running(tmp_path, children=children) as gateway:
            await entry_of_failed(children)
            child = children.find(ServerKey("default", "vault"))
            assert child is not None
            for _ in range(300):
                child.program.printed.add("stderr", "x" * 1000)
            log = (await get(gateway, "/v1/logs/vault?after=1")).message
            assert log["missed"]
            assert sum(len(line["text"]) for line in log["lines"]) <= 128 << 10
            assert not (await get(gateway, "/v1/logs/vault")).message["missed"], "nobody had read before"
    finally:
        await children.aclose()


async def test_printed_lines_of_servers_are_shown_to_administrators_alone(tmp_path: Path) -> None:
    children = ChildHost()
    try:
        async with running(tmp_path, children=children, trust=TRUST, admin_groups=("admins",)) as gateway:
            await entry_of_failed(children)
            assert (await get(gateway, "/v1/logs/vault", authorization="Bearer root")).status == 200
            for name in ("vault", "no-such-server"):
                refused = await get(gateway, f"/v1/logs/{name}", authorization="Bearer npc")
                assert problem(refused) == (403, "FORBIDDEN")
                assert "gateway.settings.adminGroups" in refused.message["detail"], "what a cluster sets it by"
                assert b"vault" not in refused.body, "whether there is such a server is not told either"
    finally:
        await children.aclose()


@pytest.mark.parametrize("header", ["x-forwarded-for", "forwarded"])
async def test_where_nobody_is_asked_who_they_are_only_this_machine_reads_it(tmp_path: Path, header: str) -> None:
    children = ChildHost()
    try:
        async with running(tmp_path, children=children) as gateway:
            await entry_of_failed(children)
            assert (await get(gateway, "/v1/logs/vault")).status == 200
            passed_on = await get(gateway, "/v1/logs/vault", **{header: "127.0.0.1"})
            assert problem(passed_on) == (403, "FORBIDDEN")
            assert "FAIRLEAD_ADMIN_GROUPS" in passed_on.message["detail"]
    finally:
        await children.aclose()


async def test_a_server_that_runs_elsewhere_says_where_its_log_is(tmp_path: Path) -> None:
    servers = (
        catalog("pod", TcpEndpoint(host="pod.default.svc", port=9000), ["a"]),
        catalog("image", HttpEndpoint(url="http://image.default.svc:8000/mcp"), ["a"]),
        catalog("far", HttpEndpoint(url="http://127.0.0.1:9/mcp"), ["a"]),
        catalog("api", OpenApiEndpoint(url="http://127.0.0.1:9/v1"), ["a"]),
        catalog("gone", ChildEndpoint(command="no-such-program"), ["a"]),
    )
    async with running(tmp_path, *servers) as gateway:
        for name in ("pod", "image"):
            answer = await get(gateway, f"/v1/logs/{name}")
            assert problem(answer) == (409, "NOT_KEPT")
            assert f"kubectl logs --namespace default --selector fairlead.dev/server={name}" in answer.message["detail"]
        for name in ("far", "api"):
            answer = await get(gateway, f"/v1/logs/{name}")
            assert problem(answer) == (409, "NOT_KEPT")
            assert "is a remote server" in answer.message["detail"]
        assert (await get(gateway, "/v1/logs/gone")).message["lines"] == []
        answer = await get(gateway, "/v1/logs/imag")
        assert problem(answer) == (404, "UNKNOWN_SERVER")
        assert answer.message["didYouMean"] == "image"
        assert "Did you mean image?" in answer.message["detail"]


async def test_a_server_that_has_never_been_ready_has_its_log_in_its_pods(tmp_path: Path) -> None:
    crashing = ServerEntry(namespace="team", name="mail", state="failed", reason="StartFailed", cause="CrashLooping")
    async with running(tmp_path, Servers(servers=(crashing,))) as gateway:
        for name in ("team/mail", "mail"):
            answer = await get(gateway, f"/v1/logs/{name}")
            assert problem(answer) == (404, "UNKNOWN_SERVER")
            assert "kubectl logs --namespace team --selector fairlead.dev/server=mail " in answer.message["detail"]
        elsewhere = await get(gateway, "/v1/logs/news")
        assert "--namespace NAMESPACE --selector fairlead.dev/server=news " in elsewhere.message["detail"]


async def test_the_command_prints_what_a_server_printed(tmp_path: Path) -> None:
    children = ChildHost()
    try:
        async with running(tmp_path, children=children) as gateway:
            await entry_of_failed(children)
            url = f"http://127.0.0.1:{gateway.port}/mcp"
            code, out, _ = await fairlead("logs", "vault", "--url", url)
            assert code == 0
            assert "Error: the vault is locked, not opened by [credential]" in out.splitlines()
            assert out.startswith("--- run 1 started at ")
            assert SECRET not in out
            code, out, _ = await fairlead("logs", "vault", "--tail", "0", "--url", url)
            assert (code, out) == (0, "")
            code, _, error = await fairlead("logs", "vualt", "--url", url)
            assert code == 2
            assert "Did you mean vault?" in error
    finally:
        await children.aclose()
