"""`fairlead diff`, `approve`, `keys` and `refresh` work at the gateway or in the folder that their options name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from commands import fairlead
from rawserver import raw_server
from toolservers import Reply, Request, answer_modern, tool
from upprocess import PLAIN, fairlead_up
from waiting import until_async


class Turncoat:
    """A modern server whose tools the test replaces."""

    def __init__(self) -> None:
        self.tools: list[Any] = [tool("add", description="Adds two numbers.")]

    async def __call__(self, request: Request, reply: Reply) -> None:
        answer_modern(request, reply, self.tools)


async def test_a_gateway_shows_and_approves_what_is_held_back(tmp_path: Path) -> None:
    turncoat = Turncoat()
    async with raw_server(turncoat) as peer:
        entry = {"url": peer.url, "fairlead": {"pin": True}}
        (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"sums": entry}}))
        state = tmp_path / "state"
        async with fairlead_up(tmp_path / "mcp.json", "--state-dir", state, cwd=tmp_path) as up:
            await up.ready("default/sums")
            turncoat.tools = [tool("add", description="Adds three numbers.")]
            url = ("--url", up.url)
            code, out, _ = await fairlead("refresh", "sums", *url)
            assert code == 0
            assert f"1 definition is held back until approved: `fairlead diff --url {up.url} default/sums`" in out

            by_url = await fairlead("diff", "sums", *url)
            local = await fairlead("diff", "sums", "--state-dir", str(state))
            by_environment = await fairlead("diff", "sums", FAIRLEAD_URL=up.url)
            for code, out, _ in (by_url, local, by_environment):
                assert (code, "-Adds two numbers." in out, "+Adds three numbers." in out) == (0, True, True)
            assert f"fairlead approve --url {up.url} default/sums" in by_url[1]
            assert (await fairlead("approve", "sums", *url))[0] == 2, "it asks, and nobody can be asked here"

            code, out, _ = await fairlead("approve", "sums", "--yes", *url)
            assert (code, f"by the gateway at {up.url}" in out, "are served." in out) == (0, True, True)
            assert "nothing is held back" in (await fairlead("diff", "sums", *url))[1]

            turncoat.tools = [tool("add", description="Adds four numbers.")]
            await fairlead("refresh", "sums", *url)
            code, out, _ = await fairlead("approve", "sums", "--yes", "--state-dir", str(state))
            assert (code, f"{state}/approvals/default.sums is written" in out, "are served." in out) == (0, True, True)


async def test_approve_says_that_a_server_is_not_pinned(tmp_path: Path) -> None:
    async with raw_server(Turncoat()) as server:
        (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"sums": {"url": server.url}}}))
        async with fairlead_up(tmp_path / "mcp.json", cwd=tmp_path) as up:
            await up.ready("default/sums")
            code, _, err = await fairlead("approve", "sums", "--url", up.url)
            assert (code, "default/sums has no pinned definitions, so there is nothing to approve" in err) == (2, True)


async def test_diff_names_the_gateways_that_it_may_mean(tmp_path: Path) -> None:
    (tmp_path / "mcp.json").write_text('{"mcpServers": {}}')
    env = {"XDG_RUNTIME_DIR": str(tmp_path), "HOME": str(tmp_path)}
    async with (
        fairlead_up(tmp_path / "mcp.json", cwd=tmp_path, env=env) as first,
        fairlead_up(tmp_path / "mcp.json", cwd=tmp_path, env=env) as second,
    ):
        code, _, err = await fairlead("diff", "sums", **env)
    assert code == 1
    assert f"--url {first.url}" in err
    assert f"--url {second.url}" in err


async def test_keys_in_a_file_that_nobody_named_are_told_with_the_setting_that_reads_them(tmp_path: Path) -> None:
    code, out, err = await fairlead("keys", "create", "me", code=f"import os; os.chdir({str(tmp_path)!r})")
    file = tmp_path / "keys.json"
    assert (code, out.startswith("flk_"), file.is_file()) == (0, True, True)
    assert f"a gateway reads it with FAIRLEAD_API_KEYS={file}" in err
    _, _, named = await fairlead("keys", "create", "you", "--file", str(file))
    assert "FAIRLEAD_API_KEYS" not in named


async def test_the_first_key_of_a_folder_that_is_in_use_is_told_with_the_restart_that_it_needs(tmp_path: Path) -> None:
    _, _, first = await fairlead("keys", "create", "me", "--state-dir", str(tmp_path))
    assert "; a `fairlead up` that runs with this folder has to be started again" in first
    _, _, second = await fairlead("keys", "create", "you", "--state-dir", str(tmp_path))
    assert second == f"fairlead keys create: the hash of the key is written to {tmp_path}/keys.json\n"


async def test_keys_of_a_folder_that_does_not_exist_are_told_apart_from_no_keys(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    code, out, err = await fairlead("keys", "list", "--state-dir", str(wrong))
    assert (code, "AGENT" in out, err) == (0, True, f"fairlead keys list: {wrong}/keys.json does not exist\n")
    assert (await fairlead("keys", "revoke", "3f9a0c2b77d1", "--state-dir", str(wrong)))[0] == 2
    assert (await fairlead("keys", "create", "", "--state-dir", str(wrong)))[0] == 2
    assert not wrong.exists()
    code, _, err = await fairlead("keys", "create", "me", "--state-dir", str(wrong / "deeper"))
    assert (code, f"{wrong}/deeper cannot be created: No such file or directory" in err) == (2, True)
    assert not wrong.exists()


async def test_keys_of_a_folder_guard_the_gateway_that_keeps_its_documents_there(tmp_path: Path) -> None:
    state = tmp_path / "state"
    code, out, err = await fairlead("keys", "create", "me", "--state-dir", str(state))
    key = out.strip()
    written = f"fairlead keys create: the hash of the key is written to {state}/keys.json"
    assert (code, err) == (0, f"{written}, in a new folder: no `fairlead up --state-dir` has used it so far\n")
    assert state.stat().st_mode & 0o777 == 0o700
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"plain": {"command": PLAIN[0], "args": PLAIN[1:]}}}))
    async with fairlead_up(tmp_path / "mcp.json", "--state-dir", state, cwd=tmp_path) as up:
        await up.ready("default/plain")
        (listening,) = [event for event in up.events if event["event"] == "listening"]
        assert listening["console"].endswith("/console/"), "a token would let nobody in"
        assert (await fairlead("tools", "--url", up.url))[0] == 1
        shown = ("--url", up.url, "--token", key)
        assert "plain__echo" in (await fairlead("tools", *shown))[1]

        code, out, err = await fairlead("keys", "create", "laptop", "--expires", "2d", *shown)
        made = out.strip()
        assert (code, f"the gateway at {up.url} created the key" in err) == (0, True)
        assert "plain__echo" in (await fairlead("tools", "--url", up.url, "--token", made))[1]
        listed = json.loads((await fairlead("keys", "list", "--json", *shown))[1])
        assert [each["name"] for each in listed] == ["laptop"]
        code, out, err = await fairlead("keys", "revoke", made[:-1], *shown)
        assert (code, made[:-1] in out + err, "not a complete key" in err) == (2, False, True)
        code, out, _ = await fairlead("keys", "revoke", made, *shown)
        assert (code, out) == (0, f"{listed[0]['id']} is revoked at {up.url}\n")

        async def is_refused() -> bool:
            return (await fairlead("tools", "--url", up.url, "--token", made))[0] == 1

        for verb in ("diff", "logs"):
            code, _, err = await fairlead(verb, "plain", *shown)
            assert (code, "FAIRLEAD_ADMIN_GROUPS (which `fairlead up` reads when it starts)" in err) == (1, True)
            assert ("chart" in err, "--namespace" in err, "--state-dir" in err) == (False, False, verb == "diff")

        await until_async("the revocation", is_refused)
        assert (await fairlead("keys", "create", "x", "--group", "g", *shown))[0] == 2
        both = ("--state-dir", str(state), "--file", str(tmp_path / "other.json"))
        code, _, err = await fairlead("keys", "list", *both)
        assert (code, "name different locations of keys" in err) == (2, True)
