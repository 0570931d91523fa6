"""A server of skills on the wire (SEP-2640), of one era, whose files a test may change."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

from msgspec import Raw

from fairlead_api.documents.catalog import Catalog, Definition
from fairlead_mcp.methods import SKILLS
from gatewayworld import LEGACY, META, MODERN, catalog
from rawserver import Reply, Request
from toolservers import answer_modern, greeted

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
    """A server with one skill. `strict`: its methods want the client to declare the extension."""

    def __init__(self, name: str, era: str = MODERN, *, strict: bool = True) -> None:
        self.name = name
        self.era = era
        self.files = {SKILL: f"{TEXT}of {name}", NOTES: f"notes of {name}"}
        self.strict = strict
        self.skill = SKILL
        """URI of its one skill."""
        self.asked: list[tuple[str, str]] = []

    @property
    def capabilities(self) -> bytes:
        return json.dumps({"resources": {}, "extensions": {SKILLS: {"directoryRead": True}}}).encode()

    def catalog(self, url: str, **more: Any) -> Catalog:
        """Its catalog; `pinned` as it is now."""
        raw = json.dumps(entry(self.skill, self.files)).encode()
        skill = Definition(name=self.skill, definition=Raw(raw), hash="")
        return catalog(
            self.name, url, ["use"], version=self.era, skills=(skill,), capabilities=Raw(self.capabilities), **more
        )

    async def handle(self, request: Request, reply: Reply) -> None:
        if self.era == LEGACY and greeted(request, reply):
            return None
        params, modern = request.params, self.era == MODERN
        said = params.get("_meta", {}).get(META + "clientCapabilities", {}).get("extensions", {})
        uri = params.get("uri", "")
        if request.method in ("skills/get", "resources/directory/read", "resources/read"):
            self.asked.append((request.method, uri))
        if request.method == "skills/get" and modern and self.strict and SKILLS not in said:
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
