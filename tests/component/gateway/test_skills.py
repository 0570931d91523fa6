"""Skills of several servers through one gateway: their names, their bytes, and the effect of a pin."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec import Raw

from extension_servers import ERAS, MERGED, OWN, extensions, host_request, read, world
from fairlead_api.documents.catalog import Catalog, Definition
from fairlead_api.documents.rules import Policy, Rule, Rules
from fairlead_mcp.methods import SKILLS
from gatewayworld import LEGACY, META, MODERN, Answer, ask, catalog, limits, modern, running
from rawserver import Reply, Request, raw_server
from toolservers import answer_handshake, answer_modern

SKILL: Final = "skill://pdf/SKILL.md"
NOTES: Final = "skill://pdf/notes.txt"
TEXT: Final = "---\r\nname: pdf\r\n---\r\nRead skill://pdf/notes.txt\u00e9\n"


def entry(uri: str, files: dict[str, str], **more: Any) -> dict[str, Any]:
    """The entry of a skill with these files."""
    named = [
        {"uri": file, "digest": "sha256:" + hashlib.sha256(text.encode()).hexdigest(), "size": len(text.encode())}
        for file, text in files.items()
    ]
    return {"uri": uri, "frontmatter": {"name": "pdf", "x": 1.50}, "resources": named, "x-unknown": [2], **more}


class SkillServer:
    """A server with one skill. `strict`: its methods require clients to declare the extension."""

    def __init__(self, name: str, era: str = MODERN, *, strict: bool = True) -> None:
        self.name = name
        self.era = era
        self.files = {SKILL: f"{TEXT}of {name}", NOTES: f"notes of {name}"}
        self.strict = strict
        self.skill = SKILL
        """URI of its one skill."""
        self.reads: list[tuple[str, str]] = []

    @property
    def capabilities(self) -> bytes:
        return json.dumps({"resources": {}, "extensions": {SKILLS: {"directoryRead": True}}}).encode()

    def catalog(self, url: str, **more: Any) -> Catalog:
        """The server's catalog. `pinned`: with its current skill as the approved one."""
        raw = json.dumps(entry(self.skill, self.files)).encode()
        skill = Definition(name=self.skill, definition=Raw(raw), hash="")
        return catalog(
            self.name, url, ["use"], version=self.era, skills=(skill,), capabilities=Raw(self.capabilities), **more
        )

    async def handle(self, request: Request, reply: Reply) -> None:
        if self.era == LEGACY and answer_handshake(request, reply):
            return None
        params = request.params
        modern = self.era == MODERN
        extensions = params.get("_meta", {}).get(META + "clientCapabilities", {}).get("extensions", {})
        uri = params.get("uri", "")
        if request.method in ("skills/get", "resources/directory/read", "resources/read"):
            self.reads.append((request.method, uri))
        if request.method == "skills/get" and modern and self.strict and SKILLS not in extensions:
            return reply.error(request, 400, -32021, "Missing", {"requiredCapabilities": {"extensions": {SKILLS: {}}}})
        result: dict[str, Any] | None = None
        if request.method == "skills/get":
            result = {"skill": entry(uri, self.files), "ttlMs": 5, "cacheScope": "public"}
        elif request.method == "resources/directory/read":
            result = {"resources": [{"uri": file, "name": "f"} for file in self.files]}
        elif request.method == "resources/read":
            result = {"contents": [{"uri": uri, "text": self.files.get(uri, "?"), "mimeType": "text/markdown"}]}
        if result is None:
            return answer_modern(request, reply) if modern else reply.error(request, 200, -32601, "?")
        return reply.result(request, {"resultType": "complete", **result} if modern else result)


@pytest.mark.parametrize(("era", "server_era"), ERAS)
async def test_skills_of_all_servers_are_listed_and_read_by_names_of_their_own(
    tmp_path: Path, era: str, server_era: str
) -> None:
    async with world(SkillServer, tmp_path, era=server_era) as (gateway, a, b):
        listed = (await ask(gateway, host_request("skills/list", {}, era))).message["result"]
        assert listed["ttlMs"] > 0
        assert listed["cacheScope"] == "private"
        assert [skill["uri"] for skill in listed["skills"]] == ["skill://a/pdf/SKILL.md", "skill://b/pdf/SKILL.md"]
        for server, skill in zip((a, b), listed["skills"], strict=True):
            assert (skill["frontmatter"], skill["x-unknown"]) == ({"name": "pdf", "x": 1.5}, [2])
            for file, own in zip(skill["resources"], server.files, strict=True):
                assert file["uri"] == own.replace("skill://", f"skill://{server.name}/")
                content = (await read(gateway, file["uri"], era)).message["result"]["contents"][0]
                data = content["text"].encode()
                assert content["uri"] == file["uri"]
                assert ("sha256:" + hashlib.sha256(data).hexdigest(), len(data)) == (file["digest"], file["size"])
            got = (await ask(gateway, host_request("skills/get", {"uri": skill["uri"]}, era))).message["result"][
                "skill"
            ]
            assert got == skill
            folder = f"skill://{server.name}/pdf"
            answer = (await ask(gateway, host_request("resources/directory/read", {"uri": folder}, era))).message[
                "result"
            ]
            assert [each["uri"] for each in answer["resources"]] == [each["uri"] for each in skill["resources"]]
        assert (await read(gateway, SKILL, era)).message["error"]["code"] in (-32602, -32002), "nobody guesses"
        verbatim = (await ask(gateway, host_request("skills/list", {}, era, OWN))).body
        assert json.dumps(entry(SKILL, a.files)).encode() in verbatim, "byte for byte"
        answer = (await read(gateway, NOTES, era, OWN)).message["result"]["contents"][0]
        assert (answer["uri"], answer["text"]) == (NOTES, "notes of a")


@pytest.mark.parametrize("server_era", [MODERN, LEGACY])
async def test_hosts_find_skills_where_a_server_has_them_and_nowhere_else(tmp_path: Path, server_era: str) -> None:
    plain = catalog("plain", "http://127.0.0.1:1/mcp", ["x"])
    async with world(SkillServer, tmp_path, plain, era=server_era) as (gateway, _, _):
        assert await extensions(gateway) == ({SKILLS: {"directoryRead": True}},) * 2
        for method, uri in (("skills/list", ""), ("skills/get", SKILL), ("resources/directory/read", SKILL)):
            for era in (MODERN, LEGACY):
                assert (
                    await ask(gateway, host_request(method, {"uri": uri}, era, "/servers/default/plain/mcp"))
                ).code == -32601


async def test_a_text_that_names_a_file_by_its_servers_name_leads_there_alone(tmp_path: Path) -> None:
    a = SkillServer("a")
    b = SkillServer("b")
    b.files = {"skill://other/SKILL.md": "x"}
    async with (
        raw_server(a.handle) as server_a,
        raw_server(b.handle) as server_b,
        running(tmp_path, a.catalog(server_a.url), b.catalog(server_b.url)) as gateway,
    ):
        content = (await read(gateway, NOTES)).message["result"]["contents"][0]
        assert (content["uri"], content["text"]) == ("skill://a/pdf/notes.txt", "notes of a")
        await read(gateway, "skill://a/other/SKILL.md")
        assert b.reads == [], "a skill of one server reads nothing of another"


@pytest.mark.parametrize("case", ["one skill", "one file", "a resource"])
async def test_a_skill_of_another_scheme_is_all_of_one_server(tmp_path: Path, case: str) -> None:
    """URIs of other schemes stay unchanged, so two servers may have the same URI. At the merged endpoint, a skill is
    left out if another server answers for one of its files.
    """
    a = SkillServer("a")
    b = SkillServer("b")
    a.skill = "repo://x/SKILL.md"
    b.skill = a.skill if case == "one skill" else "repo://y/SKILL.md"
    notes = "repo://x/notes.txt"
    for server in (a, b):
        server.files = {server.skill: f"skill of {server.name}", notes: f"notes of {server.name}"}
    beside: dict[str, Any] = {}
    if case == "a resource":
        b.files.pop(notes)
        raw = Raw(json.dumps({"uri": notes, "name": "n"}).encode())
        beside["resources"] = (Definition(name=notes, definition=raw, hash=""),)
    async with (
        raw_server(a.handle) as server_a,
        raw_server(b.handle) as server_b,
        running(tmp_path, a.catalog(server_a.url), b.catalog(server_b.url, **beside)) as gateway,
    ):
        shown = b if case == "a resource" else a
        listed = (await ask(gateway, host_request("skills/list", {}))).message["result"]["skills"]
        assert [skill["uri"] for skill in listed] == [shown.skill]
        for uri in shown.files:
            assert (await read(gateway, uri)).message["result"]["contents"][0]["text"] == shown.files[uri]
        assert (await ask(gateway, host_request("skills/get", {"uri": shown.skill}))).status == 200
        assert (a if shown is b else b).reads == [], "no file of it is another server's"
        for server in (a, b):
            there = await ask(gateway, host_request("skills/list", {}, target=f"/servers/default/{server.name}/mcp"))
            assert [skill["uri"] for skill in there.message["result"]["skills"]] == [server.skill]


async def test_bytes_that_change_under_a_pin_are_not_passed_on(tmp_path: Path) -> None:
    async with world(SkillServer, tmp_path, pinned=True) as (gateway, a, b):
        for target, shown in ((MERGED, "skill://a/"), (OWN, "skill://")):

            async def get(uri: str, method: str = "resources/read", shown: str = shown, target: str = target) -> Answer:
                return await ask(gateway, host_request(method, {"uri": uri.replace("skill://", shown)}, target=target))

            before = dict(a.files)
            assert (await get(NOTES)).status == (await get(SKILL, "skills/get")).status == 200
            a.files[NOTES] = "notes of A"
            refused = await get(NOTES)
            assert (refused.code, "differs from the approved file" in refused.message["error"]["message"]) == (
                -32603,
                True,
            )
            assert b"notes of A" not in refused.body
            assert (await get(SKILL)).status == 200, "the file that is as it was"
            changed = await get(SKILL, "skills/get")
            assert (changed.code, "approved" in changed.message["error"]["message"]) == (-32603, True)
            for unlisted in (
                "skill://pdf/more.txt",
                "skill://pdf/./notes.txt",
                "SKILL://pdf/notes.txt",
                "skill://new/x",
            ):
                assert "error" in (await get(unlisted)).message, unlisted
            assert "error" in (await get("skill://new/SKILL.md", "skills/get")).message
            a.files = before
            assert (await get(NOTES)).status == 200
        b.files[NOTES] = "else"
        assert b"else" in (await read(gateway, "skill://b/pdf/notes.txt")).body, "which hosts compare themselves"


async def test_a_skill_with_control_characters_is_refused_where_policies_want_them_shown(tmp_path: Path) -> None:
    policy = Policy(
        namespace="default",
        name="p",
        every=True,
        control_characters="Escape",
        rules=(Rule(action="Allow", tools=("*",)),),
    )
    async with world(SkillServer, tmp_path, Rules(policies=(policy,))) as (gateway, a, _):
        assert (await read(gateway, "skill://a/pdf/notes.txt")).message["result"]["contents"][0]["text"] == "notes of a"
        a.files[NOTES] = "notes \x1b[2J of a"
        refused = await read(gateway, "skill://a/pdf/notes.txt")
        assert (refused.code, b"notes" in refused.body.replace(b"notes.txt", b"")) == (-32603, False)


async def test_limits_of_a_server_hold_for_its_skills(tmp_path: Path) -> None:
    a = SkillServer("a")
    async with (
        raw_server(a.handle) as server_a,
        running(tmp_path, a.catalog(server_a.url, limits=limits(calls_per_second=0.01))) as gateway,
    ):
        first, second = [
            await ask(gateway, host_request("skills/get", {"uri": "skill://a/pdf/SKILL.md"})) for _ in range(2)
        ]
        assert first.status == 200
        assert second.message["error"]["data"]["fairlead.dev/error"]["code"] == "RATE_LIMITED"
        assert len(a.reads) == 1


async def test_a_server_that_a_policy_hides_has_no_skills(tmp_path: Path) -> None:
    policy = Policy(namespace="default", name="p", servers=("a",), rules=(Rule(action="Deny", tools=("*",)),))
    async with world(SkillServer, tmp_path, Rules(policies=(policy,))) as (gateway, a, _):
        listed = (await ask(gateway, host_request("skills/list", {}))).message["result"]["skills"]
        assert [skill["uri"] for skill in listed] == ["skill://b/pdf/SKILL.md"]
        for method in ("resources/read", "skills/get", "resources/directory/read"):
            assert (await ask(gateway, host_request(method, {"uri": "skill://a/pdf/SKILL.md"}))).code == -32602
        assert a.reads == []


async def test_a_server_that_insists_hears_of_what_its_client_declares(tmp_path: Path) -> None:
    async with world(SkillServer, tmp_path) as (gateway, _, _):
        extension_not_declared = modern("skills/get", {"uri": "skill://a/pdf/SKILL.md"})
        assert (await ask(gateway, extension_not_declared)).code == -32021
        told = await ask(gateway, host_request("skills/get", {"uri": "skill://a/pdf/SKILL.md"}, LEGACY))
        assert told.status == 200, "for a legacy client the gateway declares what it passes on"
